package rp

import "candela.dev/candela/analyzers/cause"

func causeNoReaction(who cause.Argument, after cause.Duration) cause.Cause {
	return cause.Of(RuleNoReaction, "kept-line-rate", "%v still sent at line rate %v after its first CNP.", who, after)
}

func causeNoRecovery(who cause.Argument, gap cause.Ratio, after cause.Duration) cause.Cause {
	return cause.Of(RuleNoRecovery, "stayed-slow",
		"%v had not sped up %v after its last CNP: it still spaced its packets at %v their time on the wire.", who, after,
		gap)
}

func causeUnprovoked(who cause.Argument, gap cause.Ratio) cause.Cause {
	return cause.Of(RuleUnprovoked, "paced",
		"%v spaced its packets at %v their time on the wire before a CNP had reached it.", who, gap)
}

func causeDisabled(who cause.Argument, gap cause.Ratio) cause.Cause {
	return cause.Of(RuleDisabled, "paced",
		"%v spaced its packets at %v their time on the wire although its reaction point is off.", who, gap)
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	who, twice := cause.Requester(0), cause.Ratio(2)
	return []cause.Cause{
		causeNoReaction(who, 6_640_000),
		causeNoRecovery(who, twice, 12_200_000),
		causeUnprovoked(who, twice),
		causeDisabled(who, twice),
	}
}
