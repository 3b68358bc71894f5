package wireshark_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet"
	"candela.dev/candela/packet/fairshim"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
	"candela.dev/candela/trace/wireshark"
)

// udp returns a frame over IPv4 or IPv6 with the given payload.
func udp(t *testing.T, six bool, from, to uint16, payload []byte) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4}
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	} = &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1},
		DstIP: net.IP{10, 0, 0, 2}}
	if six {
		eth.EthernetType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP("fd00::1"),
			DstIP: net.ParseIP("fd00::2")}
	}
	l4 := &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
	if err := l4.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, opts, eth, ip, l4, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Bytes())
}

// tshark decodes frames with the dissector and returns one line of fields for each.
func tshark(t *testing.T, frames [][]byte, fields ...string) []string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("SKIP-tool: tshark is not installed (Debian package tshark)")
	}
	dir := t.TempDir()
	script, capture := filepath.Join(dir, "candela.lua"), filepath.Join(dir, "frames.pcap")
	var file bytes.Buffer
	w := trace.NewPcapWriter(&file, capture, 0)
	for i, f := range frames {
		if err := w.Write(int64(i)*1000, f, len(f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{script: []byte(wireshark.Dissector), capture: file.Bytes()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-X", "lua_script:" + script, "-r", capture, "--disable-protocol", "rpcordma",
		"-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E",
		"separator=|"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "Lua") {
		t.Fatalf("tshark: %v\n%s", err, stderr.String())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func TestTsharkReadsNDP(t *testing.T) {
	headers := []ndp.Header{
		{Kind: ndp.Data, Flags: ndp.FlagSYN | ndp.FlagLast, Connection: 7, Seq: 41, Counter: 5, Path: 3, Length: 100},
		{Kind: ndp.Data, Flags: ndp.FlagTrimmed, Connection: 1 << 31, Seq: 1<<32 - 1, Counter: 9, Path: 0xffff, Length: 1436},
		{Kind: ndp.Data, Flags: ndp.FlagTrimmed | ndp.FlagReturned, Connection: 7, Seq: 2, Length: 1436},
		{Kind: ndp.Data, Connection: 7, Seq: 3, Length: 1436}, // cut without a mark
		{Kind: ndp.Ack, Connection: 7, Seq: 41, Counter: 12, Path: 3},
		{Kind: ndp.Nack, Connection: 7, Seq: 42, Counter: 12},
		{Kind: ndp.Pull, Connection: 7, Counter: 77},
	}
	carried := []int{100, 0, 64, 500, 0, 0, 0}
	var frames [][]byte
	var want []string
	for i, h := range headers {
		from, to := uint16(50000), uint16(ndp.Port)
		if h.Flags&ndp.FlagReturned != 0 {
			from, to = to, from
		}
		frames = append(frames, udp(t, i%2 == 1, from, to, append(h.AppendTo(nil), make([]byte, carried[i])...)))
		missing := ""
		if h.Kind == ndp.Data && (h.Flags&ndp.FlagTrimmed != 0 || carried[i] < int(h.Length)) {
			missing = fmt.Sprint(int(h.Length) - carried[i])
		}
		want = append(want, fmt.Sprintf("NDP|%d|0x%02x|%d|%d|%d|%d|%d|1|%s", h.Kind, uint8(h.Flags), h.Connection, h.Seq,
			h.Counter, h.Path,
			h.Length, missing))
	}
	got := tshark(t, frames, "_ws.col.Protocol", "candela_ndp.kind", "candela_ndp.flags", "candela_ndp.connection",
		"candela_ndp.seq",
		"candela_ndp.counter", "candela_ndp.path", "candela_ndp.length", "candela_ndp.checksum.good", "candela_ndp.missing")
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("%v:\n got %v\nwant %s", &headers[i], got[min(i, len(got)-1)], want[i])
		}
	}
}

// What follows a label is dissected as without it, and its checksum holds.
func TestTsharkReadsLabels(t *testing.T) {
	var frames [][]byte
	var want []string
	for i, nodes := range [][]uint16{nil, {1}, {1, 7, 300}} {
		h := fairshim.Header{Kbps: 5_797_000 + uint32(i)}
		h.SetNodes(nodes...)
		for _, six := range []bool{false, true} {
			frame, err := h.Insert(udp(t, six, 50000, 9, []byte("payload")), 0)
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, frame)
			list := strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ","), "[]")
			want = append(want, fmt.Sprintf("%d|%d|%s|17|50000|1|7061796c6f6164|%s", len(nodes)+1, h.Kbps, list,
				map[bool]string{false: "1", true: ""}[six]))
		}
	}
	frames = append(frames, bytes.Clone(frames[5]), bytes.Clone(frames[0]))
	frames[6][54+7] = 8     // node 8 is above node 7
	frames[7][34] ^= 1 << 4 // another version
	want = append(want, "4|5797002|8,7,300|17|50000|1|7061796c6f6164|",
		"||||||011100587488c3500009000f6b447061796c6f6164|1")
	got := tshark(t, frames, "candela_fair.depth", "candela_fair.rate_kbps", "candela_fair.node", "candela_fair.next",
		"udp.srcport", "udp.checksum.status", "data.data", "ip.checksum.status")
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("frame %d:\n got %v\nwant %s", i, got[min(i, len(got)-1)], want[i])
		}
	}
	got = tshark(t, frames, "_ws.expert.message")
	for i, message := range got {
		if strings.Contains(message, "order of a path") != (i == 6) {
			t.Errorf("frame %d: %q", i, message)
		}
	}
}

func TestTsharkReadsPacketsOfLockManagers(t *testing.T) {
	headers := []netlock.Header{
		{Op: netlock.Acquire, Mode: netlock.Exclusive, Client: 3, Transaction: 1 << 31, Lock: 55_000, Timestamp: 1 << 63},
		{Op: netlock.Release, Transaction: 9, Lock: 1, Mark: netlock.BufferOnly, Priority: 2, Tenant: 515},
		{Op: netlock.PushRequest, Lock: 1, Avail: 16, Sent: 1 << 40},
		{Op: netlock.PushBack, Transaction: 9, Lock: 1, Last: true, Received: 5, Address: netip.MustParseAddr("10.0.0.7")},
		{Op: netlock.PushEmpty, Lock: 1, Address: netip.MustParseAddr("fd00::7")},
	}
	var frames [][]byte
	for i, h := range headers {
		frames = append(frames, udp(t, i%2 == 1, 50000, []uint16{netlock.Port, netlock.ReplyPort}[i%2], h.AppendTo(nil)))
	}
	damaged := append(headers[0].AppendTo(nil), 24, 1, 1)
	frames = append(frames, udp(t, false, 50000, netlock.Port, damaged))
	want := []string{
		"0|1|3|2147483648|55000|9223372036854775808|||||||||",
		"1|0|0|9|1|0|2|2|515||||||",
		"5|0|0|0|1|0|||||16|1099511627776|||",
		"2|0|0|9|1|0||||1|||5|10.0.0.7|",
		"6|0|0|0|1|0|||||||||fd00::7",
		"0|1|3|2147483648|55000|9223372036854775808|||||||||",
	}
	got := tshark(t, frames, "candela_lock.op", "candela_lock.mode", "candela_lock.client", "candela_lock.transaction",
		"candela_lock.id", "candela_lock.timestamp", "candela_lock.mark", "candela_lock.priority", "candela_lock.tenant",
		"candela_lock.last", "candela_lock.avail", "candela_lock.sent", "candela_lock.received",
		"candela_lock.address", "candela_lock.address6")
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("frame %d:\n got %v\nwant %s", i, got[min(i, len(got)-1)], want[i])
		}
	}
	for i, info := range tshark(t, frames, "_ws.col.Info", "_ws.expert.message") {
		begins := []string{"ACQUIRE X lock 55000 transaction 2147483648", "answer to RELEASE S lock 1 transaction 9 BUFFER_ONLY",
			"PUSH_REQ", "answer to PUSH_BACK", "PUSH_EMPTY", "ACQUIRE"}[i]
		if !strings.HasPrefix(info, begins) || strings.Contains(info, "damaged option") != (i == 5) {
			t.Errorf("frame %d: %s", i, info)
		}
	}
}

func TestTsharkTellsDamagedAndForeignPackets(t *testing.T) {
	damaged := (&ndp.Header{Kind: ndp.Ack, Seq: 4}).AppendTo(nil)
	damaged[11] ^= 1
	frames := [][]byte{udp(t, false, 50000, ndp.Port, damaged),
		udp(t, false, 50000, ndp.Port, []byte("nothing of ours, but as long as"))}
	got := tshark(t, frames, "candela_ndp.kind", "candela_ndp.checksum.good", "_ws.expert.message")
	if len(got) != 2 || got[0] != "2|0|NDP header checksum is wrong" || strings.HasPrefix(got[1], "2") ||
		!strings.HasPrefix(got[1], "||") {
		t.Errorf("got %q", got)
	}
}

func TestTsharkReadsWhatMirrorCopiesCarry(t *testing.T) {
	roce := func(six bool) []byte {
		return udp(t, six, 50000, packet.Port,
			append([]byte{4, 0x40, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 5}, make([]byte, 68)...))
	}
	metas := []trace.MirrorMeta{
		{Event: trace.EventDrop, Seq: 1, TimeNS: 123456789, UDPDstPort: packet.Port},
		{Event: trace.EventTrim, Seq: 1<<48 - 1, TimeNS: 1<<48 - 2, UDPDstPort: packet.Port},
		{Event: trace.EventNone, Seq: 3, TimeNS: 0, UDPDstPort: packet.Port},
	}
	var frames [][]byte
	var want []string
	for i, m := range metas {
		f := roce(i%2 == 1)
		if err := trace.EncodeMirror(f, m); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
		want = append(want, fmt.Sprintf("%d|%d|%d", m.Event, m.Seq, m.TimeNS))
	}
	frames = append(frames, roce(false)) // TTL 64: an ordinary RoCE packet
	want = append(want, "||")
	got := tshark(t, frames, "candela_mirror.event", "candela_mirror.seq", "candela_mirror.time_ns")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
