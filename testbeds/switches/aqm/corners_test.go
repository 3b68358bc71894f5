package aqm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/switches"
)

// bottleneck is a port that a test serves itself: a trap, a queue with AFD, and a wire.
type bottleneck struct {
	link     clock.BitRate
	trap     *Etrap
	fair     *AFD
	random   *rand.Rand
	queue    int // bytes
	capacity int // 0: no limit
	wire     clock.Time
	most     int
	waiting  []waiting
	carried  map[uint32]int64 // bytes
	early    map[uint32]int
	seen     map[uint32]int
	tail     int
	sum, n   float64 // of the queue at arrivals
}

type waiting struct {
	flow uint32
	size int
}

func newBottleneck(link clock.BitRate, trap aqm.Etrap, policy aqm.Policy) *bottleneck {
	return &bottleneck{link: link, trap: NewEtrap(trap), fair: NewAFD(0, policy, link),
		random: rand.New(rand.NewPCG(7, 11)), carried: map[uint32]int64{}, early: map[uint32]int{}, seen: map[uint32]int{}}
}

// serve sends what leaves before now. The frame on the wire does not wait.
func (b *bottleneck) serve(now clock.Time) {
	for len(b.waiting) > 0 && b.wire < now {
		p := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.fair.Advance(b.wire, b.queue)
		b.queue -= p.size
		b.carried[p.flow] += int64(p.size)
		b.wire = b.wire.Add(b.link.Serialise(p.size))
	}
}

func (b *bottleneck) arrive(now clock.Time, flow uint32, size int) {
	b.serve(now)
	b.fair.Advance(now, b.queue)
	b.seen[flow]++
	b.sum += float64(b.queue)
	b.n++
	s := b.trap.Observe(now, Key{Flow: flow}, size)
	if s.Elephant {
		if d := b.fair.Probability(s.Rate, b.queue); d > 0 && b.random.Float64() < d {
			b.early[flow]++
			return
		}
	}
	if b.capacity > 0 && b.queue+size > b.capacity {
		b.tail++
		return
	}
	if b.queue == 0 && b.wire < now {
		b.wire = now
	}
	b.waiting = append(b.waiting, waiting{flow, size})
	b.queue += size
	b.most = max(b.most, b.queue)
}

// offer lets flows send packets of 1500 bytes at constant rates in Gb/s for so long, gaps being 1 ± 0.5 times the mean.
func (b *bottleneck) offer(rates []float64, from, until clock.Duration) {
	next := make([]clock.Time, len(rates))
	gap := func(flow int) clock.Duration {
		mean := 12000 / rates[flow] * float64(clock.Nanosecond)
		return clock.Duration(mean * (0.5 + b.random.Float64()))
	}
	for flow := range next {
		next[flow] = at(from).Add(gap(flow))
	}
	for {
		flow := 0
		for i := range next {
			if next[i] < next[flow] {
				flow = i
			}
		}
		if next[flow] >= at(until) {
			return
		}
		b.arrive(next[flow], uint32(flow), 1500)
		next[flow] = next[flow].Add(gap(flow))
	}
}

func law() aqm.Policy {
	return aqm.Policy{Period: 25 * us, Kp: 0.02, Ki: 0.0005, LeastRate: 10_000_000, MaxDrop: 1}
}

// The law's equilibrium is max-min fair at rates and mixes of flows other than the specification's. The shares come
// from progressive filling, which knows neither queue nor fair rate.
func TestAFDSharesAreMaxMinFair(t *testing.T) {
	const ms = 1000 * us
	for _, c := range []struct {
		link   clock.BitRate
		offers []float64
	}{
		{25 * clock.Gbps, []float64{1, 3, 7, 9, 20}},
		{40 * clock.Gbps, []float64{30, 30, 5}},
		{100 * clock.Gbps, []float64{10, 20, 30, 40, 50, 60}},
	} {
		b := newBottleneck(c.link, defaults(), law())
		b.offer(c.offers, 0, 20*ms)
		clear(b.carried)
		b.sum, b.n = 0, 0
		b.offer(c.offers, 20*ms, 50*ms)
		want, err := waterfill.Flat(float64(c.link)/1e9, c.offers)
		if err != nil {
			t.Fatal(err)
		}
		for flow, share := range want {
			got := float64(8*b.carried[uint32(flow)]) / 0.03 / 1e9
			if math.Abs(got/share-1) > 0.02 {
				t.Errorf("%v Gb/s, flow %d of %v: %.3f Gb/s, max-min fair are %.3f", c.link, flow, c.offers, got, share)
			}
		}
		desired := float64(aqm.DesiredDepth(c.link))
		if mean := b.sum / b.n; math.Abs(mean/desired-1) > 0.1 {
			t.Errorf("%v: mean queue %.0f, desired %.0f", c.link, mean, desired)
		}
	}
}

// Section 12: a single elephant at no more than the link's rate meets no queue, the greatest fair rate, and no drop.
func TestASingleElephantIsNeverDropped(t *testing.T) {
	b := newBottleneck(10*clock.Gbps, defaults(), law())
	for i := range 5000 {
		b.arrive(at(clock.Duration(i)*1200*clock.Nanosecond), 0, 1500)
	}
	if b.early[0] > 0 || b.fair.Fair() != 10e9 || b.most > 1500 {
		t.Errorf("%d drops, fair rate %v, queue %d", b.early[0], b.fair.Fair(), b.most)
	}
}

// Section 12: mice that overload a port are never dropped early, and only the buffer bounds the queue.
func TestMiceOverloadAPortUpToItsBuffer(t *testing.T) {
	b := newBottleneck(10*clock.Gbps, defaults(), law())
	b.capacity = 600_000
	for i := range 4000 {
		b.arrive(at(clock.Duration(i)*600*clock.Nanosecond), uint32(i/600), 1500)
	}
	drops := 0
	for _, n := range b.early {
		drops += n
	}
	if drops > 0 || b.most != b.capacity || b.tail == 0 {
		t.Errorf("%d early drops, %d others, at most %d bytes", drops, b.tail, b.most)
	}
}

// Section 12: an elephant that pauses has its whole byte count free again; the sizes are those of the specification.
func TestAPauseGivesTheByteCountAgain(t *testing.T) {
	trap := NewEtrap(defaults())
	now, elephants := clock.Time(0), []int(nil)
	for i := range 1500 {
		if i == 750 {
			now = now.Add(1000 * us)
		}
		if trap.Observe(now, Key{}, 1500).Elephant {
			elephants = append(elephants, i)
		}
		now = now.Add(1200 * clock.Nanosecond)
	}
	if len(elephants) != 51+51 || elephants[0] != 699 || elephants[51] != 750+699 {
		t.Errorf("%d elephants, first and last %d and %d", len(elephants), elephants[0], elephants[len(elephants)-1])
	}
}

// Section 12: the rate is measured before drops, so a flow that does not respond keeps its probability.
func TestDropsDoNotLowerTheMeasuredRate(t *testing.T) {
	b := newBottleneck(10*clock.Gbps, defaults(), law())
	b.offer([]float64{20}, 0, 20_000*us)
	b.early, b.seen = map[uint32]int{}, map[uint32]int{}
	b.offer([]float64{20}, 20_000*us, 40_000*us)
	if share := float64(b.early[0]) / float64(b.seen[0]); math.Abs(share-0.5) > 0.02 {
		t.Errorf("%.3f of twice the link's rate are dropped", share)
	}
}

// Section 12: the first estimate of a rate is that of the first, partial window, so a burst of the line looks like it.
func TestABurstOfTheLineLooksLikeItsRate(t *testing.T) {
	trap := NewEtrap(aqm.Etrap{ByteCount: 15_000, AgePeriod: 500 * us, Threshold: 500, Weight: 0.5})
	var s Sighting
	for i := range 11 {
		s = trap.Observe(at(clock.Duration(i)*1200*clock.Nanosecond), Key{}, 1500)
	}
	if !s.Elephant || math.Abs(s.Rate-11e9) > 1 { // 11 packets in the time of 10
		t.Errorf("%+v", s)
	}
}

// Section 12: DPP starts a flow again while its older packets wait longer than the age period.
func TestAFlowThatStartsAgainOvertakesItself(t *testing.T) {
	d := NewDPP(aqm.DPP{MaxPackets: 120, AgePeriod: 5000 * us, Class: -1})
	for range 121 {
		d.Classify(0, Key{}, 1500)
	}
	if mouse, _ := d.Classify(0, Key{}, 1500); mouse {
		t.Fatal("packet 122 is a mouse")
	}
	if mouse, n := d.Classify(at(5001*us), Key{}, 1500); !mouse || n != 1 {
		t.Errorf("mouse %v, number %d", mouse, n)
	}
}

// Section 12: a flow that arrives by two ports is counted by each, with one table for the switch once; section 13, 7:
// 120 packets are any packets of the flow, of 64 bytes, too.
func TestPortsCountFlowsSeparately(t *testing.T) {
	for _, shared := range []bool{false, true} {
		m := &Mechanism{set: aqm.Settings{Scheme: aqm.AFD, Etrap: defaults(),
			DPP: &aqm.DPP{MaxPackets: 120, AgePeriod: 5000 * us, Class: -1, PerSwitch: shared}}}
		m.set.Etrap.PerSwitch = shared
		m.traps, m.firsts = make([]*Etrap, 2), make([]*DPP, 2)
		for i := range 2 {
			m.startTables(i)
		}
		mice, bytes := 0, 0
		for i := range 2000 {
			size := []int{1500, 64}[i/2%2]
			if mouse, _ := m.firsts[i%2].Classify(0, Key{}, size); mouse {
				mice++
			}
			if !m.traps[i%2].Observe(0, Key{}, 1500).Elephant {
				bytes += 1500
			}
		}
		if want := []int{240, 120}; mice != want[map[bool]int{true: 1}[shared]] {
			t.Errorf("shared %v: %d packets are mice", shared, mice)
		}
		if want := []int{2 * 1_048_500, 1_048_500}; bytes != want[map[bool]int{true: 1}[shared]] {
			t.Errorf("shared %v: %d bytes of mice", shared, bytes)
		}
	}
}

// Section 13, 2: the greatest probability spares a part of a window that is far above the fair rate.
func TestTheGreatestProbabilitySparesWindows(t *testing.T) {
	for _, most := range []float64{0.1, 0.25, 1} {
		p := law()
		p.MaxDrop = most
		a := NewAFD(0, p, 10*clock.Gbps)
		a.Advance(at(26*us), 10_000_000)
		if got, want := a.Probability(10e9, 1500), min(most, 0.999); math.Abs(got-want) > 1e-9 {
			t.Errorf("d-max %v: %v", most, got)
		}
	}
}

// Section 3.1: the profiles set both periods, and an age period of the test goes before its profile's.
func TestProfilesSetBothPeriods(t *testing.T) {
	for _, c := range []struct {
		settings  []string
		age, fair clock.Duration
	}{
		{nil, 500 * us, 25 * us}, {[]string{"etrap-profile=mesh"}, 20 * us, 10 * us},
		{[]string{"etrap-profile=burst"}, 50 * us, 25 * us}, {[]string{"etrap-profile=ultra-burst"}, 100 * us, 50 * us},
		{[]string{"etrap-profile=mesh", "etrap-age-period-us=70"}, 70 * us, 10 * us},
	} {
		set := settingsOfAFD(t, c.settings...)
		if set.Etrap.AgePeriod != c.age || set.System.Period != c.fair {
			t.Errorf("%v: %v and %v", c.settings, set.Etrap.AgePeriod, set.System.Period)
		}
	}
}

// settingsOfAFD returns what a switch with AFD is set to.
func settingsOfAFD(t *testing.T, text ...string) aqm.Settings {
	t.Helper()
	family := Family()
	i := slices.IndexFunc(family.Models, func(m switches.Model) bool { return m.Name == "afd" })
	values, err := family.Models[i].Parameters.Values(text...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := family.Settings(values, 0)
	if err != nil {
		t.Fatal(err)
	}
	return got.(aqm.Settings)
}

// Section 12: the policy of an interface goes before that of the system, whichever comes first; other interfaces have
// the system's, and with attach: interfaces none.
func TestThePolicyOfAnInterfaceGoesBeforeTheSystems(t *testing.T) {
	const system, own = "{queue-desired-bytes: 400000, kp: 0.1}", "{port: 1, queue-desired-bytes: 50000}"
	policies := map[string]aqm.Policy{system: {Port: -1, Queue: -1, DesiredBytes: 400_000, Kp: 0.1,
		Set: aqm.FieldDesired | aqm.FieldKp}, own: {Port: 1, Queue: -1, DesiredBytes: 50_000, Set: aqm.FieldDesired}}
	for _, order := range [][]string{{system, own}, {own, system}} {
		set := settingsOfAFD(t)
		for _, name := range order {
			set.Policies = append(set.Policies, policies[name])
		}
		for port, want := range []int{400_000, 50_000} {
			if p := policyOf(&set, port, 0, false); p.DesiredBytes != want || p.Kp != 0.1 || p.Off {
				t.Errorf("%v, port %d: %+v", order, port, p)
			}
		}
		set.Interfaces = true
		if !policyOf(&set, 0, 0, false).Off || policyOf(&set, 1, 0, false).Off {
			t.Errorf("%v: attached to interfaces, port 0 has a policy or port 1 has none", order)
		}
	}
}
