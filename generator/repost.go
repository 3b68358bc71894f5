package generator

import (
	"candela.dev/candela/clock"
)

// repost is a receive request waiting to be reposted. All have the same delay, so they wait in a FIFO.
type repost struct {
	at     clock.Time
	stream *stream
}

// received replaces a consumed receive request, at once or after RepostDelay.
func (w *Workload) received(now clock.Time, s *stream) error {
	if w.cfg.RepostDelay == 0 {
		return w.postReceive(now, s)
	}
	s.reposting++
	w.reposts = append(w.reposts, repost{now.Add(w.cfg.RepostDelay), s})
	return nil
}

// NextTimer returns when HandleTimer must be called, or clock.Never.
func (w *Workload) NextTimer() clock.Time {
	if len(w.reposts) == 0 {
		return clock.Never
	}
	return w.reposts[0].at
}

// HandleTimer posts the receive requests whose delay has expired at now.
func (w *Workload) HandleTimer(now clock.Time) error {
	for len(w.reposts) > 0 && w.reposts[0].at <= now {
		s := w.reposts[0].stream
		w.reposts = w.reposts[1:]
		s.reposting--
		if err := w.postReceive(now, s); err != nil {
			return err
		}
	}
	return nil
}
