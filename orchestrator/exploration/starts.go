package exploration

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// starts returns tests to begin with beside the base: each leads to states that few random changes lead to together.
func starts(base *config.Test) []*config.Test {
	list := []*config.Test{base}
	for _, change := range []func(*config.Traffic){refusedBeforeAGap, readRepeatedBehindAnRNRNak} {
		t := *base
		t.Traffic.DataEvents, t.Traffic.ControlEvents = nil, nil
		change(&t.Traffic)
		repair(&t)
		list = append(list, &t)
	}
	return list
}

// refusedBeforeAGap makes the responder refuse a request that is followed by a gap, which the observer sees first.
func refusedBeforeAGap(tr *config.Traffic) {
	field, value := packet.RewriteRKey, int64(1)
	tr.Verbs, tr.MessageSize, tr.Messages = []generator.Verb{generator.Write}, 10*tr.MTU, 2
	tr.DataEvents = []config.DataEvent{
		{QPN: 1, PSN: 1, Iter: 1, Type: trace.EventRewrite, Params: config.Params{Field: &field, Value: &value}},
		{QPN: 1, PSN: 5, Iter: 1, Type: trace.EventDrop},
	}
}

// readRepeatedBehindAnRNRNak makes the requester ask for a READ again while the SEND behind it waits for a receive buffer.
func readRepeatedBehindAnRNRNak(tr *config.Traffic) {
	tr.Verbs, tr.MessageSize = []generator.Verb{generator.Read, generator.Send, generator.Send}, 10*tr.MTU
	tr.Messages, tr.TxDepth, tr.RxDepth, tr.RxRepostDelay = 4, 4, 1, 40*clock.Microsecond
	tr.DataEvents = []config.DataEvent{{QPN: 1, PSN: 5, Iter: 1, Type: trace.EventDrop}}
}
