package rdma

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket/pcapgo"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// readRoCE returns the RoCE packets of a capture.
func readRoCE(t *testing.T, path string) []packet.Packet {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var list []packet.Packet
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return list
		}
		var p packet.Packet
		if err == nil {
			err = p.Parse(frame)
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.IsRoCE() {
			list = append(list, p)
		}
	}
}

// answer returns the part of an answer that both responders must agree on. It omits the opcode of READ responses,
// because Linux continues a replayed READ with MIDDLE where the specification requires FIRST.
func answer(p *packet.Packet, ipsn packet.PSN) string {
	rel := p.BTH.PSN.Sub(ipsn) + 1
	if p.BTH.Opcode.IsReadResponse() {
		return fmt.Sprintf("READ response %d, %d bytes", rel, len(p.Payload))
	}
	return fmt.Sprintf("%s %d msn %d", p.Class(), rel, p.AETH.MSN)
}

// appendAnswer appends an answer unless it equals the last one: the number of ACKs of duplicates depends on coalescing.
func appendAnswer(list []string, a string) []string {
	if len(list) > 0 && list[len(list)-1] == a {
		return list
	}
	return append(list, a)
}

// Our responder gets the requests that reached Linux's soft-RoCE and must give the same answers.
func TestResponderAgreesWithLinux(t *testing.T) {
	const dir = "../../packet/testdata/rxe"
	delivered, err := filepath.Glob(dir + "/*.out.pcap")
	if err != nil || len(delivered) == 0 {
		t.Fatalf("no captures in %s: %v", dir, err)
	}
	for _, path := range delivered {
		name := filepath.Base(path[:len(path)-len(".out.pcap")])
		t.Run(name, func(t *testing.T) {
			requester := netip.MustParseAddr("10.0.0.1")
			var requests, responses []packet.Packet
			for _, p := range readRoCE(t, path) {
				if p.IP.Src == requester {
					requests = append(requests, p)
				}
			}
			for _, p := range readRoCE(t, filepath.Join(dir, name+".in.pcap")) {
				if p.IP.Src != requester && p.BTH.Opcode != packet.CNP {
					responses = append(responses, p)
				}
			}
			ipsn := requests[0].BTH.PSN
			var want []string
			for i := range responses {
				want = appendAnswer(want, answer(&responses[i], ipsn))
			}
			if diff := cmp.Diff(want, respond(t, requests, responses[0].BTH.DestQP)); diff != "" {
				t.Errorf("-Linux +ours\n%s", diff)
			}
		})
	}
}

// respond passes requests to a responder without latency, and returns its answers.
func respond(t *testing.T, requests []packet.Packet, remote packet.QPN) []string {
	first := &requests[0]
	profile := Spec()
	profile.AckLatency, profile.NackGeneration, profile.ReadResponseLatency, profile.AckCoalescing = 0, 0, 0, false
	nic, err := NewNIC(Config{Name: "dut", MAC: first.Eth.Dst, IPs: []netip.Addr{first.IP.Dst}, Profile: profile,
		PortRate: clock.Gbps,
		Rand:     rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		t.Fatal(err)
	}
	q, err := nic.CreateQP(QPConfig{LocalIP: first.IP.Dst, MaxReads: 128})
	if err != nil {
		t.Fatal(err)
	}
	q.region = generator.Region{Length: 1<<64 - 1, RKey: first.RETH.RKey}
	for range 10 {
		if err := q.PostRecv(0, generator.ReceiveRequest{Length: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Connect(Remote{IP: first.IP.Src, QPN: remote, IPSN: first.BTH.PSN, MAC: first.Eth.Src}); err != nil {
		t.Fatal(err)
	}
	var got []string
	var p packet.Packet
	for i := range requests {
		requests[i].Derived = requests[i].CheckICRC() == packet.ICRCValid // keeps the iCRC valid after the change of the QPN
		requests[i].BTH.DestQP = q.qpn
		nic.HandlePacket(clock.Time(i), &requests[i])
		for nic.Poll(clock.Time(i), &p) {
			got = appendAnswer(got, answer(&p, first.BTH.PSN))
		}
	}
	return got
}
