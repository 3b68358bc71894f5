package conformance_test

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
	"candela.dev/candela/trace"
)

// records are all packets of a run, as the injector saw them.
type records []trace.Record

// measured runs a test with NICs of profile p and returns its trace.
func measured(t *testing.T, p rdma.Profile, traffic string) records {
	t.Helper()
	o := orchestrator.Models()
	for i := range o.Profiles {
		o.Profiles[i].Defaults.MinTimeBetween = p.CNPInterval
	}
	adaptive := ""
	if p.AdaptiveSchedule != nil {
		adaptive = "requester: {roce-parameters: {adaptive-retrans: true}}\n"
		for i := range o.Profiles {
			o.Profiles[i].Adaptive = true
		}
	}
	test, err := config.Parse("parameter.yml", []byte("name: parameter\n"+adaptive+"traffic:\n"+traffic), o)
	if err != nil {
		t.Fatal(err)
	}
	pl, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	run, err := orchestrator.Run(t.Context(), pl, func(s testbeds.Spec) (orchestrator.Testbed, error) {
		return virtual.NewWith(s, func(string) (rdma.Profile, error) { return p, nil })
	}, orchestrator.Options{Out: t.TempDir(), Version: "test", Command: "candela",
		Wall: func() time.Time { return time.Unix(0, 0) }, NoReports: true})
	if err != nil {
		t.Fatal(err)
	}
	checked, _, err := trace.Check(t.Context(), trace.FileSource(filepath.Join(run.Dir, "trace.pcap")),
		trace.Options{Format: trace.FormatMirror})
	if err != nil {
		t.Fatal(err)
	}
	var list records
	if err := checked.ForEach(t.Context(), func(r *trace.Record) error {
		list = append(list, *r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// nth returns the n-th packet (from 1) with one of the opcodes, after the from-th of all.
func (l records) nth(t *testing.T, n int, ops ...packet.Opcode) trace.Record {
	t.Helper()
	for _, r := range l {
		if slices.Contains(ops, r.Opcode) {
			if n--; n == 0 {
				return r
			}
		}
	}
	t.Fatalf("there is no such packet %v", ops)
	return trace.Record{}
}

// resent returns the first data packet that goes back, and the packet before it in its direction.
func (l records) resent(t *testing.T) (retransmission, before trace.Record) {
	t.Helper()
	for _, r := range l {
		if !r.Opcode.IsData() {
			continue
		}
		if before.ID != 0 && !before.PSN.Before(r.PSN) {
			return r, before
		}
		before = r
	}
	t.Fatal("nothing was retransmitted")
	return retransmission, before
}

func (l records) count(op packet.Opcode) float64 {
	n := 0.0
	for _, r := range l {
		if r.Opcode == op {
			n++
		}
	}
	return n
}

// rounds counts the returns of the data packets to an earlier PSN.
func (l records) rounds() float64 {
	n, last := 0.0, trace.Record{}
	for _, r := range l {
		if r.Opcode.IsData() {
			if last.ID != 0 && !last.PSN.Before(r.PSN) {
				n++
			}
			last = r
		}
	}
	return n
}

func between(from, to trace.Record) float64 { return float64(to.TimeNS-from.TimeNS) / 1000 }

// Traffic of the probes.
const (
	twoWrites  = "  {rdma-verb: write, num-msgs-per-qp: 2, message-size: 1024, mtu: 1024}\n"
	oneRead    = "  {rdma-verb: read, message-size: 10240, mtu: 1024}\n"
	lossMiddle = "  {rdma-verb: write, message-size: 10240, mtu: 1024, min-retransmit-timeout: 10, data-pkt-events: " +
		"[{qpn: 1, psn: 5, type: drop}]}\n"
	lossEarly = "  {rdma-verb: write, message-size: 204800, mtu: 1024, min-retransmit-timeout: 10, data-pkt-events: " +
		"[{qpn: 1, psn: 5, type: drop}]}\n"
	lossNear = "  {rdma-verb: write, message-size: 10240, mtu: 1024, min-retransmit-timeout: 10, data-pkt-events: " +
		"[{qpn: 1, psn: 9, type: drop}]}\n"
	lossTail = "  {rdma-verb: write, message-size: 10240, mtu: 1024, min-retransmit-timeout: 8, data-pkt-events: " +
		"[{qpn: 1, psn: 10, type: drop}]}\n"
	lossForGood = "  {rdma-verb: write, message-size: 1024, mtu: 1024, min-retransmit-timeout: 6, max-retransmit-retry: " +
		"2, data-pkt-events: [{qpn: 1, psn: 1, iter: any, type: drop}]}\n"
	lossRead = "  {rdma-verb: read, message-size: 10240, mtu: 1024, min-retransmit-timeout: 10, data-pkt-events: " +
		"[{qpn: 1, psn: 5, type: drop}]}\n"
	marks = "  {rdma-verb: write, message-size: 1048576, mtu: 1024, data-pkt-events: [{qpn: 1, psn: \"10..990\", " +
		"type: ecn}]}\n"
	longWrite = "  {rdma-verb: write, message-size: 409600, mtu: 1024, min-retransmit-timeout: 10}\n"
)

var dataOps = []packet.Opcode{packet.WriteOnly, packet.WriteFirst, packet.WriteMiddle, packet.WriteLast}

func reaction(t *testing.T, l records) float64 {
	retransmission, _ := l.resent(t)
	nak := trace.Record{}
	for _, r := range l {
		if r.Opcode == packet.Acknowledge && r.Syndrome == packet.SyndromeNakSequence {
			nak = r
			break
		}
	}
	return between(nak, retransmission)
}

func generation(t *testing.T, l records) float64 {
	lost := -1
	for i, r := range l {
		if r.Event == trace.EventDrop {
			lost = i
		}
		if r.Opcode == packet.Acknowledge && r.Syndrome == packet.SyndromeNakSequence {
			return between(l[lost+1], r)
		}
	}
	t.Fatal("there is no NAK")
	return 0
}

func timeout(t *testing.T, l records) float64 {
	retransmission, before := l.resent(t)
	return between(before, retransmission)
}

// A probe changes a parameter and returns by how much the measured value changes.
type probe struct {
	parameter string
	base      func(p *rdma.Profile) // before and after the move
	move      func(p *rdma.Profile)
	traffic   string
	value     func(t *testing.T, l records) float64 // us, or a count
	by        float64                               // +Inf: some growth; −Inf: some shrinkage
	within    float64
}

const us = clock.Microsecond

var probes = []probe{
	{"SendLatency", nil, func(p *rdma.Profile) { p.SendLatency += 3 * us }, twoWrites,
		func(t *testing.T, l records) float64 {
			return between(l.nth(t, 1, packet.Acknowledge), l.nth(t, 2, dataOps...))
		}, 3, 0.001},
	{"AckLatency", nil, func(p *rdma.Profile) { p.AckLatency += 3 * us }, twoWrites,
		func(t *testing.T, l records) float64 {
			return between(l.nth(t, 1, dataOps...), l.nth(t, 1, packet.Acknowledge))
		}, 3, 0.001},
	{"ReadResponseLatency", nil, func(p *rdma.Profile) { p.ReadResponseLatency += 3 * us }, oneRead,
		func(t *testing.T, l records) float64 {
			return between(l.nth(t, 1, packet.ReadRequest), l.nth(t, 1, packet.ReadResponseFirst))
		}, 3, 0.001},
	{"NackGeneration", nil, func(p *rdma.Profile) { p.NackGeneration += 3 * us }, lossMiddle, generation, 3, 0.001},
	{"NackReaction", nil, func(p *rdma.Profile) { p.NackReaction += 30 * us }, lossMiddle, reaction, 30, 0.001},
	{"NackReactionSpread", nil, func(p *rdma.Profile) { p.NackReactionSpread = 90 * us }, lossMiddle, reaction,
		math.Inf(1), 0},
	{"ReadRerequestLatency", nil, func(p *rdma.Profile) { p.ReadRerequestLatency += 30 * us }, lossRead,
		func(t *testing.T, l records) float64 {
			return between(l.nth(t, 1, packet.ReadResponseLast), l.nth(t, 2, packet.ReadRequest))
		}, 30, 0.001},
	{"TimeoutReaction", nil, func(p *rdma.Profile) { p.TimeoutReaction += 30 * us }, lossTail, timeout, 30, 0.001},
	{"TimeoutFactor", nil, func(p *rdma.Profile) { p.TimeoutFactor = 3 }, lossTail, timeout, 2 * 1048.576, 0.001},
	{"FirstTimeoutLow", func(p *rdma.Profile) { p.FirstTimeoutLow, p.FirstTimeoutHigh = 2, 2 },
		func(p *rdma.Profile) { p.FirstTimeoutLow = 1 }, lossTail, timeout, math.Inf(-1), 0},
	{"FirstTimeoutHigh", func(p *rdma.Profile) { p.FirstTimeoutLow, p.FirstTimeoutHigh = 2, 2 },
		func(p *rdma.Profile) { p.FirstTimeoutHigh = 3 }, lossTail, timeout, math.Inf(1), 0},
	{"CNPLatency", nil, func(p *rdma.Profile) { p.CNPLatency += 3 * us }, marks,
		func(t *testing.T, l records) float64 {
			i := slices.IndexFunc(l, func(r trace.Record) bool { return r.Event == trace.EventECN })
			return between(l[i], l.nth(t, 1, packet.CNP))
		}, 3, 0.001},
	{"CNPInterval", nil, func(p *rdma.Profile) { p.CNPInterval *= 4 }, marks,
		func(_ *testing.T, l records) float64 { return l.count(packet.CNP) }, math.Inf(-1), 0},
	{"NackBatch", func(p *rdma.Profile) { p.NackBatch, p.NackBatchTimeout = 1, 12*us },
		func(p *rdma.Profile) { p.NackBatch = 3 }, lossNear, generation, 12, 0.001},
	{"NackBatchTimeout", func(p *rdma.Profile) { p.NackBatch, p.NackBatchTimeout = 3, 12*us },
		func(p *rdma.Profile) { p.NackBatchTimeout += 5 * us }, lossNear, generation, 5, 0.001},
	{"PipelineDepth", func(p *rdma.Profile) { p.SendsOn, p.PipelineDepth = true, 16 },
		func(p *rdma.Profile) { p.PipelineDepth += 32 }, lossEarly,
		reaction, 32 * 0.0882, 0.3},
	{"AdaptiveSchedule", func(p *rdma.Profile) { p.AdaptiveSchedule = []float64{1, 2} },
		func(p *rdma.Profile) { p.AdaptiveSchedule = []float64{1.5, 2} },
		lossTail, timeout, 0.5 * 1048.576, 0.001},
	{"AdaptiveFreeUpTo", func(p *rdma.Profile) { p.AdaptiveSchedule = []float64{0.5, 1, 2} },
		func(p *rdma.Profile) { p.AdaptiveFreeUpTo = 1 },
		lossForGood, func(_ *testing.T, l records) float64 { return l.rounds() }, math.Inf(1), 0},
	{"SlowPathQueue", func(p *rdma.Profile) {
		p.ClearsMigReq, p.SlowPathQueue, p.SlowPathService = true, 16, clock.Microsecond/4
	},
		func(p *rdma.Profile) { p.SlowPathQueue = 1000 }, longWrite,
		func(_ *testing.T, l records) float64 { return l.rounds() }, math.Inf(-1), 0},
	{"SlowPathService", func(p *rdma.Profile) {
		p.ClearsMigReq, p.SlowPathQueue, p.SlowPathService = true, 64,
			clock.Nanosecond
	},
		func(p *rdma.Profile) { p.SlowPathService = clock.Microsecond / 4 }, longWrite,
		func(_ *testing.T, l records) float64 { return l.rounds() }, math.Inf(1), 0},
	{"ETSShares", func(p *rdma.Profile) { p.ETSShares = []float64{50, 50} },
		func(p *rdma.Profile) { p.ETSShares = []float64{25, 75} }, longWrite,
		func(t *testing.T, l records) float64 {
			return between(l.nth(t, 1, packet.WriteFirst), l.nth(t, 1, packet.WriteLast))
		}, 70.6, 3},
}

// elsewhere says of parameters without a probe here where they are measured.
func elsewhere(parameter string) bool { return strings.HasPrefix(parameter, "Trim") } // the tests of trimmed packets

func TestEveryNumericParameterOfAProfileMovesWhatIsMeasured(t *testing.T) {
	for i, p := range probes {
		if !runtimetest.Sampled(i) {
			continue
		}
		t.Run(p.parameter, func(t *testing.T) {
			t.Parallel()
			value := func(change func(p *rdma.Profile)) float64 {
				profile := rdma.Spec()
				for _, f := range []func(*rdma.Profile){p.base, change} {
					if f != nil {
						f(&profile)
					}
				}
				return p.value(t, measured(t, profile, p.traffic))
			}
			before, after := value(nil), value(p.move)
			moved := after - before
			if math.IsInf(p.by, 0) && moved*p.by <= 0 || !math.IsInf(p.by, 0) && math.Abs(moved-p.by) > p.within ||
				math.IsNaN(moved) {
				t.Errorf("measured %g before and %g after: moved by %g, want %g within %g", before, after, moved, p.by, p.within)
			}
		})
	}
}

func TestEveryNumericParameterHasAProbe(t *testing.T) {
	fields := reflect.TypeFor[rdma.Profile]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		switch f.Type.Kind() {
		case reflect.String, reflect.Bool, reflect.Map, reflect.Uint8: // names, switches, modes
			continue
		default:
		}
		if !elsewhere(f.Name) && !slices.ContainsFunc(probes, func(p probe) bool { return p.parameter == f.Name }) {
			t.Errorf("nothing shows that %s moves anything", f.Name)
		}
	}
}
