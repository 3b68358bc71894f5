package live

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/sockets"
)

// kernels are the TCP connections between the hosts' kernels.
type kernels struct {
	s       *Switch
	waiting []Connection // by start; empty if the hosts are other machines, which start them
	leaving []Connection // that stop, by time
	left    int          // connections not finished
	endless bool
	done    chan sockets.Ended
	group   *sockets.Group // nil: hosts are other machines
}

// look is the interval for polling whether the kernel's connections have finished, because frames do not show it.
const look = 5 * time.Millisecond

func openKernels(s *Switch) (*kernels, error) {
	k := &kernels{s: s, left: len(s.cfg.Connections)}
	for _, c := range s.cfg.Connections {
		k.endless = k.endless || c.Bytes == 0 && c.Stop == 0
		if c.Stop > 0 {
			k.leaving = append(k.leaving, c)
		}
	}
	slices.SortStableFunc(k.leaving, func(a, b Connection) int { return cmp.Compare(a.Stop, b.Stop) })
	if r := s.cfg.Remote; r != nil {
		if len(k.leaving) > 0 {
			return k, fmt.Errorf("connection %d: %w", k.leaving[0].Number, errLeaves)
		}
		k.done = r.Finished
		return k, nil
	}
	k.waiting = s.cfg.Connections
	k.done = make(chan sockets.Ended, 2*len(s.cfg.Connections)) // room for all
	k.group = sockets.New(func(e sockets.Ended) { k.done <- e })
	for _, c := range k.waiting {
		if err := k.group.Receive(c.Transfer(), s.hosts[c.Dst].inside.do); err != nil {
			return k, err
		}
	}
	return k, nil
}

// serve starts due connections and records finished ones.
func (k *kernels) serve(now clock.Time) error {
	for len(k.waiting) > 0 && k.waiting[0].Start <= now {
		c := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.group.Send(c.Transfer(), k.s.hosts[c.Src].inside.do)
	}
	for len(k.leaving) > 0 && k.leaving[0].Stop <= now {
		k.group.End(k.leaving[0].Number)
		k.leaving = k.leaving[1:]
	}
	for {
		select {
		case e := <-k.done:
			if e.Err != nil {
				return fmt.Errorf("kernel connection %d: %w", e.Number, e.Err)
			}
			if e.Number < 1 || e.Number > len(k.s.cfg.Connections) || k.left == 0 {
				return fmt.Errorf("kernel connection %d has finished, of %d", e.Number, len(k.s.cfg.Connections))
			}
			k.left--
			if k.s.cfg.Connections[k.index(e.Number)].Bytes > 0 {
				k.s.cfg.Finished(now, e.Number)
			}
		default:
			return nil
		}
	}
}

func (k *kernels) next(now clock.Time) clock.Time {
	at := now.Add(clock.FromStd(look) / clock.Duration(k.s.cfg.Slowdown))
	if len(k.waiting) > 0 {
		at = min(at, k.waiting[0].Start)
	}
	if len(k.leaving) > 0 {
		at = min(at, k.leaving[0].Stop)
	}
	return at
}

func (k *kernels) over() bool { return k.left == 0 && !k.endless }

// stop ends every goroutine, and the traffic of hosts on other machines.
func (k *kernels) stop() (counts []HostCounts, err error) {
	if r := k.s.cfg.Remote; r != nil {
		counts, err = r.Over()
		if err == nil && len(counts) != len(r.Ports) {
			err = fmt.Errorf("%d hosts have counted, of %d", len(counts), len(r.Ports))
		}
		return counts, err
	}
	k.group.Stop()
	return nil, nil
}

func (k *kernels) close() error {
	if k.group != nil {
		k.group.Stop()
	}
	return nil
}

// index returns the place of the connection of a number.
func (k *kernels) index(number int) int {
	return slices.IndexFunc(k.s.cfg.Connections, func(c Connection) bool { return c.Number == number })
}

// trips returns the least RTTs that the kernels of this machine measured, by connection.
func (k *kernels) trips() map[int]time.Duration {
	if k.group == nil {
		return nil
	}
	return k.group.Trips()
}

var errLeaves = errors.New("hosts that are other machines end a transfer of unknown length with the run")

var errNoConnections = errors.New("hosts that are other machines need connections of their kernels")
