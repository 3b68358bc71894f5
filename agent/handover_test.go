package agent

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An agent needs a moment to notice that an orchestrator was killed. The next run may be faster.
func TestTheNextRunWaitsForTheStreamsOfAKilledOrchestrator(t *testing.T) {
	s := fuzzedServer(t, filepath.Join(t.TempDir(), "agent")) // held by run "fuzz"
	s.cfg.Handover = time.Minute
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	killed := s.run
	type result struct {
		r   *run
		err error
	}
	got := make(chan result, 1)
	go func() {
		r, err := s.acquire(t.Context(), "next")
		got <- result{r, err}
	}()
	select {
	case x := <-got:
		t.Fatalf("acquired while run fuzz has a stream: %+v", x)
	case <-time.After(50 * time.Millisecond):
	}
	s.leave(killed, false)
	select {
	case x := <-got:
		if x.err != nil || x.r.id != "next" {
			t.Fatalf("after the stream ended: %+v", x)
		}
	case <-time.After(time.Minute):
		t.Fatal("the next run does not get the machine")
	}
	s.leave(s.run, true)
}

func TestTheNextRunIsRefusedWhileTheOtherLives(t *testing.T) {
	s := fuzzedServer(t, filepath.Join(t.TempDir(), "agent"))
	s.cfg.Handover = 20 * time.Millisecond
	t.Cleanup(func() { _ = s.Close() })
	if r, err := s.acquire(t.Context(), "next"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v, %v; want FailedPrecondition", r, err)
	}
	s.leave(s.run, true)
	if _, err := s.acquire(t.Context(), "next"); err != nil {
		t.Error(err)
	}
	s.leave(s.run, true)
}
