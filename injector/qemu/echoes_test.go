package qemu

import (
	"testing"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/link/echo"
)

func at(ms int) clock.Time { return clock.Time(0).Add(clock.Duration(ms) * clock.Millisecond) }

func longest(t *testing.T, e *echoes, now clock.Time) time.Duration {
	t.Helper()
	h := e.holdsAt(now)
	bound, known := h.Longest()
	if !known {
		t.Fatal("nothing is known")
	}
	return bound
}

func TestAnEchoBoundsWhatPassedSinceTheOneBefore(t *testing.T) {
	var e echoes
	e.request(at(1000))
	e.answered(at(1001), 1)
	e.traffic(at(1004)) // 6 ms before the echo that follows it
	e.traffic(at(1008))
	e.request(at(1010))
	e.answered(at(1110), 2)
	if got := longest(t, &e, at(1110)); got < 106*time.Millisecond || got > 133*time.Millisecond {
		t.Errorf("a frame that passed 106 ms before the answer was held for at most %v", got)
	}
}

func TestAnEchoOfAnIdleHostSaysNothingOfTheTimeBeforeIt(t *testing.T) {
	var e echoes
	e.request(at(1000))
	e.answered(at(1001), 1)
	e.request(at(60_000))
	e.answered(at(60_002), 2)
	if got := longest(t, &e, at(60_002)); got > 3*time.Millisecond {
		t.Errorf("hold of %v, the longest answer took 2 ms", got)
	}
}

func TestAnEchoWithoutAnAnswerBoundsFromBelow(t *testing.T) {
	var e echoes
	if h := e.holdsAt(at(1)); h.Answers {
		t.Error("a host that was never asked has answered")
	}
	e.request(at(1000))
	h := e.holdsAt(at(9000))
	if _, known := h.Longest(); known {
		t.Error("a host that never answered is known")
	}
	e.answered(at(9000), 1)
	e.traffic(at(9100))
	e.request(at(9101))
	if got := longest(t, &e, at(39_100)); got != 30*time.Second {
		t.Errorf("a host that has not answered for 30 s holds frames for %v", got)
	}
}

// While an interface is set up its requests are lost: they are never answered and must not be waited for.
func TestRequestsThatFoundNobodyAreForgotten(t *testing.T) {
	var e echoes
	for i := range 3000 {
		if len(echo.Request(0)) != len(e.request(at(i))) {
			t.Fatal("no request")
		}
	}
	if len(e.open) > maxAsked {
		t.Errorf("%d requests are remembered", len(e.open))
	}
	if next := e.next(at(2999)); next < at(2999).Add(idlePeriod) {
		t.Errorf("a host that does not answer is asked again at %v", next)
	}
	e.answered(at(3000), 3000)
	if got := longest(t, &e, at(3000)); got > 2*time.Millisecond {
		t.Errorf("hold of %v, the one answer took 1 ms", got)
	}
	if next := e.next(at(2999)); next > at(3010) {
		t.Errorf("a host that answers is asked again at %v", next)
	}
}

func TestARequestThatCouldNotLeaveLeavesItsFramesToTheNext(t *testing.T) {
	var e echoes
	e.request(at(1))
	e.answered(at(1), 1)
	e.traffic(at(10))
	e.request(at(20))
	e.unsent()
	e.request(at(30))
	e.answered(at(40), 3)
	if got := longest(t, &e, at(40)); got < 30*time.Millisecond || got > 38*time.Millisecond {
		t.Errorf("a frame that passed 30 ms before the answer was held for at most %v", got)
	}
}
