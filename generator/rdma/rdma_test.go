package rdma

import (
	"testing"

	"candela.dev/candela/generator"
)

func reliable() QPConfig {
	return QPConfig{RetryCount: 7, RNRRetry: 7, Timeout: 8, MinRNRTimer: 1}
}

func TestEveryVerbCompletesWithoutLoss(t *testing.T) {
	for _, v := range []generator.Verb{generator.Write, generator.WriteImm, generator.Send, generator.SendImm, generator.Read,
		generator.CompareSwap, generator.FetchAdd} {
		for _, size := range []int{0, 1, 1023, 1024, 1025, 10240} {
			w := newWire(t, setup{seed: 1, qps: 3, qp: reliable(), record: true})
			w.start(generator.WorkloadConfig{Traffic: generator.Traffic{Verbs: []generator.Verb{v}, Messages: 5, MessageSize: size, TxDepth: 2}})
			w.run(2000)
			w.checkAllDone()
			if t.Failed() {
				t.Fatalf("verb %s size %d", v, size)
			}
		}
	}
}

func TestDroppedWritePacketIsRepairedByGoBackN(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 1, qp: reliable(), record: true})
	w.filter = func(s *seen) verdict {
		if s.from == generator.Requester && w.packets == 5 {
			return drop
		}
		return pass
	}
	w.start(generator.WorkloadConfig{Traffic: generator.Traffic{Verbs: []generator.Verb{generator.Write}, Messages: 2, MessageSize: 10240, TxDepth: 1}})
	w.run(200)
	w.checkAllDone()
	t.Log("\n" + w.tail())
}
