package rdma

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

func TestNICConfigIsChecked(t *testing.T) {
	_, err := NewNIC(Config{Name: "a", IPs: []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1")}, DSCP: 64,
		Profile: Profile{TimeoutFactor: -1}, NP: NotificationPoint{Enable: true, Interval: -1},
		RP: ReactionPoint{G: 2, MinRate: -1, ByteCounter: -1}})
	for _, want := range []string{`NIC "a"`, "random", "port rate 0", "::ffff:10.0.0.1", "DSCP 64",
		"negative timeout factor",
		"time between CNPs", "g 2", "DCQCN rate is negative", "byte counter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	_, err = NewNIC(Config{Rand: rand.New(rand.NewPCG(1, 1)), PortRate: 1})
	if err == nil || !strings.Contains(err.Error(), "no IP address") {
		t.Errorf("error %v", err)
	}
}

func newTestNIC(t *testing.T) *NIC {
	t.Helper()
	nic, err := NewNIC(Config{Name: "a", IPs: addresses[:1], Profile: Spec(), PortRate: clock.Gbps,
		Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		t.Fatal(err)
	}
	return nic
}

func TestQPConfigIsChecked(t *testing.T) {
	_, err := newTestNIC(t).CreateQP(QPConfig{LocalIP: addresses[0], MTU: 1500, RetryCount: 8, RNRRetry: 8, Timeout: 32,
		MinRNRTimer: 32, MaxReads: 256, IPSN: 1 << 24})
	for _, want := range []string{"MTU 1500", "retry count 8", "RNR retry count 8", "timeout exponent 32",
		"RNR timer code 32",
		"256 outstanding", "initial PSN 16777216"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	_, err = newTestNIC(t).CreateQP(QPConfig{LocalIP: addresses[1]})
	if err == nil || !strings.Contains(err.Error(), "10.0.0.1") {
		t.Errorf("foreign local address: %v", err)
	}
}

func TestConnectIsChecked(t *testing.T) {
	good := Remote{IP: addresses[1], QPN: 5, IPSN: 1}
	for name, spoil := range map[string]func(r *Remote){
		"remote address fd00::1": func(r *Remote) { r.IP = addresses6[1] },
		"remote QPN 0x000001":    func(r *Remote) { r.QPN = 1 },
		"remote IPSN 16777216":   func(r *Remote) { r.IPSN = 1 << 24 },
	} {
		q, err := newTestNIC(t).CreateQP(QPConfig{LocalIP: addresses[0]})
		if err != nil {
			t.Fatal(err)
		}
		r := good
		spoil(&r)
		if err := q.Connect(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if err := q.PostSend(0, generator.WorkRequest{Verb: generator.Write}); err == nil {
			t.Error("posted to a queue pair that is not connected")
		}
		if err := q.Connect(good); err != nil || q.Remote() != good || q.Failed() {
			t.Error(err)
		}
		if err := q.Connect(good); err == nil {
			t.Error("connected twice")
		}
	}
}

func TestImpossibleWorkRequestsAreRefused(t *testing.T) {
	s := newScript(t, QPConfig{MTU: 256}, Bugs{}, NotificationPoint{})
	for want, wr := range map[string]generator.WorkRequest{
		"not an operation":    {},
		"0 to 2^31":           {Verb: generator.Write, Length: -1},
		"0 to 2^31 bytes":     {Verb: generator.Read, Length: 1<<31 + 1},
		"half the PSN space":  {Verb: generator.Write, Length: 1 << 31},
		"message length -512": {Verb: generator.Send, Length: -512},
	} {
		if err := s.qp.PostSend(0, wr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", wr, err)
		}
	}
	if err := s.qp.PostRecv(0, generator.ReceiveRequest{Length: -1}); err == nil {
		t.Error("negative receive accepted")
	}
}

func TestQPNsAreUniqueAndLegal(t *testing.T) {
	nic := newTestNIC(t)
	seen := map[packet.QPN]bool{}
	for range 500 {
		q, err := nic.CreateQP(QPConfig{LocalIP: addresses[0]})
		if err != nil {
			t.Fatal(err)
		}
		if seen[q.QPN()] || q.QPN() < 2 || q.QPN() >= 0xffffff || q.IPSN() > 0xffffff {
			t.Fatalf("QPN %s IPSN %s", q.QPN(), q.IPSN())
		}
		seen[q.QPN()] = true
	}
	for _, q := range nic.qps {
		if nic.byQPN.find(q.qpn) != q {
			t.Fatalf("queue pair %s is not found", q.qpn)
		}
	}
	for qpn := range packet.QPN(1 << 16) {
		if q := nic.byQPN.find(qpn); (q != nil) != seen[qpn] {
			t.Fatalf("QPN %s finds %v", qpn, q)
		}
	}
}

func TestCountersHaveVendorNames(t *testing.T) {
	nic := newTestNIC(t)
	nic.counters.PacketSeqErr, nic.counters.RxPackets = 3, 7
	names := map[string]uint64{}
	for _, c := range nic.ListCounters() {
		if _, twice := names[c.Name]; twice {
			t.Errorf("%s is listed twice", c.Name)
		}
		names[c.Name] = c.Value
	}
	if names["packet_seq_err"] != 3 || names["rx_vport_rdma_unicast_packets"] != 7 {
		t.Errorf("counters %v", names)
	}
}

func TestProfilesByName(t *testing.T) {
	for _, p := range Profiles() {
		got, err := ProfileByName(p.Name)
		if err != nil || got.Description == "" || got.TimeoutFactor < 1 {
			t.Errorf("%s: %+v, %v", p.Name, got, err)
		}
	}
	if _, err := ProfileByName("cx99"); err == nil || !strings.Contains(err.Error(), "spec") {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"port", "destination-ip", "ip-pair", "qp"} {
		if m, ok := ParseCNPMode(name); !ok || m.String() != name {
			t.Errorf("CNP mode %s: %s %t", name, m, ok)
		}
	}
}

// The timer must not run while no packet with AckReq is outstanding: sending a long message may take longer than the
// timeout.
func TestTimerWaitsForADemandedAck(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 1, qp: QPConfig{RetryCount: 7, Timeout: 1}, record: true})
	w.start(load(4, 512<<10, 2, generator.Write))
	w.run(3000)
	w.checkAllDone()
	if n := w.nics[0].Counters().LocalAckTimeout; n != 0 {
		t.Errorf("%d timeouts", n)
	}
}

// Requests and READ responses of a queue pair share the wire equally, and so do queue pairs.
func TestDataTakesTurns(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 3, qp: reliable(), record: true})
	cfg := generator.Traffic{Messages: 1, MessageSize: 100 << 10, TxDepth: 1, MTU: 1024}
	w.start(generator.WorkloadConfig{TrafficOf: func(_ int, side generator.Side) generator.Traffic {
		cfg.Verbs = []generator.Verb{[...]generator.Verb{generator.Read, generator.Write}[side]}
		return cfg
	}})
	w.run(1000)
	w.checkAllDone()
	turns := map[packet.QPN]int{}
	responses, data := 0, 0
	for _, s := range w.log {
		if s.from == generator.Responder && s.at > us(4) && s.at < us(20) && s.p.BTH.Opcode.IsData() {
			turns[s.p.BTH.DestQP]++
			data++
			if s.p.BTH.Opcode.IsReadResponse() {
				responses++
			}
		}
	}
	for qpn, n := range turns {
		if n < data/3-1 || n > data/3+1 {
			t.Errorf("queue pair %s sent %d of %d packets", qpn, n, data)
		}
	}
	if responses < data/2-3 || responses > data/2+3 {
		t.Errorf("%d of %d packets were READ responses", responses, data)
	}
}

func us(n int64) clock.Time { return clock.Time(n) * clock.Time(clock.Microsecond) }
