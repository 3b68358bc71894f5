package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
	"candela.dev/candela/link"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Switch is a live switch with its hosts. It must be used by one goroutine.
type Switch struct {
	cfg     Config
	net     *fabric.Network
	inside  *namespace // of the switch
	hosts   []*host
	ports   []*port
	kernels *kernels // nil: no host is a kernel
	waiter  *link.Waiter
	clock   runClock
	parser  parser
	watch   watch
	report  Report
	taken   uint64        // frames taken from all rings
	arrived time.Duration // when the latest frame was taken, on the run's clock without slowdown
	meant   time.Duration // upper bound of the latest wait
	most    int           // frames that may wait at a host for its link
}

// Slots of the rings. Our hosts send at most the link rate times mostAtOnce; a kernel sends whole windows at once.
const (
	slots       = 512
	kernelSlots = 4096
)

// Open makes the namespaces, the links and the sockets. The caller closes the Switch.
func Open(cfg Config) (_ *Switch, err error) {
	if os.Geteuid() != 0 {
		return nil, ErrUnsupported
	}
	s := &Switch{cfg: cfg, net: cfg.Net, most: mostWaiting, parser: parser{codecs: cfg.Net.Codecs(),
		hosts: cfg.Net.Hosts(), ranks: rankTable(cfg.Connections), first: cfg.FirstSequence}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("live switch: %w", err), s.Close())
		}
	}()
	open := s.openHost
	if cfg.Remote != nil {
		open = s.openRemote
	} else if s.inside, err = newNamespace(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	s.net.KeepFrames()
	s.watch = watch{mismatches: new(mismatches), s: s, taken: make([]sums, s.net.Hosts()),
		leaving: make([][]fabric.Header, s.net.Hosts())}
	s.net.SetTap(s.watch.see)
	var taps []*link.Tap
	for h := range s.net.Hosts() {
		if err := open(h); err != nil {
			return nil, fmt.Errorf("host %d: %w", h, err)
		}
		s.ports[h].read = &s.report.Read
		taps = append(taps, s.ports[h].tap)
		if s.hosts[h].tap != nil {
			taps = append(taps, s.hosts[h].tap)
		}
	}
	if s.waiter, err = link.NewWaiter(taps...); err != nil {
		return nil, err
	}
	for _, h := range s.hosts {
		h.udp.each(s.waiter.Also)
	}
	s.report.Slowdown = cfg.Slowdown
	if len(cfg.Connections) > 0 {
		if s.kernels, err = openKernels(s); err != nil {
			return nil, err
		}
	}
	if cfg.Remote != nil {
		if err := cfg.Remote.Ready(); err != nil {
			return nil, err
		}
	}
	origin := time.Now()
	s.clock = runClock{real: func() time.Duration { return time.Since(origin) }, slowdown: cfg.Slowdown,
		steady: cfg.Steady}
	return s, nil
}

func (s *Switch) openHost(h int) (err error) {
	mtu := s.cfg.MaxFrame - ethernetLen
	x := &host{id: fabric.HostID(h), stack: s.cfg.Stacks[h], link: s.cfg.Links[h], s: s}
	s.hosts = append(s.hosts, x)
	if x.inside, err = newNamespace(); err != nil {
		return err
	}
	if err := cable(s.inside, x.inside, h, mtu); err != nil {
		return err
	}
	p := &port{s: s, host: x}
	s.ports = append(s.ports, p)
	name := portInterface(h)
	err = s.inside.do(func() (err error) {
		if err = raise(name, false); err != nil {
			return err
		}
		n := slots
		if x.stack == nil {
			n = kernelSlots
		}
		p.line, err = openLine(name, n)
		return err
	})
	if err != nil {
		return err
	}
	err = x.inside.do(func() (err error) {
		kernel := x.stack == nil || s.cfg.Datagrams != nil
		v6 := s.cfg.IPv6 && kernel
		if err = raise(hostInterface, v6); err != nil || kernel {
			return errors.Join(err, address(h, s.net.Hosts(), v6), negotiateECN(s.cfg.ECN))
		}
		x.line, err = openLine(hostInterface, slots)
		return err
	})
	if err == nil && x.stack != nil && s.cfg.Datagrams != nil {
		x.udp, err = openDatagrams(x.id, s.cfg.Datagrams, s.cfg.IPv6, x.inside.do)
	}
	if err == nil {
		s.net.Host(fabric.HostID(h)).Attach(p)
	}
	return err
}

// mostReal bounds the real time of a run's traffic.
const mostReal = 10 * time.Minute

// Advance runs until the clock shows until or no work is left. In the latter case it returns the time and true.
func (s *Switch) Advance(ctx context.Context, until clock.Time) (at clock.Time, quiet bool, err error) {
	for {
		now := min(s.clock.now(s.meant), until)
		if err := s.net.Run(now); err != nil {
			return now, false, err
		}
		if err := s.round(now); err != nil {
			return now, false, err
		}
		if now >= until || s.quiet() {
			s.meant = 0
			return now, now < until, nil
		}
		s.meant = s.clock.until(min(s.next(now), until))
		if s.meant > 0 {
			if err := s.waiter.Wait(s.meant); err != nil {
				return now, false, err
			}
		}
		if ctx.Err() != nil {
			return now, false, context.Cause(ctx)
		}
		if took := s.clock.took(); took > mostReal {
			return now, false, fmt.Errorf("the traffic has taken %v, and its clock shows %v: a live run may take %v",
				took.Round(time.Second), now, mostReal)
		}
	}
}

// round sends packets that left the switch, lets the hosts act, and passes arrived frames to the switch.
func (s *Switch) round(now clock.Time) error {
	for _, p := range s.ports {
		if err := p.flush(); err != nil {
			return err
		}
	}
	for _, h := range s.hosts {
		if err := h.serve(now); err != nil {
			return err
		}
	}
	if s.kernels != nil {
		if err := s.kernels.serve(now); err != nil {
			return err
		}
	}
	for _, p := range s.ports {
		p.take(now)
	}
	if came := s.came(); came > s.taken {
		s.taken, s.arrived = came, s.clock.last
	}
	return nil
}

func (s *Switch) came() (n uint64) {
	for i, p := range s.ports {
		n += p.came + s.hosts[i].came
	}
	return n
}

// next returns the time of the next event other than an arrival.
func (s *Switch) next(now clock.Time) clock.Time {
	at, ok := s.net.Next()
	if !ok {
		at = clock.Never
	}
	for _, h := range s.hosts {
		at = min(at, h.next(now))
	}
	if s.kernels != nil {
		at = min(at, s.kernels.next(now))
	}
	return at
}

// quiet reports whether no work is left: no packet is in flight and no host has a timer or a packet. A frame that
// has not arrived after lost is ignored.
func (s *Switch) quiet() bool {
	if _, pending := s.net.Next(); pending || s.net.InFlight() > 0 || s.kernels != nil && !s.kernels.over() {
		return false
	}
	under := 0
	for i, h := range s.hosts {
		if !h.idle() || s.ports[i].waiting() > 0 {
			return false
		}
		under += h.between() + s.ports[i].between()
	}
	return under == 0 || s.clock.last-s.arrived > lost
}

// Finish ends the traffic and returns the run's own measurements.
func (s *Switch) Finish() (*Report, error) {
	var counts []HostCounts
	if s.kernels != nil {
		var err error
		if counts, err = s.kernels.stop(); err != nil {
			return nil, err
		}
		s.report.Trips = s.kernels.trips()
	}
	for _, p := range s.ports {
		p.read = nil // the clock has ended
	}
	r := &s.report
	r.Real, r.Stopped, r.LongestGap = s.clock.took(), s.clock.stopped, s.clock.longest
	failed := []error{s.settle()}
	lose := func(format string, args ...any) { r.Lost = append(r.Lost, fmt.Sprintf(format, args...)) }
	for i, p := range s.ports {
		h := s.hosts[i]
		r.Frames, r.Foreign = r.Frames+p.came, r.Foreign+p.foreign
		failed = append(failed, p.losses(fmt.Sprintf("port %d of the switch", i), lose))
		if p.refused > 0 {
			lose("host %d: %d frames found %d waiting for its link to the switch", i, p.refused, s.most)
		}
		switch {
		case s.cfg.Remote != nil:
			failed = append(failed, p.remoteLosses(&counts[i], lose))
			continue
		case h.stack == nil:
			failed = append(failed, h.kernelLosses(p, lose))
			continue
		}
		if h.udp != nil {
			failed = append(failed, h.kernelLosses(p, lose))
			h.udp.losses(func(what string, n uint64) { lose("host %d: %s %d", i, what, n) })
		} else {
			failed = append(failed, h.losses(fmt.Sprintf("host %d", i), lose))
		}
		if n := h.between() + p.between(); n > 0 {
			lose("%d frames between host %d and its port", n, i)
		}
	}
	r.Mismatches, r.Mismatched = s.watch.list, s.watch.total
	return r, errors.Join(failed...)
}

// lost is the time without any arrival after which a sent frame counts as lost; the kernel normally delivers at once.
const lost = 200 * time.Millisecond

// settle receives the frames in flight at the end of the traffic, so that they don't count as lost.
func (s *Switch) settle() error {
	for last := time.Now(); ; {
		under, came := 0, false
		for i, p := range s.ports {
			h := s.hosts[i]
			p.drain(func(frame []byte) { came = true; h.come(frame) })
			switch {
			case h.udp != nil:
				if err := h.udp.drain(func() { came = true; h.came++ }, &h.in, func() {}); err != nil {
					return err
				}
			case h.stack != nil:
				h.drain(func(frame []byte) { came = true; p.come(frame) })
			}
			under += h.between() + p.between()
		}
		switch {
		case came:
			last = time.Now()
		case under == 0 && s.kernels == nil, time.Since(last) > lost:
			return nil
		}
		if err := s.waiter.Wait(lost / 10); err != nil {
			return err
		}
	}
}

// Close removes everything. The run directory and the judges do not depend on it.
func (s *Switch) Close() error {
	var failed []error
	if s.kernels != nil {
		failed = append(failed, s.kernels.close())
	}
	for _, p := range s.ports {
		failed = append(failed, p.close())
	}
	failed = append(failed, s.closeRemote())
	if s.waiter != nil {
		failed = append(failed, s.waiter.Close())
	}
	for _, h := range s.hosts {
		failed = append(failed, h.close(), h.udp.close())
		if h.inside != nil {
			failed = append(failed, h.inside.close())
		}
	}
	if s.inside != nil {
		failed = append(failed, s.inside.close())
	}
	s.ports, s.hosts, s.inside, s.waiter, s.kernels = nil, nil, nil, nil, nil
	return errors.Join(failed...)
}

// line is one end of a link: a ring to receive from and an interface to send to.
type line struct {
	tap    *link.Tap
	read   *Lateness // nil: not measured
	sender sender
	arena  [][]byte // frames of the batch, kept until they are sent
	batch  int
	handed uint64
	came   uint64
}

// sender writes frames to an interface, as link.Sender does.
type sender interface {
	Queue(frame []byte) error
	Pending() int
	Flush() error
	Sent() uint64
	Close() error
}

func openLine(name string, slots int) (l line, err error) {
	if l.tap, err = link.OpenTap(link.TapConfig{Interface: name, Frames: slots}); err != nil {
		return line{}, err
	}
	if l.sender, err = link.OpenSender(name); err != nil {
		return line{}, errors.Join(err, l.tap.Close())
	}
	return l, nil
}

func (l *line) close() error {
	if l.tap == nil {
		return nil
	}
	return errors.Join(l.tap.Close(), l.sender.Close())
}

// buffer returns an empty slice for the next frame of the batch.
func (l *line) buffer() []byte {
	if l.batch == len(l.arena) {
		l.arena = append(l.arena, nil)
	}
	return l.arena[l.batch][:0]
}

// send adds frame, built in the slice from buffer, to the batch.
func (l *line) send(frame []byte) error {
	l.arena[l.batch] = frame
	l.batch++
	l.handed++
	err := l.sender.Queue(frame)
	if l.sender.Pending() == 0 {
		l.batch = 0
	}
	return tolerable(err)
}

func (l *line) flush() error {
	if l.tap == nil || l.sender.Pending() == 0 {
		return nil
	}
	l.batch = 0
	return tolerable(l.sender.Flush())
}

// tolerable ignores ENOBUFS: the counters report such a frame as lost.
func tolerable(err error) error {
	if errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}

func (l *line) drain(visit func(frame []byte)) {
	var now int64
	for n := 0; n < kernelSlots; n++ {
		f, ok := l.tap.Next()
		if !ok {
			return
		}
		if l.read != nil {
			if n == 0 {
				now = time.Now().UnixNano()
			}
			l.read.add(time.Duration(max(0, now-f.Time)))
		}
		l.came++
		visit(f.Data)
		l.tap.Release()
	}
}

func (l *line) losses(where string, lose func(string, ...any)) error {
	stats, err := l.tap.Stats()
	if stats.Dropped > 0 {
		lose("%s: %d of %d frames found no room in the ring (PACKET_STATISTICS)", where, stats.Dropped, stats.Frames)
	}
	if sent := l.sender.Sent() + uint64(l.sender.Pending()); sent != l.handed {
		lose("%s: the kernel took %d of %d frames", where, sent, l.handed)
	}
	return err
}
