package retrans

import "candela.dev/candela/analyzers/cause"

// Short names of what the sentences are made of.
type (
	subject  = cause.Argument
	psn      = cause.PSN
	duration = cause.Duration
)

func causeTimeoutEarly(who subject, sent psn, after, timeout duration) cause.Cause {
	return cause.Of(RuleTimeoutEarly, "early",
		"%v retransmitted psn %v without a NAK at most %v after the last progress; its timeout is %v.", who, sent, after,
		timeout)
}

func causeTimeoutLate(who subject, sent psn, after, most duration) cause.Cause {
	return cause.Of(RuleTimeoutLate, "late",
		"%v retransmitted psn %v only %v after the latest packet; its timer must expire within %v (4 T).", who, sent, after,
		most)
}

func causeTimerOff(who subject, sent psn) cause.Cause {
	return cause.Of(RuleTimerOff, "timeout", "%v retransmitted psn %v without a NAK although its timer is off.", who, sent)
}

func causeRetries(who subject, sent psn, n, most int) cause.Cause {
	return cause.Of(RuleRetryCount, "too-many", "%v retransmitted psn %v without progress %v; retry_cnt allows %v.", who,
		sent, cause.Times(n), cause.Count(most))
}

func causeRNRRetries(who subject, sent psn, n, most int) cause.Cause {
	return cause.Of(RuleRNRRetry, "too-many", "%v retransmitted psn %v after RNR NAKs %v; rnr_retry allows %v.", who, sent,
		cause.Times(n), cause.Count(most))
}

func causeRNREarly(who subject, sent psn, after, wait duration) cause.Cause {
	return cause.Of(RuleRNREarly, "early",
		"%v retransmitted psn %v only %v after the RNR NAK, which asked for a wait of %v.", who, sent, after, wait)
}

func causeAtomicReplay(who subject, at psn, is, was uint64) cause.Cause {
	return cause.Of(RuleAtomicReplay, "other-result",
		"%v answered the repeated atomic at psn %v with %v; its first answer was %v.", who, at, cause.Hex(is),
		cause.Hex(was))
}

func causeAckSilence(who subject, at psn, after duration) cause.Cause {
	return cause.Of(RuleAckSilence, "after-repetition",
		"%v answered psn %v only after %v, when the requester's timer had repeated the request.", who, at, after)
}

func causeNakSilence(who subject, sent psn, after duration) cause.Cause {
	return cause.Of(RuleNakSilence, "after-timeout",
		"%v retransmitted psn %v only %v after the NAK, when its timer was due.", who, sent, after)
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	requester, responder := cause.Requester(0), cause.Responder(0)
	const us = 1000
	return []cause.Cause{
		causeTimeoutEarly(requester, 1, 60*us, 65_536),
		causeTimeoutLate(requester, 1, 270*us, 262_144),
		causeTimerOff(requester, 1),
		causeRetries(requester, 2, 3, 2),
		causeRNREarly(requester, 1, 7*us, 10*us),
		causeRNRRetries(requester, 1, 2, 1),
		causeAtomicReplay(responder, 1, 8, 7),
		causeAckSilence(responder, 2, 72*us),
		causeNakSilence(requester, 1, 63*us),
	}
}
