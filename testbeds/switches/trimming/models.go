package trimming

import (
	"fmt"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// A Model is a switch under test as named in test files.
type Model struct {
	parameter.Model
	// Configure gives every switch of a network the queues, scheduler and recirculation ports that the model needs.
	Configure func(v parameter.Values, s *fabric.SwitchSpec)
	// Check is [switches.Model.Check].
	Check func(v parameter.Values, ports int, offered []switches.Frames) []switches.Problem
	// Distort is [switches.Model.Distort].
	Distort func(bugs []string, s *fabric.SwitchSpec)
	// NoNIC is the reason why hosts' NICs can't use the model; empty: they can, unless it recirculates.
	NoNIC string
	// New returns the mechanism of one switch.
	New func(v parameter.Values, bugs []string) fabric.Mechanism
}

// Models lists the trimming switches of section 1 of the specification, except SAI's, which is in package sai.
func Models() []Model {
	return []Model{dropTail(), cutPayload(), ideal(), sourceFlowControl(), mirrorOnDrop(), deflectOnDrop(), tofino(),
		tofino2()}
}

// Upper limits of parameters: within the simulator's arithmetic, and beyond any real switch.
const (
	maxQueueBytes = 1 << 30
	maxTime       = 1_000_000 // in the parameter's unit
)

func dropTail() Model {
	return Model{
		Model: parameter.Model{
			Name: "droptail", Doc: "Baseline: one queue for each port; a packet that finds it full is lost.",
			Parameters: parameter.Table{
				queueBytes("300000", "Room of a port's queue; the default is 200 packets of 1500 bytes."),
				{Name: "data-queue-packets", Kind: parameter.Integer, Unit: "packets", Default: "0", Max: 1 << 20,
					Doc: "Room of a port's queue in packets, whatever their size; 0: bytes alone count."},
			},
			Bugs: queueBugs(),
		},
		Distort: distort,
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) {
			s.Queues = []fabric.QueueSpec{{MaxBytes: v.Int("data-queue-bytes"), MaxPackets: v.Int("data-queue-packets")}}
			s.Scheduler = fabric.SchedulerSpec{Kind: fabric.Strict}
		},
		New: func(v parameter.Values, _ []string) fabric.Mechanism {
			return &DropTail{cutter{headers: dataQueues(v)}}
		},
	}
}

func cutPayload() Model {
	return Model{
		Model: parameter.Model{
			Name: "cp", Doc: "Cut payload: above a watermark packets are trimmed into the same queue.",
			Parameters: parameter.Table{
				queueBytes("30000", "Room of a port's queue, for packets and headers together."),
				{Name: "watermark-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "15000", Max: maxQueueBytes,
					Doc: "Bytes in the queue above which an arriving packet is trimmed."},
				trimBytes(), wireCounts("false"),
			},
		},
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) {
			s.Queues = []fabric.QueueSpec{{MaxBytes: v.Int("data-queue-bytes")}}
			s.Scheduler = fabric.SchedulerSpec{Kind: fabric.Strict}
		},
		Check: checkWatermark,
		New: func(v parameter.Values, _ []string) fabric.Mechanism {
			return &CutPayload{cutter: newCutter(v), watermark: v.Int("watermark-bytes")}
		},
	}
}

// checkWatermark refuses a queue without room for headers above the watermark.
func checkWatermark(v parameter.Values, _ int, _ []switches.Frames) []switches.Problem {
	room, watermark, header := v.Int("data-queue-bytes"), v.Int("watermark-bytes"), v.Int("trim-bytes")
	if room >= watermark+header {
		return nil
	}
	return []switches.Problem{{Key: "watermark-bytes",
		What: fmt.Sprintf("%d leaves no room for headers in a queue of %d bytes: packets are lost instead of trimmed",
			watermark, room),
		Why: fmt.Sprintf("data-queue-bytes must be at least watermark-bytes plus trim-bytes, which is %d", watermark+header)}}
}

func ideal() Model {
	return Model{
		Model: parameter.Model{
			Name: "ndp-ideal", Doc: "NDP's output-queued switch: trims when the data queue is full, returns headers to their " +
				"sender when theirs is.",
			Parameters: append(twoQueues("15000", "0"),
				wireCounts("true"),
				parameter.Parameter{Name: "trim-last-percent", Kind: parameter.Integer, Unit: "%", Default: "50", Max: 100,
					Doc: "How often the last packet of the full queue is trimmed rather than the arriving one."},
				parameter.Parameter{Name: "return-to-sender", Kind: parameter.Boolean, Default: "true",
					Doc: "A header that finds the queue of headers full goes back to its sender; otherwise it is lost."}),
		},
		Configure: configureTwoQueues,
		New: func(v parameter.Values, _ []string) fabric.Mechanism {
			return &Ideal{
				cutter: newCutter(v), room: v.Int("data-queue-bytes"),
				lastOne: float64(v.Int("trim-last-percent")) / 100, toSender: v.Bool("return-to-sender"),
			}
		},
	}
}

func sourceFlowControl() Model {
	return Model{
		Model: parameter.Model{
			Name: "sfc", Doc: "Source flow control: above a threshold the header of a packet goes back to its source.",
			Parameters: append(twoQueues("30000", "0"), wireCounts("false"),
				parameter.Parameter{Name: "threshold-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "15000",
					Max: maxQueueBytes,
					Doc: "Bytes in the data queue above which an arriving packet is trimmed and returned."}),
		},
		NoNIC:     "it returns headers to their source, and the source is the host itself",
		Configure: configureTwoQueues,
		New: func(v parameter.Values, _ []string) fabric.Mechanism {
			return &SourceFlowControl{cutter: newCutter(v), threshold: v.Int("threshold-bytes")}
		},
	}
}

func mirrorOnDrop() Model {
	table := append(twoQueues("30000", "1000000"), recirculation("1000000", "16")...)
	table = append(table, parameter.Parameter{Name: "to-sender", Kind: parameter.Boolean, Default: "false",
		Doc: "Headers that come back from the recirculation port go to the source instead of the destination."})
	return Model{
		Model: parameter.Model{
			Name: "mod", Doc: "Mirror on drop: the traffic manager copies the header of a dropped packet to a recirculation " +
				"port.", Parameters: table,
		},
		Configure: configureRecirculation,
		New: func(v parameter.Values, _ []string) fabric.Mechanism {
			return &MirrorOnDrop{cutter: newCutter(v), toSender: v.Bool("to-sender")}
		},
	}
}

func deflectOnDrop() Model {
	return Model{
		Model: parameter.Model{
			Name: "dod", Doc: "Deflect on drop, Tofino without feedback: ingress meters trim to line rate, what overflows is " +
				"recirculated whole.",
			Parameters: append(append(twoQueues("30000", "1000000"), recirculation("24000000", "16")...), meters()...),
		},
		Configure: configureRecirculation,
		New: func(v parameter.Values, _ []string) fabric.Mechanism {
			return &DeflectOnDrop{
				cutter: newCutter(v), notify: nobody,
				config: LoopConfig{Burst: v.Int("meter-burst-bytes"), Response: ToQuarter, Flavour: ThreeMeters},
				jitter: jitter{most: v.Duration("jitter-ns")},
			}
		},
	}
}

// Bugs of the models.
const bugWrap = "timestamp-wrap"

func tofino() Model {
	return Model{
		Model: parameter.Model{
			Name: "tofino",
			Doc:  "Tofino's trimming: dod, and a control loop that makes ingress trim more while packets are deflected.",
			Parameters: append(append(append(twoQueues("30000", "1000000"), recirculation("24000000", "16")...), meters()...),
				loopTable()...),
			Bugs: []parameter.Bug{{Name: bugWrap,
				Doc: "The two-meter flavour ignores that its 32-bit clock wraps: ports seem congested after a wrap, and deaf " +
					"before it."}},
		},
		Configure: configureRecirculation,
		New:       newTofino,
	}
}

func newTofino(v parameter.Values, bugs []string) fabric.Mechanism {
	t0 := v.Duration("pessimistic-us")
	half := 3 * t0
	if v.Has("half-pessimistic-us") {
		half = v.Duration("half-pessimistic-us")
	}
	cfg := LoopConfig{
		Burst: v.Int("meter-burst-bytes"), T0: t0, T1: t0 + half,
		Response: ToQuarter, Count: v.Int("trim-count"), Flavour: ThreeMeters, Origin: v.Duration("clock-ms"),
	}
	switch v.Word("response") {
	case "trim-all":
		cfg.Response = TrimAll
	case "trim-count":
		cfg.Response = TrimCount
	}
	if v.Word("flavour") == "two-meters" {
		cfg.Flavour = TwoMeters
	}
	for _, b := range bugs {
		cfg.WrapDefect = cfg.WrapDefect || b == bugWrap
	}
	whom := everyPipeline
	if v.Word("notify") == "own" {
		whom = ownPipeline
	}
	return &Tofino{DeflectOnDrop{cutter: newCutter(v), config: cfg, notify: whom,
		jitter: jitter{most: v.Duration("jitter-ns")}}}
}

func loopTable() parameter.Table {
	return parameter.Table{
		{Name: "pessimistic-us", Kind: parameter.Duration, Unit: "us", Default: "6", Max: maxTime,
			Doc: "T0: how long a port is pessimistic after a notification."},
		{Name: "half-pessimistic-us", Kind: parameter.Duration, Unit: "us", Optional: true, Max: maxTime,
			Doc: "How long it is half-pessimistic after that (T1 − T0); 0: there is no such phase. By default three times " +
				"pessimistic-us, as 18 is of 6."},
		{Name: "response", Kind: parameter.Word, Words: []string{"quarter", "trim-all", "trim-count"}, Default: "quarter",
			Doc: "What pessimistic means: trim to a quarter of line rate, trim every packet, or trim trim-count packets for " +
				"each notification."},
		{Name: "trim-count", Kind: parameter.Integer, Unit: "packets", Default: "12", Min: 1, Max: 1_000_000,
			Doc: "Of response trim-count."},
		{Name: "notify", Kind: parameter.Word, Words: []string{"all", "own"}, Default: "all",
			Doc: "Which pipelines hear of a deflected packet: all, or only the one that it came in by."},
		{Name: "flavour", Kind: parameter.Word, Words: []string{"three-meters", "two-meters"}, Default: "three-meters",
			Doc: "three-meters as in ndp.p4, two-meters as in switch.p4."},
		{Name: "clock-ms", Kind: parameter.Duration, Unit: "ms", Default: "1000", Max: 100_000_000,
			Doc: "What the switch's clock says at the start; the two-meter flavour keeps 32 bits of its nanoseconds, which " +
				"wrap every 4294.967296 ms."},
	}
}

func tofino2() Model {
	table := append(append(twoQueues("15000", "1000000"), recirculation("1000000", "8")...),
		parameter.Parameter{Name: "stages-left", Kind: parameter.Integer, Unit: "stages", Default: "4", Max: 64,
			Doc: "Pipeline stages behind the one that reads the queue's length: so many packets per pipeline are on their way " +
				"unseen."},
		parameter.Parameter{Name: "stage-ns", Kind: parameter.Duration, Unit: "ns", Default: "1", Min: 0, Max: maxTime,
			Doc: "Time of one stage; a pipeline takes one packet in each."})
	return Model{
		Model: parameter.Model{
			Name: "tofino2", Doc: "Tofino 2: ingress sees the real length of queues, some stages late; what slips through is " +
				"deflected.", Parameters: table,
		},
		Configure: configureRecirculation,
		New: func(v parameter.Values, _ []string) fabric.Mechanism {
			return &Tofino2{cutter: newCutter(v), threshold: v.Int("data-queue-bytes"), cycle: v.Duration("stage-ns"),
				stages: v.Int("stages-left")}
		},
	}
}

func queueBytes(def, doc string) parameter.Parameter {
	return parameter.Parameter{Name: "data-queue-bytes", Kind: parameter.Integer, Unit: "bytes", Default: def, Min: 64,
		Max: maxQueueBytes, Doc: doc}
}

func trimBytes() parameter.Parameter {
	return parameter.Parameter{Name: "trim-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "64", Min: 64,
		Max: 9216,
		Doc: "What is left of a trimmed frame, from its Ethernet header on, without FCS."}
}

func wireCounts(def string) parameter.Parameter {
	return parameter.Parameter{Name: "on-wire-counts", Kind: parameter.Boolean, Default: def,
		Doc: "The data packet that is being sent still takes room in its queue (as in htsim); otherwise only waiting " +
			"packets do."}
}

// meters are the parameters of metering ingress pipelines.
func meters() parameter.Table {
	return parameter.Table{
		{Name: "meter-burst-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "15000", Min: 64, Max: MaxBurst,
			Doc: "Burst of every ingress meter. The sources give none; the default is ten packets, about the data queue that " +
				"a meter stands for."},
		{Name: "jitter-ns", Kind: parameter.Duration, Unit: "ns", Default: "500", Max: maxTime,
			Doc: "Packets enter the ingress pipeline up to so much later than they arrive, by chance: senders that are not in " +
				"step."},
	}
}

// twoQueues are the parameters of a port with a data queue and a header queue.
func twoQueues(data, headers string) parameter.Table {
	return parameter.Table{
		queueBytes(data, "Room of a port's data queue; 15000 are ten packets of 1500 bytes."),
		{Name: "header-queue-bytes", Kind: parameter.Integer, Unit: "bytes", Default: headers, Max: maxQueueBytes,
			Doc: "Room of a port's queue of headers and NDP control packets; 0: as many bytes as the data queue."},
		{Name: "scheduler", Kind: parameter.Word, Words: []string{"wrr", "dwrr", "strict"}, Default: "wrr",
			Doc: "How headers and data share the port: weighted by packets or by bytes, or headers always first."},
		{Name: "header-weight", Kind: parameter.Integer, Unit: "packets", Default: "10", Min: 1, Max: 1 << 20,
			Doc: "Weight of headers in wrr and dwrr; data has 1."},
		trimBytes(),
	}
}

// recirculation are the parameters of a switch with recirculation ports.
func recirculation(queue, ports string) parameter.Table {
	return parameter.Table{
		{Name: "ports-per-pipeline", Kind: parameter.Integer, Unit: "ports", Default: ports, Min: 1, Max: 1024,
			Doc: "Ports of a pipeline, in order; each pipeline has one recirculation port."},
		{Name: "recirculation-gbps", Kind: parameter.Rate, Unit: "Gbps", Default: "100", Min: 1, Max: 1600,
			Doc: "Rate of a recirculation port."},
		{Name: "recirculation-ns", Kind: parameter.Duration, Unit: "ns", Default: "1000", Max: maxTime,
			Doc: "Latency of a recirculation, beyond queueing and serialisation."},
		{Name: "recirculation-queue-bytes", Kind: parameter.Integer, Unit: "bytes", Default: queue, Min: 1500,
			Max: maxQueueBytes,
			Doc: "Room of a recirculation port's queue; what finds it full is lost. The sources give none."},
	}
}

// dataQueues returns the number of data queues of a port, a setting that all models have.
func dataQueues(v parameter.Values) uint8 {
	if v.Table().Find("queues") < 0 {
		return 1
	}
	return uint8(v.Int("queues"))
}

func newCutter(v parameter.Values) cutter {
	c := cutter{keep: v.Int("trim-bytes"), headers: dataQueues(v)}
	if v.Table().Find("on-wire-counts") >= 0 {
		c.wireCounts = v.Bool("on-wire-counts")
	}
	return c
}

func configureTwoQueues(v parameter.Values, s *fabric.SwitchSpec) {
	data, headers := v.Int("data-queue-bytes"), v.Int("header-queue-bytes")
	if headers == 0 {
		headers = data
	}
	s.Queues = []fabric.QueueSpec{{MaxBytes: data}, {MaxBytes: headers}}
	s.Scheduler = fabric.SchedulerSpec{Kind: fabric.SchedulerKind(v.Word("scheduler")),
		Weights: []int{1, v.Int("header-weight")}}
}

func configureRecirculation(v parameter.Values, s *fabric.SwitchSpec) {
	configureTwoQueues(v, s)
	s.PortsPerPipeline = v.Int("ports-per-pipeline")
	s.Recirculation = fabric.RecirculationSpec{
		Rate: v.Rate("recirculation-gbps"), Latency: v.Duration("recirculation-ns"),
		Queues: []fabric.QueueSpec{{MaxBytes: v.Int("recirculation-queue-bytes"), Private: true}},
	}
}

// Compile-time checks of the fabric's interfaces.
var (
	_ fabric.Mechanism = (*Ideal)(nil)
	_ fabric.Starter   = (*Tofino)(nil)
)
