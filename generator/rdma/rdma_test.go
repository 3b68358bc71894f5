package rdma

import (
	"testing"

	"candela.dev/candela/generator"
)

func reliable() QPConfig {
	return QPConfig{RetryCount: 7, RNRRetry: 7, Timeout: 8, MinRNRTimer: 1}
}

var allVerbs = []generator.Verb{generator.Write, generator.WriteImm, generator.Send, generator.SendImm, generator.Read,
	generator.CompareSwap, generator.FetchAdd}

func TestEveryVerbCompletesWithoutLoss(t *testing.T) {
	for _, v := range allVerbs {
		for _, size := range []int{0, 1, 1023, 1024, 1025, 10240} {
			w := newWire(t, setup{seed: 1, qps: 3, qp: reliable(), record: true})
			w.start(load(5, size, 2, v))
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
	w.start(load(2, 10240, 1, generator.Write))
	w.run(200)
	w.checkAllDone()
}
