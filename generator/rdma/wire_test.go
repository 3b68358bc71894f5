package rdma

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// verdict is the action of the test wire on a packet.
type verdict uint8

const (
	pass verdict = iota
	drop
	mark    // set CE
	corrupt // break the iCRC
)

// seen is a packet that a NIC sent.
type seen struct {
	at      clock.Time
	from    generator.Side
	p       packet.Packet
	verdict verdict
}

// String returns the packet for test failures.
func (s seen) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s %s %s psn=%d", s.at, s.from, s.p.BTH.Opcode, s.p.BTH.PSN)
	if s.p.Headers&packet.HasAETH != 0 {
		fmt.Fprintf(b, " %s msn=%d", s.p.AETH.Syndrome, s.p.AETH.MSN)
	}
	if s.p.Headers&packet.HasRETH != 0 {
		fmt.Fprintf(b, " dma=%d", s.p.RETH.Length)
	}
	return b.String() + [...]string{"", " DROP", " CE", " CORRUPT"}[s.verdict]
}

// flight is a packet in flight; packets of one direction arrive in order.
type flight struct {
	at clock.Time
	p  packet.Packet
}

// wire connects two NICs with a fixed delay and serialisation at port rate. It is a minimal testbed.
type wire struct {
	tb      testing.TB
	now     clock.Time
	delay   clock.Duration
	rate    clock.BitRate
	nics    [2]*NIC
	qps     [2][]*QP
	idle    [2]clock.Time // end of the side's current transmission
	flights [2]ring[flight]
	next    packet.Packet

	filter   func(s *seen) verdict // nil: pass all
	record   bool
	log      []seen
	packets  int
	workload *generator.Workload
	done     [2][]generator.Completion // if there is no workload
}

var addresses = [2]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}
var addresses6 = [2]netip.Addr{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1")}

// setup describes a wire's ends.
type setup struct {
	seed   uint64
	qps    int
	qp     QPConfig
	nic    func(side generator.Side, c *Config)
	ipv6   bool
	record bool
}

func newWire(tb testing.TB, s setup) *wire {
	tb.Helper()
	w := &wire{tb: tb, delay: clock.Microsecond, rate: 100 * clock.Gbps, record: s.record}
	ips := addresses
	if s.ipv6 {
		ips = addresses6
	}
	for side := range w.nics {
		cfg := Config{Name: generator.Side(side).String(), MAC: packet.MAC{2, 0, 0, 0, 0, byte(side)},
			IPs:     ips[side : side+1],
			Profile: Spec(), PortRate: w.rate, Rand: rand.New(rand.NewPCG(s.seed, uint64(side)))}
		if s.nic != nil {
			s.nic(generator.Side(side), &cfg)
		}
		nic, err := NewNIC(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		w.nics[side] = nic
		for i := range s.qps {
			qp := s.qp
			qp.Context, qp.LocalIP = i, ips[side]
			q, err := nic.CreateQP(qp)
			if err != nil {
				tb.Fatal(err)
			}
			w.qps[side] = append(w.qps[side], q)
		}
	}
	for i := range s.qps {
		for side, qps := range w.qps {
			peer := w.qps[side^1][i]
			remote := Remote{IP: peer.LocalIP(), QPN: peer.QPN(), IPSN: peer.IPSN(), MAC: w.nics[side^1].cfg.MAC}
			if err := qps[i].Connect(remote); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return w
}

// ends returns the queue pairs for a workload.
func (w *wire) ends() []generator.Ends {
	ends := make([]generator.Ends, len(w.qps[0]))
	for i := range ends {
		for side := range w.nics {
			ends[i][side] = generator.End{QP: w.qps[side][i], Region: w.qps[side][i].Region()}
		}
	}
	return ends
}

// load returns traffic from requester to responder.
func load(messages, size, depth int, verbs ...generator.Verb) generator.WorkloadConfig {
	return generator.WorkloadConfig{Traffic: generator.Traffic{Verbs: verbs, Messages: messages, MessageSize: size,
		TxDepth: depth}}
}

// bothWays returns the same traffic in both directions.
func bothWays(messages, size, depth int, verbs ...generator.Verb) generator.WorkloadConfig {
	cfg := load(messages, size, depth, verbs...)
	cfg.Bidirectional = true
	return cfg
}

// start attaches and starts a workload.
func (w *wire) start(cfg generator.WorkloadConfig) {
	w.tb.Helper()
	if cfg.MTU == 0 {
		cfg.MTU = w.qps[0][0].cfg.MTU
	}
	var err error
	if w.workload, err = generator.NewWorkload(cfg, w.ends()); err != nil {
		w.tb.Fatal(err)
	}
	if err := w.workload.Start(w.now); err != nil {
		w.tb.Fatal(err)
	}
}

// run runs until nothing is pending, or fails after maxPackets packets.
func (w *wire) run(maxPackets int) {
	w.tb.Helper()
	for w.step() {
		if w.packets > maxPackets {
			w.tb.Fatalf("more than %d packets at %s\n%s", maxPackets, w.now, w.tail())
		}
	}
}

// step advances to the next event, and reports false if there is none.
func (w *wire) step() bool {
	at := clock.Never
	for side, n := range w.nics {
		if f := &w.flights[side]; f.len() > 0 {
			at = min(at, f.at(0).at)
		}
		at = min(at, w.wakeAt(side, n))
	}
	if at == clock.Never {
		return false
	}
	w.now = max(w.now, at)
	for side := range w.nics {
		w.deliver(side)
	}
	for side := range w.nics {
		w.transmit(side)
	}
	return true
}

// wakeAt returns the next time at which the side's NIC may act and its wire is idle.
func (w *wire) wakeAt(side int, n *NIC) clock.Time {
	at := n.NextTimer()
	if at != clock.Never {
		at = max(at, w.idle[side])
	}
	return at
}

func (w *wire) deliver(side int) {
	for f := &w.flights[side]; f.len() > 0 && f.at(0).at <= w.now; {
		w.nics[side].HandlePacket(w.now, &f.at(0).p)
		f.pop()
		w.drain()
	}
}

func (w *wire) transmit(side int) {
	n := w.nics[side]
	if n.NextTimer() <= w.now {
		n.HandleTimer(w.now)
		w.drain()
	}
	if w.idle[side] > w.now || !n.Poll(w.now, &w.next) {
		return
	}
	w.packets++
	w.idle[side] = w.now.Add(w.rate.Serialise(w.next.Len() + 24))
	w.send(side)
}

func (w *wire) send(side int) {
	v := pass
	if w.filter != nil || w.record {
		s := seen{at: w.now, from: generator.Side(side), p: w.next}
		if w.filter != nil {
			v = w.filter(&s)
		}
		if s.verdict = v; w.record {
			w.log = append(w.log, s)
		}
	}
	switch v {
	case drop:
		return
	case mark:
		w.next.SetECN(packet.CE)
	case corrupt:
		w.next.Corrupt()
	case pass:
	}
	w.flights[side^1].push(flight{w.idle[side].Add(w.delay), w.next})
}

// drain passes completions to the workload.
func (w *wire) drain() {
	var c generator.Completion
	for side, n := range w.nics {
		for n.PollCompletion(&c) {
			if w.workload == nil {
				w.done[side] = append(w.done[side], c)
				continue
			}
			if err := w.workload.Completion(w.now, c.Context, generator.Side(side), c); err != nil {
				w.tb.Fatal(err)
			}
		}
	}
}

// tail returns the last packets.
func (w *wire) tail() string {
	b := &strings.Builder{}
	for _, s := range w.log[max(0, len(w.log)-60):] {
		fmt.Fprintln(b, s)
	}
	return b.String()
}

// checkAllDone fails the test unless every message completed successfully with correct data.
func (w *wire) checkAllDone() {
	w.tb.Helper()
	if !w.workload.Done() {
		w.tb.Errorf("the workload is not done\n%s", w.tail())
	}
	for _, s := range w.workload.Report().Streams {
		for i, m := range s.Messages {
			if m.Status != generator.Success {
				w.tb.Errorf("connection %d %s message %d (%s): %s\n%s", s.Connection, s.Side, i+1, m.Verb, m.Status, w.tail())
				return
			}
		}
	}
	for _, n := range w.nics {
		if c := n.Counters(); c.DataErrors > 0 || c.Invalid > 0 || c.BadResponse > 0 {
			w.tb.Errorf("%s: %d data errors, %d invalid packets, %d bad responses",
				n.Name(), c.DataErrors, c.Invalid, c.BadResponse)
		}
	}
}
