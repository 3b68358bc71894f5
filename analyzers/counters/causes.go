package counters

import (
	"strings"

	"candela.dev/candela/analyzers/cause"
)

func causeDiffers(c Counter, host, name string, got int64, want interval) cause.Cause {
	return cause.Of(ruleIDs[c], "differs", "Host %v counted %v in %v; the trace shows %v.", cause.Name(host),
		cause.Count(got), cause.Name(name), cause.Between{Least: want.least, Most: want.most})
}

func causeDiscards(host, name string, n int64) cause.Cause {
	return cause.Of(ruleDiscards, "discarded", "Host %v discarded %v (%v), so that no counter was compared.",
		cause.Name(host), cause.Counted{N: n, Noun: "packet"}, cause.Name(name))
}

func causeWentBack(host, name string, from, to int64) cause.Cause {
	return cause.Of(ruleWentBack, "decreased", "Counter %v of host %v decreased from %v to %v during the test.",
		cause.Name(name), cause.Name(host), cause.Count(from), cause.Count(to))
}

func causeMissing(host string, missing []string) cause.Cause {
	return cause.Of(ruleMissing, "not-offered", "Host %v did not offer %v: %v.", cause.Name(host),
		cause.Counted{N: int64(len(missing)), Noun: "counter"}, cause.Name(strings.Join(missing, ", ")))
}

func causeNoEvents() cause.Cause {
	return cause.Of(ruleNotJudged, "no-events",
		"No counter was compared: the trace does not show which packets were delivered.")
}

func causeSkipped(host string, skipped []string, strays, moved int64) cause.Cause {
	return cause.Of(ruleNotJudged, "packets-unclear",
		"%v of host %v were not compared: %v of no known connection, %v delayed, duplicated, reordered or rewritten.",
		cause.Counted{N: int64(len(skipped)), Noun: "counter"}, cause.Name(host), cause.Counted{N: strays, Noun: "packet"},
		cause.Counted{N: moved, Noun: "packet"})
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	var list []cause.Cause
	for c := range TxDiscards {
		e := examples[c]
		list = append(list, causeDiffers(c, e.host, namings["candela"][c], e.got, interval{e.want, e.want}))
	}
	return append(list,
		causeDiscards("responder", "rx_discards", 3),
		causeWentBack("requester", "packet_seq_err", 1000, 0),
		causeMissing("requester", []string{"packet_seq_err"}),
		causeNoEvents(),
		causeSkipped("requester", make([]string, 11), 0, 1))
}

// examples are wrong counters.
var examples = [numCounters]struct {
	host      string
	got, want int64
}{
	TxPackets:        {"requester", 6, 7},
	RxPackets:        {"requester", 2, 3},
	PacketSeqErr:     {"requester", 0, 1},
	OutOfSequence:    {"responder", 2, 1},
	ImpliedNak:       {"requester", 1, 0},
	DuplicateRequest: {"responder", 1, 0},
	LocalAckTimeout:  {"requester", 1, 0},
	ICRC:             {"responder", 0, 1},
	CNPSent:          {"responder", 0, 1},
	CNPHandled:       {"requester", 0, 1},
	CNPIgnored:       {"responder", 1, 0},
	ECNMarked:        {"responder", 0, 1},
	RNRReceived:      {"requester", 1, 0},
	RNRSent:          {"responder", 1, 0},
}
