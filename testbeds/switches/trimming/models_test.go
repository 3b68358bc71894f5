package trimming

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// source is an open-loop host: it sends a flow at line rate and records arrivals.
type source struct {
	dst      fabric.HostID
	left     int
	size     func(n int) int
	sent     int
	start    clock.Time
	now      clock.Time
	protocol fabric.Protocol
	arrived  func(p *fabric.Packet)
}

func (s *source) Receive(_ clock.Time, p *fabric.Packet) { s.arrived(p) }

func (s *source) Poll(now clock.Time, p *fabric.Packet) bool {
	s.now = now
	if s.left == 0 || now < s.start {
		return false
	}
	s.left--
	p.Dst, p.Protocol, p.Size = s.dst, s.protocol, int32(s.size(s.sent))
	if s.protocol == fabric.NDP {
		p.NDP = ndp.Header{Kind: ndp.Data, Seq: uint32(s.sent)}
	}
	s.sent++
	return true
}

func (s *source) NextTimer() clock.Time {
	if s.left > 0 && s.now < s.start {
		return s.start
	}
	return clock.Never
}

func (s *source) HandleTimer(now clock.Time) { s.now = now }

// scene is an incast through one switch.
type scene struct {
	model     string
	settings  []string
	bugs      []string
	senders   int
	receivers int
	packets   int
	size      func(n int) int
	protocol  fabric.Protocol
	start     func(sender int) clock.Time
	tap       fabric.Tap
}

// outcome counts the fates of a scene's packets.
type outcome struct {
	net               *fabric.Network
	sent              int
	whole, headers    int // at receivers
	returned          int // headers at their senders
	trims             Trims
	wrong             []string
	recirculationPeak int // packets
}

// play runs a scene to its end. Senders are hosts 0…, receivers follow.
func play(t interface{ Fatal(...any) }, sc scene) *outcome {
	model := modelNamed(sc.model)
	values, err := model.Parameters.Values(sc.settings...)
	if err != nil {
		t.Fatal(err)
	}
	spec := fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{Hosts: sc.senders + sc.receivers}}
	model.Configure(values, &spec.Switch)
	net, err := fabric.New(&spec, func(*fabric.Switch) fabric.Mechanism { return model.New(values, sc.bugs) })
	if err != nil {
		t.Fatal(err)
	}
	if sc.tap != nil {
		net.SetTap(sc.tap)
	}
	o := &outcome{net: net, sent: sc.senders * sc.packets}
	for i := range sc.senders + sc.receivers {
		s := &source{size: sc.size, protocol: sc.protocol}
		if s.size == nil {
			s.size = func(int) int { return fullMTU }
		}
		if s.protocol == 0 {
			s.protocol = fabric.Raw
		}
		if i < sc.senders {
			s.left, s.dst = sc.packets, fabric.HostID(sc.senders+i%sc.receivers)
			if sc.start != nil {
				s.start = sc.start(i)
			}
		}
		host := fabric.HostID(i)
		s.arrived = func(p *fabric.Packet) { o.count(host, i < sc.senders, p) }
		net.Host(host).Attach(s)
	}
	if err := net.Run(clock.Never - 1); err != nil {
		t.Fatal(err)
	}
	o.collect()
	return o
}

func modelNamed(name string) Model {
	for _, m := range Models() {
		if m.Name == name {
			return m
		}
	}
	panic("no model " + name)
}

func (o *outcome) count(host fabric.HostID, isSender bool, p *fabric.Packet) {
	complain := func(what string) {
		o.wrong = append(o.wrong, fmt.Sprintf("packet %d at host %d: %s", p.ID, host, what))
	}
	trimmed, returned := p.Flags&fabric.Trimmed != 0, p.Flags&fabric.Returned != 0
	switch {
	case p.Dst != host:
		complain("it is for another host")
	case returned != isSender:
		complain("a returned header belongs to a sender, everything else to a receiver")
	case !trimmed && p.Size != p.Original:
		complain("its size changed without a mark")
	case p.Protocol == fabric.NDP && trimmed != (p.NDP.Flags&ndp.FlagTrimmed != 0):
		complain("NDP's trimmed mark is wrong")
	case p.Protocol == fabric.NDP && returned != (p.NDP.Flags&ndp.FlagReturned != 0):
		complain("NDP's returned mark is wrong")
	case trimmed && (p.Size >= p.Original || p.Original < 65):
		complain("trimmed, but no shorter")
	}
	switch {
	case returned:
		o.returned++
	case trimmed:
		o.headers++
	default:
		o.whole++
	}
}

func (o *outcome) collect() {
	sw := o.net.Switch(0)
	m := sw.Mechanism().(interface{ Trims(port int) Trims })
	for port := range sw.Ports() {
		t := m.Trims(port)
		o.trims.Ingress += t.Ingress
		o.trims.Overflow += t.Overflow
		o.trims.Deflected += t.Deflected
		o.trims.Returned += t.Returned
		o.trims.Lost += t.Lost
	}
	for i := range sw.Pipelines() {
		if r := sw.Recirculation(i); r != nil {
			o.recirculationPeak = max(o.recirculationPeak, r.Queue(0).Counters().MaxPackets)
		}
	}
}

func TestParametersAreSound(t *testing.T) {
	for _, m := range Models() {
		if err := m.Parameters.Check(); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if m.Doc == "" || m.Configure == nil || m.New == nil {
			t.Errorf("%s lacks something", m.Name)
		}
	}
}

func TestEveryPacketArrivesWholeOrAsAHeader(t *testing.T) {
	keepers := []string{"ndp-ideal", "sfc", "mod", "dod", "tofino", "tofino2"}
	for _, name := range keepers {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				sizes := rapid.SliceOfN(rapid.IntRange(60, 1500), 1, 5).Draw(t, "sizes")
				sc := scene{
					model:    name,
					settings: []string{"header-queue-bytes=2000000"},
					senders:  rapid.IntRange(1, 40).Draw(t, "senders"), receivers: rapid.IntRange(1, 8).Draw(t, "receivers"),
					packets:  rapid.IntRange(1, 60).Draw(t, "packets"),
					size:     func(n int) int { return sizes[n%len(sizes)] },
					protocol: rapid.SampledFrom([]fabric.Protocol{fabric.Raw, fabric.NDP}).Draw(t, "protocol"),
				}
				if name == "tofino" {
					sc.settings = append(sc.settings,
						"response="+rapid.SampledFrom([]string{"quarter", "trim-all", "trim-count"}).Draw(t, "response"),
						"notify="+rapid.SampledFrom([]string{"all", "own"}).Draw(t, "notify"),
						"flavour="+rapid.SampledFrom([]string{"three-meters", "two-meters"}).Draw(t, "flavour"))
				}
				if name == "sfc" || name == "ndp-ideal" {
					sc.settings = append(sc.settings, "on-wire-counts="+rapid.SampledFrom([]string{"true", "false"}).Draw(t, "wire"))
				}
				o := play(t, sc)
				// Packets no longer than a header can't be trimmed; if their queue is full, they are lost and counted.
				if got := o.whole + o.headers + o.returned + int(o.trims.Lost); got != o.sent || len(o.wrong) > 0 {
					t.Fatalf("%d sent: %d whole, %d headers, %d returned, %d lost; %v", o.sent, o.whole, o.headers, o.returned,
						o.trims.Lost, o.wrong)
				}
				if shortest := sizes[0]; o.trims.Lost > 0 && shortest > 64 && len(sizes) == 1 {
					t.Fatalf("%d packets of %d bytes are lost", o.trims.Lost, shortest)
				}
				if int(o.trims.All()) != o.headers+o.returned {
					t.Fatalf("%d trims counted, %d headers arrived", o.trims.All(), o.headers+o.returned)
				}
			})
		})
	}
}

func TestTheIdealSwitchReturnsHeadersThatFindNoRoom(t *testing.T) {
	o := play(t, scene{model: "ndp-ideal", senders: 63, receivers: 1, packets: 200, protocol: fabric.NDP})
	if o.returned == 0 || o.trims.Lost != 0 || len(o.wrong) > 0 {
		t.Fatalf("%+v %v", o.trims, o.wrong)
	}
	if o.whole+o.headers+o.returned != o.sent {
		t.Errorf("%d of %d accounted for", o.whole+o.headers+o.returned, o.sent)
	}
	without := play(t, scene{model: "ndp-ideal", settings: []string{"return-to-sender=false"}, senders: 63, receivers: 1,
		packets: 200})
	if without.returned != 0 || without.trims.Lost == 0 {
		t.Errorf("without return to sender: %+v", without.trims)
	}
}

func TestDropTailCountsWhatItLoses(t *testing.T) {
	o := play(t, scene{model: "droptail", settings: []string{"data-queue-bytes=15000"}, senders: 4, receivers: 1,
		packets: 100})
	if o.headers != 0 || o.whole+int(o.trims.Lost) != o.sent || o.trims.Lost < 250 {
		t.Errorf("%d sent, %d whole, %d headers, %d lost", o.sent, o.whole, o.headers, o.trims.Lost)
	}
	if dropped := o.net.Switch(0).Dropped(fabric.ReasonTail); dropped != o.trims.Lost {
		t.Errorf("the switch counts %d drops, the mechanism %d", dropped, o.trims.Lost)
	}
}

func TestCutPayloadKeepsHeadersInOrder(t *testing.T) {
	o := play(t, scene{model: "cp", settings: []string{"data-queue-bytes=200000"}, senders: 8, receivers: 1, packets: 100,
		protocol: fabric.NDP})
	if o.headers == 0 || o.trims.Lost != 0 || o.whole+o.headers != o.sent || len(o.wrong) > 0 {
		t.Errorf("%d sent, %d whole, %d headers; %+v %v", o.sent, o.whole, o.headers, o.trims, o.wrong)
	}
	last := map[uint32]uint32{}
	sc := scene{model: "cp", settings: []string{"data-queue-bytes=200000"}, senders: 8, receivers: 1, packets: 100,
		protocol: fabric.NDP}
	sc.tap = func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		if at.Host || at.Stage != fabric.Egress {
			return
		}
		if seq, seen := last[uint32(p.Src)]; seen && p.NDP.Seq != seq+1 {
			t.Errorf("host %d: packet %d leaves after %d", p.Src, p.NDP.Seq, seq)
		}
		last[uint32(p.Src)] = p.NDP.Seq
	}
	play(t, sc)
}

func TestSourceFlowControlSendsEveryHeaderBack(t *testing.T) {
	o := play(t, scene{model: "sfc", senders: 8, receivers: 1, packets: 100, protocol: fabric.NDP})
	if o.headers != 0 || o.returned == 0 || o.whole+o.returned != o.sent {
		t.Errorf("%d sent, %d whole, %d headers, %d returned", o.sent, o.whole, o.headers, o.returned)
	}
}

// headerDelays returns, for every header that left a switch, its delay since its packet's arrival, in microseconds.
func headerDelays(t *testing.T, sc scene) (delays []float64) {
	t.Helper()
	arrived := map[uint64]clock.Time{}
	sc.tap = func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if at.Host {
			return
		}
		front := at.Port < sc.senders+sc.receivers
		switch {
		case at.Stage == fabric.Ingress && front:
			arrived[p.ID] = now
		case at.Stage == fabric.Egress && front && p.Flags&fabric.Trimmed != 0:
			delays = append(delays, now.Sub(arrived[p.ID]).Microseconds())
		}
	}
	play(t, sc)
	return delays
}

func TestMirroredHeadersTakeARecirculationLonger(t *testing.T) {
	sum := func(values []float64) (total float64) {
		for _, v := range values {
			total += v
		}
		return total / float64(len(values))
	}
	base := scene{senders: 4, receivers: 1, packets: 100}
	base.model = "ndp-ideal"
	ideal := sum(headerDelays(t, base))
	base.model, base.settings = "mod", []string{"recirculation-ns=1000"}
	mirrored := sum(headerDelays(t, base))
	if d := mirrored - ideal; d < 0.95 || d > 1.2 {
		t.Errorf("headers take %.3f us, mirrored ones %.3f us", ideal, mirrored)
	}
	base.settings = []string{"recirculation-ns=3000"}
	if d := sum(headerDelays(t, base)) - mirrored; d < 1.9 || d > 2.1 {
		t.Errorf("2 us more of recirculation make headers %.3f us later", d)
	}
}

func TestIngressMetersTrimOnlyWhatOnePipelineSendsTooMuch(t *testing.T) {
	// Four senders in one pipeline of 16 ports: the meter sees all traffic, so only what headers displace is deflected.
	one := play(t, scene{model: "dod", senders: 4, receivers: 1, packets: 400})
	// One sender in each of four pipelines: no meter sees more than line rate.
	four := play(t, scene{model: "dod", settings: []string{"ports-per-pipeline=1"}, senders: 4, receivers: 1,
		packets: 400})
	if one.trims.Ingress < 1000 || one.trims.Deflected > one.trims.Ingress/8 {
		t.Errorf("one pipeline: %+v", one.trims)
	}
	if four.trims.Ingress != 0 || four.trims.Deflected < 1000 {
		t.Errorf("four pipelines: %+v", four.trims)
	}
}

func TestTheControlLoopKeepsTheRecirculationQueueShort(t *testing.T) {
	worst := scene{model: "dod", settings: nil, senders: 64, receivers: 16, packets: 300}
	open := play(t, worst)
	worst.model = "tofino"
	closed := play(t, worst)
	if open.recirculationPeak < 1000 || closed.recirculationPeak > 250 {
		t.Errorf("recirculation queues: %d packets without, %d with the loop", open.recirculationPeak,
			closed.recirculationPeak)
	}
	if open.trims.Lost+closed.trims.Lost > 0 {
		t.Errorf("lost: %d without, %d with the loop", open.trims.Lost, closed.trims.Lost)
	}
	// Only notifications differ: without a response, the loop is DoD.
	worst.settings = []string{"pessimistic-us=0", "half-pessimistic-us=0"}
	if off := play(t, worst); off.trims != open.trims || off.recirculationPeak != open.recirculationPeak {
		t.Errorf("a loop without response: %+v, %d; without loop: %+v, %d", off.trims, off.recirculationPeak, open.trims,
			open.recirculationPeak)
	}
}

func TestTofino2DeflectsOnlyWhatSlipsThrough(t *testing.T) {
	// A packet from each of 64 ports, as fast as eight pipelines accept them: in each, four or five are judged before any
	// is visible.
	burst := play(t, scene{model: "tofino2", senders: 64, receivers: 1, packets: 1,
		start: func(i int) clock.Time { return at(clock.Duration(i%8) * clock.Nanosecond) }})
	if burst.trims.Deflected < 8 || burst.trims.Deflected > 32 || burst.recirculationPeak < 2 ||
		burst.recirculationPeak > 5 {
		t.Errorf("burst: %+v, recirculation queues of %d packets; the paper expects up to 32 and about 4", burst.trims,
			burst.recirculationPeak)
	}
	// Unsynchronised senders, as in reality: few packets pass in the time of four stages.
	spread := scene{model: "tofino2", senders: 64, receivers: 1, packets: 100,
		start: func(i int) clock.Time { return at(clock.Duration(i) * 1875 * clock.Picosecond) }}
	o := play(t, spread)
	if o.trims.Deflected == 0 || o.trims.Deflected > o.trims.Ingress/10 || o.recirculationPeak > 5 || o.trims.Lost > 0 {
		t.Errorf("spread: %+v, recirculation queues of %d packets", o.trims, o.recirculationPeak)
	}
	spread.settings = []string{"stages-left=0"}
	if exact := play(t, spread); exact.trims.Deflected != 0 {
		t.Errorf("with the queue's length known exactly %d packets are deflected", exact.trims.Deflected)
	}
}

func TestAWrappingClockDisturbsAnIdleSwitch(t *testing.T) {
	sc := scene{model: "tofino", settings: []string{"flavour=two-meters", "clock-ms=4294.967", "meter-burst-bytes=1500",
		"jitter-ns=0"},
		senders: 1, receivers: 1, packets: 200}
	if o := play(t, sc); o.trims.All() != 0 {
		t.Errorf("a sound switch trims %d packets of a lone sender", o.trims.All())
	}
	sc.bugs = []string{"timestamp-wrap"}
	if o := play(t, sc); o.trims.Ingress == 0 {
		t.Error("the wrap of the clock goes unnoticed")
	}
}

func TestRunsRepeatThemselves(t *testing.T) {
	for _, m := range Models() {
		sc := scene{model: m.Name, senders: 20, receivers: 3, packets: 50}
		a, b := play(t, sc), play(t, sc)
		if a.trims != b.trims || a.whole != b.whole || a.net.Hops() != b.net.Hops() || a.net.Now() != b.net.Now() {
			t.Errorf("%s: two runs differ", m.Name)
		}
	}
}
