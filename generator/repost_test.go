package generator

import (
	"testing"

	"candela.dev/candela/clock"
)

func TestConsumedReceivesAreRepostedAfterTheDelay(t *testing.T) {
	ends, fakes := newFakes(1)
	cfg := writes(3, 3)
	cfg.Verbs = []Verb{Send}
	cfg.ReceiveDepth = 1
	cfg.RepostDelay = 50 * clock.Microsecond
	w := mustWorkload(t, cfg, ends)
	must(t, w.Start(0))
	if at := w.NextTimer(); at != clock.Never {
		t.Fatalf("nothing was consumed, and yet there is a timer at %v", at)
	}
	consume := func(at clock.Time) {
		must(t, w.Completion(at, 0, Responder, Completion{Receive: true, Status: Success}))
	}
	posted := func(want int) {
		t.Helper()
		if got := fakes[0][Responder].receives; got != want {
			t.Fatalf("%d receives posted, want %d", got, want)
		}
	}
	consume(us(10))
	consume(us(20))
	consume(us(30)) // the third message is the last, so no receive is posted
	posted(1)
	for i, at := range []clock.Time{us(60), us(70)} {
		if got := w.NextTimer(); got != at {
			t.Fatalf("next timer at %v, want %v", got, at)
		}
		must(t, w.HandleTimer(at.Add(-1)))
		posted(1 + i)
		must(t, w.HandleTimer(at))
		posted(2 + i)
	}
	if at := w.NextTimer(); at != clock.Never {
		t.Fatalf("nothing waits, and yet there is a timer at %v", at)
	}
}
