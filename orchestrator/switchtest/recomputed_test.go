package switchtest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/packet/ndp"
)

// sight is a data packet in a capture.
type sight struct {
	at      time.Time
	frame   int // bytes
	number  uint32
	payload int
	cut     bool
}

// sights reads the data packets from one host to another as gopacket reads them.
func sights(t *testing.T, dir, name string, src, dst int) (list []sight) {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "taps", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapgo.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.NoCopy)
		ip, ok := p.NetworkLayer().(*layers.IPv4)
		host := func(ip []byte) int { return int(binary.BigEndian.Uint32(ip)&0xffffff) - 1 }
		if !ok || host(ip.SrcIP.To4()) != src || host(ip.DstIP.To4()) != dst {
			continue
		}
		s := sight{at: ci.Timestamp, frame: ci.Length}
		switch l := p.TransportLayer().(type) {
		case *layers.TCP:
			s.number, s.payload = l.Seq, int(ip.Length)-4*int(ip.IHL)-4*int(l.DataOffset)
		case *layers.UDP:
			var h ndp.Header
			if err := h.Parse(l.Payload); err != nil {
				t.Fatal(err)
			}
			if h.Kind == ndp.Data {
				s.number, s.payload, s.cut = h.Seq, int(h.Length), h.Trimmed(len(l.Payload))
			}
		}
		if s.payload > 0 {
			list = append(list, s)
		}
	}
}

// recompute returns what captures before and after a switch show of a flow, and how many duplicates came after its end.
func recompute(t *testing.T, dir string, f *switchtest.FlowResult, lastLink func(frame int) time.Duration) (
	got switchtest.FlowResult, late int64) {
	t.Helper()
	sent := make(map[uint32]bool)
	for _, s := range sights(t, dir, "before.pcap", f.Src, f.Dst) {
		got.Sent++
		if sent[s.number] {
			got.Retransmissions++
		}
		sent[s.number] = true
	}
	arrived, top := make(map[uint32]bool), int64(-1)
	for _, s := range sights(t, dir, "behind.pcap", f.Src, f.Dst) {
		switch {
		case s.cut:
			got.Headers++
			continue
		case arrived[s.number]:
			got.Duplicates++
			if got.Finished {
				late++
			}
			continue
		}
		arrived[s.number] = true
		got.Whole++
		got.Payload += int64(s.payload)
		if int64(s.number) < top {
			got.Reordered++
		}
		top = max(top, int64(s.number))
		if got.Payload == f.Bytes {
			got.Finished = true
			got.FCTNS = int64(s.at.Sub(time.Unix(0, 0))+lastLink(s.frame)) - f.StartNS
		}
	}
	return got, late
}

// What is computed from the captures of a run, by gopacket, equals what its taps booked and what endpoints said of the
// flows when nothing was tapped, packet by packet; completion times but for the resolution of captures.
func TestFlowStatisticsAreThoseOfTheCaptures(t *testing.T) {
	for _, c := range []struct{ name, model, hosts string }{
		{"tcp", "{model: droptail, data-queue-bytes: 20000}", "{transport: tcp, min-rto-us: 2000, send-jitter-us: 1}"},
		{"ndp", "{model: ndp-ideal, data-queue-bytes: 12000}", "{transport: ndp}"},
	} {
		text := fmt.Sprintf(`
topology: {kind: single-switch, hosts: 7, link: {gbps: 10}}
switch-under-test: %s
hosts: %s
workload:
  - incast: {senders: 6, bytes: 200001, stagger-us: 7}
  - flow: {src: 0, dst: 3, bytes: 1, start-us: 50}
`, c.model, c.hosts)
		full := outcome(t, text+"taps: {capture: true}\n")
		streamed := flowsOf(t, outcome(t, text+"judge: off\nexpect: {unfinished: 0}\n").Dir).Flows
		link := parse(t, text)[0].Topology.Link
		lastLink := func(frame int) time.Duration {
			return time.Duration((link.Rate.Serialise(frame+link.Framing) + link.Delay) / clock.Nanosecond)
		}
		resent := int64(0)
		for i, f := range flowsOf(t, full.Dir).Flows {
			want, late := recompute(t, full.Dir, &f, lastLink)
			resent += want.Retransmissions
			for where, of := range map[string]*switchtest.FlowResult{"taps": &f, "endpoints": &streamed[i]} {
				got := switchtest.FlowResult{Sent: of.Sent, Whole: of.Whole, Payload: of.Payload, Duplicates: of.Duplicates,
					Headers: of.Headers, Reordered: of.Reordered, Retransmissions: of.Retransmissions, Finished: of.Finished,
					FCTNS: of.FCTNS}
				if off := got.FCTNS - want.FCTNS; off >= -2 && off <= 2 {
					got.FCTNS = want.FCTNS
				}
				if where == "endpoints" { // they book a flow when its receiver has all of it
					got.Duplicates += late
				}
				if got != want {
					t.Errorf("%s, flow %d: %s\n%+v, the captures\n%+v", c.name, f.Flow, where, got, want)
				}
			}
		}
		if resent == 0 {
			t.Errorf("%s: nothing was lost, which shows little", c.name)
		}
	}
}
