package packet_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/packet"
)

// A comparison is one field of tshark's InfiniBand dissector and what our decode of the packet makes of it; "" means
// that the packet has no such field.
type comparison struct {
	field string
	ours  func(p *packet.Packet) string
}

func flagField(name string, get func(h *packet.BTH) bool) comparison {
	return comparison{name, func(p *packet.Packet) string {
		if get(&p.BTH) {
			return "1"
		}
		return "0"
	}}
}

// ifHas formats values that only packets with all of the headers h have, or with one of them if any is set.
func ifHas(h packet.Headers, format string, get func(p *packet.Packet) any) func(p *packet.Packet) string {
	return func(p *packet.Packet) string {
		if p.Headers&h == 0 {
			return ""
		}
		return fmt.Sprintf(format, get(p))
	}
}

// ifSyndrome formats the low five bits of syndromes of one kind, which tshark shows under a name of their own.
func ifSyndrome(is func(packet.Syndrome) bool) func(p *packet.Packet) string {
	return func(p *packet.Packet) string {
		if p.Headers&packet.HasAETH == 0 || !is(p.AETH.Syndrome) {
			return ""
		}
		return fmt.Sprint(p.AETH.Syndrome.TimerCode())
	}
}

var comparisons = []comparison{
	{"infiniband.bth", func(p *packet.Packet) string {
		return hex.EncodeToString(p.AppendTransportHeaders(nil)[:packet.BTHLen])
	}},
	{"infiniband.bth.opcode", func(p *packet.Packet) string { return fmt.Sprintf("%d", uint8(p.BTH.Opcode)) }},
	flagField("infiniband.bth.se", func(h *packet.BTH) bool { return h.Solicited }),
	flagField("infiniband.bth.m", func(h *packet.BTH) bool { return h.MigReq }),
	{"infiniband.bth.padcnt", func(p *packet.Packet) string { return fmt.Sprint(p.BTH.PadCount) }},
	{"infiniband.bth.tver", func(p *packet.Packet) string { return fmt.Sprint(p.BTH.Version) }},
	{"infiniband.bth.p_key", func(p *packet.Packet) string { return fmt.Sprint(p.BTH.PKey) }},
	{"infiniband.bth.destqp", func(p *packet.Packet) string { return p.BTH.DestQP.String() }},
	flagField("infiniband.bth.a", func(h *packet.BTH) bool { return h.AckReq }),
	{"infiniband.bth.reserved7", func(p *packet.Packet) string { return fmt.Sprint(p.BTH.Resv7) }},
	{"infiniband.bth.psn", func(p *packet.Packet) string { return p.BTH.PSN.String() }},
	// tshark shows address and key of an AtomicETH under the names of the RETH's.
	{"infiniband.reth.va", ifHas(packet.HasRETH|packet.HasAtomicETH, "0x%016x",
		func(p *packet.Packet) any { return p.RETH.VA | p.AtomicETH.VA })},
	{"infiniband.reth.r_key", ifHas(packet.HasRETH|packet.HasAtomicETH, "0x%08x",
		func(p *packet.Packet) any { return p.RETH.RKey | p.AtomicETH.RKey })},
	{"infiniband.reth.dmalen", ifHas(packet.HasRETH, "%d", func(p *packet.Packet) any { return p.RETH.Length })},
	{"infiniband.atomiceth.swapdt",
		ifHas(packet.HasAtomicETH, "%d", func(p *packet.Packet) any { return p.AtomicETH.Swap })},
	{"infiniband.atomiceth.cmpdt",
		ifHas(packet.HasAtomicETH, "%d", func(p *packet.Packet) any { return p.AtomicETH.Compare })},
	{"infiniband.aeth.syndrome", ifHas(packet.HasAETH, "%d",
		func(p *packet.Packet) any { return uint8(p.AETH.Syndrome) })},
	{"infiniband.aeth.syndrome.credit_count", ifSyndrome(packet.Syndrome.IsAck)},
	{"infiniband.aeth.syndrome.timer", ifSyndrome(packet.Syndrome.IsRNR)},
	{"infiniband.aeth.syndrome.error_code", ifSyndrome(packet.Syndrome.IsNak)},
	{"infiniband.aeth.msn", ifHas(packet.HasAETH, "%d", func(p *packet.Packet) any { return p.AETH.MSN })},
	{"infiniband.atomicacketh.origremdt",
		ifHas(packet.HasAtomicAckETH, "%d", func(p *packet.Packet) any { return p.AtomicAckETH })},
	{"infiniband.immdt", ifHas(packet.HasImmDt, "%08x", func(p *packet.Packet) any { return p.ImmDt })},
	{"infiniband.ieth", ifHas(packet.HasIETH, "%08x", func(p *packet.Packet) any { return p.IETH })},
	{"infiniband.invariant.crc", func(p *packet.Packet) string {
		if p.BTH.Opcode == packet.CNP {
			return "" // tshark takes a CNP's iCRC for data
		}
		return fmt.Sprintf("0x%08x", wireOrder(p.ICRC))
	}},
	{"ip.checksum.status", func(p *packet.Packet) string {
		if p.IP.Version == 6 {
			return ""
		}
		return "1" // good
	}},
	{"udp.checksum.status", func(p *packet.Packet) string {
		switch {
		case p.UDP.Checksum != 0:
			return "1" // good
		case p.IP.Version == 6:
			return "4" // illegal by RFC 8200, usual in RoCEv2
		}
		return "3" // not present
	}},
	{"_ws.malformed", func(*packet.Packet) string { return "" }},
}

func wireOrder(icrc uint32) uint32 { return icrc<<24 | icrc>>24 | icrc<<8&0xff0000 | icrc>>8&0xff00 }

// tsharkRows returns tshark's values of the fields of all comparisons, a row per frame with a BTH, by frame number.
func tsharkRows(t *testing.T, file string) map[string][]string {
	t.Helper()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed (make setup): nobody to compare with")
	}
	args := []string{"-r", file, "-Y", "infiniband", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f",
		"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		// The heuristic of RPC over RDMA claims empty and short SENDs, then calls them malformed.
		"--disable-protocol", "rpcordma", "-e", "frame.number"}
	for _, c := range comparisons {
		args = append(args, "-e", c.field)
	}
	cmd := exec.CommandContext(t.Context(), tshark, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // nobody's preferences
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	rows := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		number, values, _ := strings.Cut(lines.Text(), "|")
		rows[number] = strings.Split(values, "|")
	}
	return rows
}

func compareWithTshark(t *testing.T, frames [][]byte, rows map[string][]string) {
	t.Helper()
	for n, frame := range frames {
		var p packet.Packet
		if err := p.Parse(frame); err != nil {
			t.Fatalf("frame %d: %v", n+1, err)
		}
		row, dissected := rows[fmt.Sprint(n+1)]
		if dissected != p.IsRoCE() {
			t.Errorf("frame %d: tshark finds InfiniBand: %v, we: %v", n+1, dissected, p.IsRoCE())
			continue
		}
		if !dissected {
			continue
		}
		for i, c := range comparisons {
			if ours := c.ours(&p); row[i] != ours {
				t.Errorf("frame %d, %v: %s is %q to tshark, %q to us", n+1, p.BTH.Opcode, c.field, row[i], ours)
			}
		}
	}
}

func TestTsharkAgreesOnSoftRoCE(t *testing.T) {
	t.Parallel()
	var frames [][]byte
	for _, file := range rxeFiles(t) {
		frames = append(frames, readFrames(t, file)...)
	}
	// One file, one process: starting tshark takes longer than all the packets.
	all := filepath.Join(t.TempDir(), "rxe.pcap")
	if err := os.WriteFile(all, writeCapture(t, frames), 0o600); err != nil {
		t.Fatal(err)
	}
	compareWithTshark(t, frames, tsharkRows(t, all))
}

func TestTsharkAgreesOnWhatWeWrite(t *testing.T) {
	t.Parallel()
	compareWithTshark(t, readFrames(t, syntheticFile), tsharkRows(t, syntheticFile))
}
