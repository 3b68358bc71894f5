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
	for _, change := range []func(*config.Traffic){refusedBeforeALateAck, refusedRepetition, readRepeatedBehindAnRNRNak} {
		t := *base
		t.Traffic.DataEvents, t.Traffic.ControlEvents = nil, nil
		change(&t.Traffic)
		repair(&t)
		list = append(list, &t)
	}
	return list
}

// refusedBeforeALateAck makes the responder refuse a request, and the ACK before the refusal arrive behind it.
func refusedBeforeALateAck(tr *config.Traffic) {
	late := 5 * clock.Microsecond
	tr.Verbs, tr.MessageSize, tr.Messages, tr.TxDepth = []generator.Verb{generator.Write}, 10*tr.MTU, 2, 2
	tr.DataEvents = []config.DataEvent{{QPN: 1, PSN: 11, Iter: 1, Type: trace.EventRewrite, Params: foreignKey()}}
	tr.ControlEvents = []config.ControlEvent{
		{QPN: 1, Packet: packet.ClassAck, Nth: 1, Type: trace.EventDelay, Params: config.Params{Delay: &late}},
	}
}

// refusedRepetition makes the responder refuse a request that it asked for.
func refusedRepetition(tr *config.Traffic) {
	tr.Verbs, tr.MessageSize, tr.Messages, tr.TxDepth = []generator.Verb{generator.Write}, tr.MTU, 4, 4
	tr.DataEvents = []config.DataEvent{
		{QPN: 1, PSN: 2, Iter: 1, Type: trace.EventDrop},
		{QPN: 1, PSN: 2, Iter: 2, Type: trace.EventRewrite, Params: foreignKey()},
	}
}

func foreignKey() config.Params {
	field, value := packet.RewriteRKey, int64(1)
	return config.Params{Field: &field, Value: &value}
}

// readRepeatedBehindAnRNRNak makes the requester ask for a READ again while the SEND behind it waits for a receive buffer.
func readRepeatedBehindAnRNRNak(tr *config.Traffic) {
	tr.Verbs, tr.MessageSize = []generator.Verb{generator.Read, generator.Send, generator.Send}, 10*tr.MTU
	tr.Messages, tr.TxDepth, tr.RxDepth, tr.RxRepostDelay = 4, 4, 1, 40*clock.Microsecond
	tr.DataEvents = []config.DataEvent{{QPN: 1, PSN: 5, Iter: 1, Type: trace.EventDrop}}
}
