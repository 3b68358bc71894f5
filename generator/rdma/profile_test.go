package rdma

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
)

// repair describes the retransmission of a lost packet, as the two NICs see it.
type repair struct {
	nackAfter   clock.Duration // from the arrival of the first packet after the gap to the NAK
	repeatAfter clock.Duration // from the arrival of the NAK to the first retransmission
	between     int            // new packets sent in that time
}

// packetTime is the serialisation time of a full WRITE packet other than the first.
const packetTime = 88480 * clock.Picosecond

// losing measures the retransmission of one lost packet of a WRITE of packets packets.
func losing(t *testing.T, p Profile, lost, packets int) repair {
	t.Helper()
	w := newWire(t, setup{seed: 1, qps: 1, qp: QPConfig{RetryCount: 7, Timeout: 14}, record: true,
		nic: func(_ generator.Side, c *Config) { c.Profile = p }})
	dropTimes(w, packet.Opcode.IsData, lost, 1)
	w.start(load(1, packets<<10, 1, generator.Write))
	w.run(10 * packets)
	w.checkAllDone()
	return readRepair(t, w, w.qps[0][0].IPSN().Add(lost-1))
}

func readRepair(t *testing.T, w *wire, lost packet.PSN) repair {
	t.Helper()
	var r repair
	var gap, nack clock.Time
	for _, s := range w.log {
		arrival := s.at.Add(w.rate.Serialise(s.p.Len() + 24)).Add(w.delay)
		switch {
		case s.p.BTH.Opcode == packet.Acknowledge && s.p.AETH.Syndrome == packet.SyndromeNakSequence:
			r.nackAfter, nack = s.at.Sub(gap), arrival
		case nack == 0 && gap == 0 && s.p.BTH.PSN == lost.Add(1):
			gap = arrival
		case nack == 0 || s.at < nack || s.from == generator.Responder:
		case s.p.BTH.PSN == lost:
			r.repeatAfter = s.at.Sub(nack)
			return r
		default:
			r.between++
		}
	}
	t.Fatalf("no repair\n%s", w.tail())
	return r
}

func TestRetransmissionsQueueBehindCommittedPackets(t *testing.T) {
	const packets = 300
	for _, depth := range []int{1, 8, 34, 68} {
		p := CX5()
		p.PipelineDepth = depth
		got := losing(t, p, 5, packets)
		want := p.NackReaction + clock.Duration(depth)*packetTime
		if d := got.repeatAfter - want; d < -packetTime || d > packetTime {
			t.Errorf("pipeline of %d packets: repeated after %s, want %s within a packet", depth, got.repeatAfter, want)
		}
	}
}

func TestAnEmptyPipelineDelaysNothing(t *testing.T) {
	p := CX5()
	for _, packets := range []int{10, 20, 40} {
		if got := losing(t, p, 5, packets); got.repeatAfter != p.NackReaction {
			t.Errorf("%d packets: repeated after %s, want the reaction of %s", packets, got.repeatAfter, p.NackReaction)
		}
	}
}

func TestTheOldRoundGoesOnOnlyIfTheProfileSaysSo(t *testing.T) {
	p := CX5()
	p.PipelineDepth = 0
	for _, on := range []bool{true, false} {
		p.SendsOn = on
		if got := losing(t, p, 5, 300); (got.between > 10) != on {
			t.Errorf("sends on %t: %d packets between NAK and retransmission", on, got.between)
		}
	}
}

func TestBatchesDelayNacksNearTheTail(t *testing.T) {
	p := CX4Lx()
	const packets = 20
	for lost := 1; lost < packets; lost++ {
		want := clock.Duration(p.NackBatch-1)*packetTime + p.NackGeneration
		if packets-lost < p.NackBatch {
			want = p.NackBatchTimeout + p.NackGeneration
		}
		if got := losing(t, p, lost, packets).nackAfter; got < want || got > want+packetTime {
			t.Errorf("packet %d of %d: NAK after %s, want %s", lost, packets, got, want)
		}
	}
}

func TestFirmwareReactsWithinItsSpread(t *testing.T) {
	p := CX4Lx()
	for lost := 1; lost <= 10; lost++ {
		got := losing(t, p, lost, 20).repeatAfter
		if got < p.NackReaction || got > p.NackReaction+p.NackReactionSpread {
			t.Errorf("packet %d: repeated after %s, want %s to %s", lost, got, p.NackReaction,
				p.NackReaction+p.NackReactionSpread)
		}
	}
}

// tailLosses returns the times between transmissions of the last packet of message last, which is always lost until the
// queue pair fails. The last packets of earlier messages are lost seven times.
func tailLosses(t *testing.T, p Profile, adaptive bool, last int) []clock.Duration {
	t.Helper()
	w := newWire(t, setup{seed: 1, qps: 1, qp: QPConfig{RetryCount: 7, Timeout: 14}, record: true,
		nic: func(_ generator.Side, c *Config) { c.Profile, c.AdaptiveRetrans = p, adaptive }})
	sent := map[packet.PSN]int{}
	end := w.qps[0][0].IPSN().Add(10*last - 1)
	var times []clock.Time
	w.filter = func(s *seen) verdict {
		if s.from != generator.Requester || !s.p.BTH.AckReq {
			return pass
		}
		sent[s.p.BTH.PSN]++
		if s.p.BTH.PSN == end {
			times = append(times, s.at)
			return drop
		}
		if sent[s.p.BTH.PSN] <= 7 {
			return drop
		}
		return pass
	}
	w.start(load(last, 10240, 1, generator.Write))
	w.run(10_000)
	if m := w.workload.Report().Streams[0].Messages; m[last-1].Status != generator.RetryExceeded {
		t.Fatalf("message %d: %s", last, m[last-1].Status)
	}
	var waits []clock.Duration
	for i := 1; i < len(times); i++ {
		waits = append(waits, times[i].Sub(times[i-1]))
	}
	return waits
}

// Lumina's table 5-II.
func TestRetriesUntilError(t *testing.T) {
	for _, c := range []struct {
		profile  Profile
		adaptive bool
		want     []int
	}{
		{CX4Lx(), true, []int{13, 8, 7, 7, 7}},
		{CX5(), true, []int{13, 8, 8, 8, 8}},
		{CX6Dx(), true, []int{13, 8, 8, 8, 8}},
		{CX4Lx(), false, []int{7, 7, 7, 7, 7}},
		{CX5(), false, []int{7, 7, 7, 7, 7}},
		{CX6Dx(), false, []int{7, 7, 7, 7, 7}},
		{E810(), false, []int{7, 7, 7, 7, 7}},
		{Spec(), false, []int{7, 7, 7, 7, 7}},
	} {
		t.Run(fmt.Sprintf("%s adaptive %t", c.profile.Name, c.adaptive), func(t *testing.T) {
			var got []int
			for message := range c.want {
				got = append(got, len(tailLosses(t, c.profile, c.adaptive, message+1)))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("retries by message %v, want %v", got, c.want)
			}
		})
	}
}

// isTimeout reports whether a time between transmissions is a timeout of share · T, T = 67.1 ms, plus the transmission
// time.
func isTimeout(got clock.Duration, share float64) bool {
	want := clock.Duration(share * float64(4096*clock.Nanosecond<<14))
	return got >= want && got < want+10*clock.Microsecond
}

func TestAdaptiveTimeoutsFollowTheScheduleAcrossMessages(t *testing.T) {
	p := CX5()
	got := tailLosses(t, p, true, 1)
	for i, w := range got {
		if share := p.AdaptiveSchedule[min(i, len(p.AdaptiveSchedule)-1)]; !isTimeout(w, share) {
			t.Errorf("message 1, timeout %d: %s, want %g T", i+1, w, share)
		}
	}
	if got := tailLosses(t, p, true, 2); !isTimeout(got[0], 4) || !isTimeout(got[1], 10) {
		t.Errorf("message 2 starts with %s and %s, want 4 T and 10 T", got[0], got[1])
	}
}

func TestFixedTimeoutsAreEightTimesTheMinimumAndTheFirstIsShorter(t *testing.T) {
	got := tailLosses(t, CX5(), false, 1)
	const t1 = 4096 * clock.Nanosecond << 14
	if got[0] < 3*t1 || got[0] > 6*t1+10*clock.Microsecond {
		t.Errorf("first timeout %s, want 3 T to 6 T", got[0])
	}
	for i, w := range got[1:] {
		if !isTimeout(w, 8) {
			t.Errorf("timeout %d: %s, want 8 T", i+2, w)
		}
	}
}

// An ACK must not overtake READ responses that are still in the transmit pipeline.
func TestAnswersStayInOrderBehindThePipeline(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 2, qp: reliable(), record: true,
		nic: func(_ generator.Side, c *Config) { c.Profile = CX6Dx() }})
	w.start(load(40, 20480, 6, generator.Read, generator.Write, generator.FetchAdd, generator.Send))
	w.run(5000)
	w.checkAllDone()
	for side, n := range w.nics {
		if c := n.Counters(); c.ImpliedNakErr != 0 || c.OutOfSequence != 0 {
			t.Errorf("side %d: %d implied NAKs, %d gaps without a loss", side, c.ImpliedNakErr, c.OutOfSequence)
		}
	}
}

func TestAFailedQueuePairLeavesNothingInThePipelineForOthersToWaitFor(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 2, qp: QPConfig{RetryCount: 0, Timeout: 8}, record: true,
		nic: func(_ generator.Side, c *Config) { c.Profile = CX5() }})
	bad := w.qps[1][0].QPN()
	w.filter = func(s *seen) verdict {
		if s.p.BTH.DestQP == bad && s.from == generator.Requester {
			return drop
		}
		return pass
	}
	w.start(load(3, 50<<10, 3, generator.Write))
	w.run(5000)
	for _, s := range w.workload.Report().Streams {
		want := generator.Success
		if s.Connection == 1 {
			want = generator.RetryExceeded
		}
		if s.Messages[0].Status != want {
			t.Errorf("connection %d: %s, want %s", s.Connection, s.Messages[0].Status, want)
		}
	}
}

func TestAdaptiveRetransmissionNeedsAProfileThatHasIt(t *testing.T) {
	_, err := NewNIC(Config{Profile: Spec(), AdaptiveRetrans: true})
	if err == nil || !strings.Contains(err.Error(), `profile "spec" has no adaptive retransmission`) {
		t.Errorf("error %v", err)
	}
}

func TestParametersAreSetByName(t *testing.T) {
	p := CX5()
	for parameter, value := range map[string]string{
		"PipelineDepth": "34", "NackReaction": "2.5us", "SendsOn": "false", "TimeoutFactor": "2", "CNPMode": "qp",
		"AdaptiveSchedule": "1, 2.5",
	} {
		if err := p.Set(parameter, value); err != nil {
			t.Error(err)
		}
	}
	if p.PipelineDepth != 34 || p.NackReaction != 2500*clock.Nanosecond || p.SendsOn || p.TimeoutFactor != 2 ||
		p.CNPMode != CNPPerConnection || !slices.Equal(p.AdaptiveSchedule, []float64{1, 2.5}) {
		t.Errorf("%+v", p)
	}
	for parameter, value := range map[string]string{
		"Depth": "1", "Name": "x", "CounterNames": "x", "PipelineDepth": "deep", "NackReaction": "5", "SendsOn": "maybe",
		"TimeoutFactor": "-", "CNPMode": "none", "AdaptiveSchedule": "1,,2",
	} {
		if err := p.Set(parameter, value); err == nil {
			t.Errorf("%s=%s is accepted", parameter, value)
		}
	}
}

func TestThePipelineAllocatesNothing(t *testing.T) {
	w := newWire(t, setup{seed: 7, qps: 4, qp: reliable(), nic: func(_ generator.Side, c *Config) { c.Profile = CX5() }})
	x := &pair{nics: w.nics, wr: generator.WorkRequest{Verb: generator.Write, Length: 102400}}
	i := 0
	send := func() {
		for range 20 {
			x.message(t, w, i%4)
			i++
		}
	}
	if n := runtimetest.FewestAllocs(0, send); n != 0 {
		t.Errorf("%v allocations in 20 messages", n)
	}
}

// BenchmarkPipelineMessage sends 100 packets of 1 KB through the transmit pipeline. Requester and responder are both
// measured.
func BenchmarkPipelineMessage(b *testing.B) {
	w := newWire(b, setup{seed: 7, qps: 1, qp: reliable(), nic: func(_ generator.Side, c *Config) { c.Profile = CX5() }})
	x := &pair{nics: w.nics, wr: generator.WorkRequest{Verb: generator.Write, Length: 102400}}
	b.ReportAllocs()
	packets := 0
	for b.Loop() {
		packets += x.message(b, w, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
}

func TestVariantsAreKnownByNameButNotAmongTheProfiles(t *testing.T) {
	for _, v := range Variants() {
		if _, err := ProfileByName(v.Name); err != nil {
			t.Error(err)
		}
		if slices.ContainsFunc(Profiles(), func(p Profile) bool { return p.Name == v.Name }) {
			t.Errorf("%s is among the profiles", v.Name)
		}
	}
}

func TestVariantsRepairLosses(t *testing.T) {
	for _, p := range Variants() {
		got := losing(t, p, 5, 20)
		if got.repeatAfter < p.NackReaction {
			t.Errorf("%s: repeated after %s", p.Name, got.repeatAfter)
		}
	}
}
