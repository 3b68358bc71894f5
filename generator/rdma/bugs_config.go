package rdma

import "candela.dev/candela/clock"

// sluggish is the delay that slow faults add: far more than any NIC's reaction, and less than the shortest timeout of
// the detection tests.
const sluggish = 500 * clock.Microsecond

// misconfigure applies the faults that change the NIC's settings.
func (s Bugs) misconfigure(c *Config) {
	p, np, rp := &c.Profile, &c.NP, &c.RP
	for _, f := range []struct {
		bug   Bug
		apply func()
	}{
		{BugSlowNack, func() { p.NackGeneration += sluggish }},
		{BugSlowReaction, func() { p.NackReaction += sluggish }},
		{BugTrimSlowNack, func() { p.TrimLatency += sluggish }},
		{BugEarlyTimeout, func() { p.TimeoutFactor, p.FirstTimeoutHigh = 0.25, 0 }},
		{BugTimerNeverOff, func() { p.TimeoutFactor, p.FirstTimeoutHigh = 1, 0 }},
		{BugLateTimeout, func() { p.TimeoutFactor *= 8 }},
		{BugCNPNever, func() { np.Enable = false }},
		{BugCNPUnpaced, func() { np.Interval = 0 }},
		{BugCNPTooFew, func() { np.Interval *= 4 }},
		{BugCNPPerPort, func() { np.Mode = CNPPerPort }},
		{BugCNPWhenOff, func() { np.Enable = true }},
		{BugCNPForLoss, func() { np.SlowRestart = true }},
		{BugRateNeverCut, func() { rp.Enable = false }},
		{BugRateCutWhenOff, func() { rp.Enable = true }},
		{BugRateNeverRecovers, func() { rp.IncreaseTimer, rp.ByteCounter = 3600*clock.Second, 1<<62 }},
	} {
		if s.Has(f.bug) {
			f.apply()
		}
	}
}

// misconfigureQP applies the faults that change a queue pair's settings.
func (s Bugs) misconfigureQP(c *QPConfig) {
	const most, quick = 7, 7
	if s.Has(BugRetriesTooOften) {
		c.RetryCount = most
	}
	if s.Has(BugGivesUpEarly) && c.RetryCount > 0 {
		c.RetryCount--
	}
	if s.Has(BugRNRRetriesTooOften) {
		c.RNRRetry = min(c.RNRRetry+3, most-1) // 7 is unlimited
	}
	if s.Has(BugTimerNeverOff) && c.Timeout == 0 {
		c.Timeout = quick
	}
}

// miscount returns c with faults of the counters.
func (s Bugs) miscount(c Counters) Counters {
	for _, f := range []struct {
		bug   Bug
		apply func()
	}{
		{BugStuckPacketSeqErr, func() { c.PacketSeqErr = 0 }},
		{BugStuckImpliedNak, func() { c.ImpliedNakErr = 0 }},
		{BugStuckCNPSent, func() { c.CNPSent = 0 }},
		{BugStuckDuplicateRequest, func() { c.DuplicateRequest = 0 }},
		{BugStuckICRC, func() { c.ICRCErrors = 0 }},
		{BugStuckECNMarked, func() { c.ECNMarked = 0 }},
		{BugStuckRNRReceived, func() { c.RNRNakReceived = 0 }},
		{BugDoubleOutOfSequence, func() { c.OutOfSequence *= 2 }},
		{BugDoubleCNPHandled, func() { c.CNPHandled *= 2 }},
		{BugDoubleOutOfBuffer, func() { c.OutOfBuffer *= 2 }},
		{BugTimeoutCountedAsNak, func() { c.PacketSeqErr, c.LocalAckTimeout = c.PacketSeqErr+c.LocalAckTimeout, 0 }},
		{BugRxPacketsWithoutBad, func() { c.RxPackets -= c.ICRCErrors }},
		{BugTxPacketsWithoutCNPs, func() { c.TxPackets -= c.CNPSent }},
	} {
		if s.Has(f.bug) {
			f.apply()
		}
	}
	return c
}
