package switchtest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// An experimental family: PIFO on switch ports and host NICs. It is declared, registered, run and judged as the
// product's families are. ranks is a shim that gives the packets of each flow falling ranks, like remaining bytes.
type ranks struct{}

func (ranks) Outbound(_ clock.Time, _ *fabric.Host, p *fabric.Packet) fabric.Action {
	p.SetRank(uint64(1000-p.Number) * uint64(p.Flow))
	return fabric.Forward
}
func (ranks) Inbound(clock.Time, *fabric.Host, *fabric.Packet) fabric.Action { return fabric.Forward }

// pifo evicts the packet of the highest rank if there is no room.
type pifo struct {
	fabric.TailDrop
	bugs   []string
	states *fabric.States[struct{ inverted bool }]
}

func (m pifo) Ingress(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if s := m.states.Of(p); slices.Contains(m.bugs, "inverts") && !s.inverted {
		s.inverted = true
		p.SetRank(math.MaxUint64 - p.Rank)
	}
	return v
}

func (m pifo) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	port := sw.Port(int(v.Port))
	if tail := port.Queue(0).Tail(); tail.Rank > p.Rank && !slices.Contains(m.bugs, "tail-drops") {
		sw.Extract(now, port, 0, tail)
		sw.Discard(now, tail, v.Drop(fabric.ReasonOwn))
		return v
	}
	return v.Drop(fabric.ReasonTail)
}

func pifos() switches.Family {
	queues := []fabric.QueueSpec{{MaxPackets: 30, Order: fabric.ByRank}}
	mechanism := func(bugs []string) fabric.Mechanism {
		return pifo{bugs: bugs, states: fabric.NewStates[struct{ inverted bool }]()}
	}
	return switches.Family{Name: "pifo", NICs: true, Reasons: []analyzers.DropReason{{Name: "evicted"}}, Models: []switches.Model{{
		Model: parameter.Model{Name: "spike", Doc: "Of a test.", Bugs: []parameter.Bug{
			{Name: "inverts", Doc: "Serves the highest rank.", Rule: "pifo.order"},
			{Name: "tail-drops", Doc: "Evicts nothing.", Rule: "pifo.evicts"}}},
		Ranks:     true,
		Configure: func(_ parameter.Values, s *fabric.SwitchSpec) error { s.Queues = queues; return nil },
		New: func(_ *fabric.Switch, _ parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return mechanism(bugs), nil
		},
		NIC: func(_ parameter.Values, bugs []string, s *fabric.NICSpec) error {
			s.Queues, s.Backlog, s.Mechanism = queues, 24, func(*fabric.Switch) fabric.Mechanism { return mechanism(bugs) }
			return nil
		},
		Shim: func(*fabric.Host, parameter.Values, []string) (fabric.Shim, error) { return ranks{}, nil },
	}}}
}

func pifoRules() []analyzers.Rule {
	return []analyzers.Rule{{ID: "pifo.order", Statement: "The lowest rank leaves first."},
		{ID: "pifo.evicts", Statement: "The highest rank is dropped."}}
}

// pifoJudge tracks the ranks waiting at each port: of a NIC its only port, of a switch the port of the destination.
type pifoJudge struct {
	analyzers.SwitchJudge // implements the methods that this test does not call
	report                *analyzers.Reporter
	waits                 map[[2]uint32]map[uint64]uint64 // by switch and destination, then by packet
	view                  analyzers.SwitchView
}

func newPifoJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	return &pifoJudge{nil, analyzers.NewReporter("pifo", pifoRules()), map[[2]uint32]map[uint64]uint64{}, v}, nil
}

func (j *pifoJudge) Observe(t *trace.SwitchTap) {
	out := [2]uint32{uint32(t.Switch), t.Dst}
	if _, leaf := j.view.HostAt(t.Switch, 0); !leaf {
		out[1] = math.MaxUint32
	}
	if j.waits[out] == nil {
		j.waits[out] = map[uint64]uint64{}
	}
	if t.Stage == trace.Entered {
		j.waits[out][t.ID] = t.Rank
		return
	}
	own := j.waits[out][t.ID]
	delete(j.waits[out], t.ID)
	who, packet := cause.Switch(j.view.SwitchName(t.Switch)), cause.Count(t.ID)
	why := cause.Of("pifo.order", "higher-rank", "%v sent packet %v before one of a lower rank.", who, packet)
	for _, rank := range j.waits[out] {
		if t.Stage == trace.Dropped && rank > own {
			why = cause.Of("pifo.evicts", "lower-rank", "%v dropped packet %v instead of one of a higher rank.", who, packet)
		} else if t.Stage == trace.Dropped || rank >= own {
			continue
		}
		if j.report.Wants(why.Rule, 0) {
			j.report.Tell(why, analyzers.Finding{Packets: []uint64{t.ID}, TimeNS: t.Time.Nanoseconds(),
				Message: j.view.SwitchName(t.Switch)})
		}
		return
	}
}

func (j *pifoJudge) Finish() (analyzers.Result, error) {
	return analyzers.Result{Findings: j.report.Findings()}, nil
}

func TestASpikeFamilySchedulesByRankOnPortsAndNICs(t *testing.T) {
	for bug, want := range map[string]string{"": "", "inverts": "pifo.order", "tail-drops": "pifo.evicts"} {
		t.Run(bug, func(t *testing.T) {
			register(t, family{pifos(), newPifoJudge, pifoRules()})
			tests, err := config.ParseSwitchTests("f.yml",
				[]byte(strings.NewReplacer("BUG", bug, "EVICTED", map[bool]string{true: "100", false: "0"}[bug == ""]).Replace(`
name: spike
topology: {kind: single-switch, hosts: 4}
switch-under-test: {model: spike, bugs: [BUG]}
hosts: {transport: raw}
workload: [incast: {senders: 3, packets: 300}, flow: {src: 1, dst: 0, packets: 300}]
expect: {counters: {nic-1.port-0.sent: 600, switch.dropped-evicted: {min: EVICTED}}}
`)), Options())
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(tests[0])
			if err != nil {
				t.Fatal(err)
			}
			o := execute(t, p)
			found := map[string]string{}
			for _, f := range o.Analysis.Findings {
				found[f.Rule] += f.Message + " "
			}
			// a NIC must be blamed too
			unblamed := want != "" && found[want] == "" || want == "pifo.order" && !strings.Contains(found[want], "nic-")
			if (want == "") != (o.Verdict.Exit == 0) || want == "" && len(found) > 0 || unblamed {
				t.Errorf("%v, found %v", o.Verdict.Reasons, found)
			}
		})
	}
}
