package deflect

import (
	"fmt"

	"candela.dev/candela/deflect"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
)

// Upper limits of parameters, with which the tests of package deflect fit in 128 bits.
const (
	maxQueue  = 1 << 30
	maxWindow = 4096
	maxTime   = 1_000_000
)

// queues are the parameters of every model.
func queues(forwarding string) parameter.Table {
	return parameter.Table{
		{Name: "queue-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "300000", Min: 256, Max: maxQueue,
			Doc: "Q: room of a port's queue. A packet that would fill it to the last byte finds it full."},
		{Name: "forwarding", Kind: parameter.Word, Words: []string{"routes", "power-of-two"}, Default: forwarding,
			Doc: "How a port is chosen among equal paths: as the network's routes say, or for each packet the shorter queue " +
				"of two drawn ones."},
	}
}

// deflections are those of models that deflect.
func deflections() parameter.Table {
	return parameter.Table{
		{Name: "eligible", Kind: parameter.Word, Words: []string{"neighbours", "not-ingress", "not-egress", "neither"},
			Default: "neighbours",
			Doc: "Ports that a packet may be deflected to: all that lead to switches, or not the one that it has come by, or " +
				"not the one that it was to leave by, or neither of them."},
	}
}

// information is what an ingress knows of queues.
func information() parameter.Table {
	return parameter.Table{
		{Name: "information", Kind: parameter.Word, Words: []string{"exact", "snapshot", "control-packets"}, Default: "exact",
			Doc: "What ingress pipelines know of queues: all; a copy made every information-ns; or registers that departing " +
				"packets write, copied by control packets that circulate."},
		{Name: "information-ns", Kind: parameter.Duration, Unit: "ns", Optional: true, Min: 1, Max: 1_000_000_000,
			Doc: "Delta: time between two copies. By default of control-packets: max(0.59 us, n / 301e6 s) for n control " +
				"packets, one for each port and pipe."},
		{Name: "pipes", Kind: parameter.Integer, Default: "1", Min: 1, Max: 64,
			Doc: "Pipelines, each with its block of ports, copy of what is known, random numbers and windows."},
	}
}

// bitmap is of simple deflection.
func bitmap() parameter.Table {
	return parameter.Table{
		{Name: "congested-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 1, Max: maxQueue,
			Doc: "C: with information other than exact, a port's bit says that at least so many bytes wait there; by default " +
				"queue-bytes less 1500."},
		{Name: "position", Kind: parameter.Word, Words: []string{"below-n", "up-to-n"}, Default: "below-n",
			Doc: "Where the scan of n eligible ports begins: a random number from 0, below n; or up to n, which is 0, too."},
	}
}

// sources are those of models that go by priority values.
func sources(words []string) parameter.Table {
	return parameter.Table{
		{Name: "priority", Kind: parameter.Word, Words: words, Default: "remaining",
			Doc: "Priority value of a packet, larger being less important. remaining: bytes of its message that are left; " +
				"las: bytes of its flowlet before it; class: of table classes."},
		{Name: "ordering", Kind: parameter.Boolean, Default: "true",
			Doc: "Receivers put packets in order again (shim) before TCP sees them."},
		{Name: "hold-us", Kind: parameter.Duration, Unit: "us", Default: "360", Min: 1, Max: maxTime,
			Doc: "Omega: how long a receiver holds a packet that is early."},
		{Name: "flowlet-gap-us", Kind: parameter.Duration, Unit: "us", Default: "360", Min: 1, Max: maxTime,
			Doc: "Delta of hosts: a retransmission after a longer silence boosts the whole flow; with las, such a gap begins " +
				"a flowlet."},
	}
}

// preemptive are those of PD.
func preemptive() parameter.Table {
	return parameter.Table{
		{Name: "algorithm", Kind: parameter.Word, Words: []string{"deterministic", "probabilistic", "on-full"},
			Default: "deterministic",
			Doc: "deterministic: refuses above Q (1 - alpha R). probabilistic: at random above min-threshold-bytes. on-full: " +
				"only when the queue is full."},
		{Name: "alpha", Kind: parameter.Number, Default: "0.1", Max: 1,
			Doc: "By how much of the queue the least important packets are refused earlier; 0: not at all."},
		{Name: "equal", Kind: parameter.Word, Words: []string{"admits", "deflects"}, Default: "admits",
			Doc: "What becomes of a packet if exactly the threshold waits; of deterministic, not with dist-ewma, where it is " +
				"deflected."},
		{Name: "choices", Kind: parameter.Integer, Unit: "ports", Default: "2", Min: 1, Max: 64,
			Doc: "Ports that are drawn to be deflected to; the one with the shortest queue is taken of those that admit."},
		{Name: "tie", Kind: parameter.Word, Words: []string{"random", "first"}, Default: "random",
			Doc: "Which of candidates with equal queues is taken."},
		{Name: "min-threshold-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "75000", Max: maxQueue,
			Doc: "Of probabilistic: up to so many bytes everything is admitted."},
		{Name: "relative", Kind: parameter.Word, Words: []string{"quantile", "dist-exact", "dist-ewma", "oracle"},
			Default: "quantile",
			Doc: "R, the relative priority: share of recent packets that are more important; by an exponential distribution " +
				"with the mean of what waits, or with a moving average and tables; share of what waits."},
		{Name: "window", Kind: parameter.Integer, Unit: "packets", Default: "20", Min: 1, Max: maxWindow,
			Doc: "W: recent priority values of quantile."},
		{Name: "sample", Kind: parameter.Integer, Unit: "packets", Default: "20", Min: 1, Max: 1 << 20,
			Doc: "S: one of so many packets enters the window."},
		{Name: "sample-on", Kind: parameter.Word, Words: []string{"evaluate", "enqueue"}, Default: "evaluate",
			Doc: "Which packets are counted and sampled: all that are tested, or those that are queued."},
		{Name: "denominator", Kind: parameter.Word, Words: []string{"window", "filled"}, Default: "window",
			Doc: "What a window that is not full yet is divided by."},
		{Name: "ewma-divisor", Kind: parameter.Integer, Default: "50", Min: 1, Max: 1 << 16,
			Doc: "Of dist-ewma: a packet has the weight 1/divisor in the mean."},
		{Name: "priority-unit", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1 << 20,
			Doc: "Of dist-ewma, whose tables end at 64: priority values are divided by this, rounded up."},
		{Name: "boost", Kind: parameter.Boolean, Default: "true",
			Doc: "Of priority remaining: each retransmission of a packet halves its value."},
		{Name: "classes", Kind: parameter.List,
			Doc: "Of priority class: the first entry that applies counts; other packets have the value 0.",
			Items: parameter.Table{
				{Name: "senders", Kind: parameter.Ranges, Max: 1 << 16, Doc: "Hosts that send; by default all."},
				{Name: "receivers", Kind: parameter.Ranges, Max: 1 << 16, Doc: "Hosts that receive; by default all."},
				{Name: "value", Kind: parameter.Integer, Default: "0", Max: 1 << 31, Doc: "Their priority value."},
			}},
	}
}

// settings returns what a switch of a scheme is set to.
func settings(scheme deflect.Scheme, v parameter.Values) deflect.Settings {
	has := func(name string) bool { return v.Table().Find(name) >= 0 }
	s := deflect.Settings{Scheme: scheme, Queue: v.Int("queue-bytes"), Pipes: 1}
	if v.Word("forwarding") == "power-of-two" {
		s.Forwarding = deflect.PowerOfTwo
	}
	if has("eligible") {
		s.Eligible = deflect.Eligible(v.Step("eligible"))
	}
	if has("information") {
		s.Info, s.Pipes = deflect.Info(v.Step("information")), v.Int("pipes")
		if v.Has("information-ns") {
			s.Period = v.Duration("information-ns")
		}
		s.Congested = max(1, s.Queue-1500)
	}
	if has("congested-bytes") && v.Has("congested-bytes") {
		s.Congested = v.Int("congested-bytes")
	}
	s.Inclusive = has("position") && v.Word("position") == "up-to-n"
	if has("priority") {
		s.Priority, s.Ordering = deflect.Source(v.Step("priority")), v.Bool("ordering")
		s.Hold, s.Gap = v.Duration("hold-us"), v.Duration("flowlet-gap-us")
	}
	if scheme == deflect.PD {
		preemption(v, &s)
	}
	return s
}

func preemption(v parameter.Values, s *deflect.Settings) {
	s.OnFull, s.Probabilistic = v.Word("algorithm") == "on-full", v.Word("algorithm") == "probabilistic"
	s.Alpha, s.Choices, s.TieFirst = v.Step("alpha"), v.Int("choices"), v.Word("tie") == "first"
	s.EqualDeflects, s.MinThreshold = v.Word("equal") == "deflects", v.Int("min-threshold-bytes")
	s.Relative = deflect.Relative(v.Step("relative"))
	s.Window, s.Sample, s.SampleQueued = v.Int("window"), v.Int("sample"), v.Word("sample-on") == "enqueue"
	s.ByFilled = v.Word("denominator") == "filled"
	s.Divisor, s.Unit, s.Boost = v.Int("ewma-divisor"), v.Int("priority-unit"), v.Bool("boost")
	for _, c := range v.List("classes") {
		s.Classes = append(s.Classes, deflect.ClassOf{Senders: c.Spans("senders"), Receivers: c.Spans("receivers"),
			Value: uint32(c.Int("value"))})
	}
}

// check returns settings with which the model cannot do its task.
func check(scheme deflect.Scheme, v parameter.Values, offered []switches.Frames) (problems []switches.Problem) {
	add := func(key, what, why string) {
		problems = append(problems, switches.Problem{Key: key, What: what, Why: why})
	}
	own := func(name string) bool { return v.Table().Find(name) >= 0 }
	if own("pfc-classes") && len(v.Integers("pfc-classes")) > 0 {
		add("pfc-classes", "makes classes lossless", "the model drops packets of every class: leave it out")
	}
	s := settings(scheme, v)
	for _, f := range offered {
		if f.Size >= s.Queue {
			add("queue-bytes", fmt.Sprintf("is %d, and packets of %s have %d bytes", s.Queue, f.What, f.Size),
				"such packets would always find queues full, and be deflected until their TTL is spent")
			break
		}
	}
	if s.Info == deflect.Snapshot && s.Period == 0 {
		add("information", "is snapshot", "give information-ns: how often the snapshot is taken")
	}
	if s.Info == deflect.Exact && s.Period != 0 {
		add("information-ns", "is given with information exact", "leave it out, or set information")
	}
	if s.Info == deflect.Exact && own("congested-bytes") && v.Has("congested-bytes") {
		add("congested-bytes", "is given with information exact", "there a bit says whether the packet at hand has room")
	}
	if s.Probabilistic && s.MinThreshold >= s.Queue {
		add("min-threshold-bytes", fmt.Sprintf("is %d, and queue-bytes %d", s.MinThreshold, s.Queue),
			"it has to be less than the queue holds")
	}
	if own("classes") && s.Priority == deflect.Class && len(s.Classes) == 0 {
		add("priority", "is class", "give classes, which say the values")
	}
	return problems
}
