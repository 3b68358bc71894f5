package live

import (
	"context"
	"errors"
	"time"

	"candela.dev/candela/generator/sockets"
	"candela.dev/candela/link"
)

// Station is a host of a lab: a stack that sends and receives through UDP sockets of this machine. It must be used by
// one goroutine.
type Station struct {
	host   *host
	clock  runClock
	waiter *link.Waiter
}

// OpenStation opens the sockets at the host's address, which the machine must have. The caller closes the Station.
func OpenStation(cfg StationConfig) (_ *Station, err error) {
	h := &host{id: cfg.Host, stack: cfg.Stack, link: cfg.Link}
	if h.udp, err = openDatagrams(cfg.Host, cfg.Datagrams, cfg.IPv6, sockets.Here); err != nil {
		return nil, err
	}
	s := &Station{host: h, clock: runClock{slowdown: cfg.Slowdown, steady: true}}
	if s.waiter, err = link.NewWaiter(); err != nil {
		return nil, errors.Join(err, h.udp.close())
	}
	h.udp.each(s.waiter.Also)
	return s, nil
}

// Run runs the stack until ctx ends. Its clock is the machine's, from now on.
func (s *Station) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.waiter.Wake)()
	origin := time.Now()
	s.clock.real = func() time.Duration { return time.Since(origin) }
	for meant := time.Duration(0); ctx.Err() == nil; {
		now := s.clock.now(meant)
		if err := s.host.serve(now); err != nil {
			return err
		}
		if meant = s.clock.until(s.host.next(now)); meant > 0 {
			if err := s.waiter.Wait(meant); err != nil {
				return err
			}
		}
	}
	return nil
}

// Losses says what the kernel has lost of the station's datagrams.
func (s *Station) Losses(add func(what string, n uint64)) { s.host.udp.losses(add) }

// Close closes the sockets.
func (s *Station) Close() error { return errors.Join(s.host.udp.close(), s.waiter.Close()) }
