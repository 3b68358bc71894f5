package live

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// errTooManyBetween reports that frames between host and switch are lost or not delivered by the kernel.
var errTooManyBetween = errors.New("frames that were sent do not come")

// flight holds the frames sent but not yet received, in order: a link preserves order.
type flight struct{ sent []sentFrame }

type sentFrame struct {
	at  clock.Time
	sum uint32
}

func (f *flight) add(now clock.Time, frame []byte) {
	f.sent = append(f.sent, sentFrame{now, sumOf(frame)})
}

// come returns the send time of a received frame, and whether its bytes are those sent.
func (f *flight) come(frame []byte) (at clock.Time, same, ok bool) {
	if len(f.sent) == 0 {
		return 0, true, false
	}
	x := f.sent[0]
	f.sent = append(f.sent[:0], f.sent[1:]...)
	return x.at, x.sum == sumOf(frame), true
}

func (f *flight) between() int { return len(f.sent) }

// host is a transport in its own namespace, with a NIC at the rate of its link.
type host struct {
	line
	flight // of frames to the switch
	s      *Switch
	id     fabric.HostID
	inside *namespace
	stack  fabric.Stack // nil: the kernel
	udp    *datagrams   // of the stack; nil: it has a ring
	link   fabric.LinkSpec
	free   clock.Time // when the NIC becomes idle
	busy   bool       // poll the stack when the NIC is idle
	at     clock.Time // time up to which it was served
	serial uint64
	in     fabric.Packet
	out    fabric.Packet
}

// serve runs the host's events since the last call, each at its instant, then delivers received frames.
func (h *host) serve(now clock.Time) error {
	if h.stack == nil {
		return nil
	}
	if err := h.act(now); err != nil {
		return err
	}
	came := h.came
	if h.udp != nil {
		if err := h.udp.drain(func() { h.came++ }, &h.in, func() { h.stack.Receive(now, &h.in) }); err != nil {
			return err
		}
	} else {
		h.drain(func(frame []byte) { h.take(now, frame) })
	}
	if h.came > came {
		if err := h.work(now); err != nil {
			return err
		}
	}
	h.at = now
	return h.flush()
}

func (h *host) act(now clock.Time) error {
	for at := h.next(h.at); at <= now; at = h.next(h.at) {
		h.at = at
		if err := h.work(at); err != nil {
			return err
		}
		if !h.busy && h.stack.NextTimer() <= at {
			return fmt.Errorf("host %d at %v: the stack's timer is due, was served, and is still due", h.id, at)
		}
	}
	return nil
}

// work serves a due timer and sends a packet if the NIC is idle.
func (h *host) work(now clock.Time) error {
	if h.stack.NextTimer() <= now {
		h.stack.HandleTimer(now)
	}
	if h.free > now {
		h.busy = true // poll when the NIC is idle
		return nil
	}
	h.out.Header = fabric.Header{Src: h.id}
	if h.busy = h.stack.Poll(now, &h.out); h.busy {
		return h.transmit(now)
	}
	return nil
}

func (h *host) take(now clock.Time, frame []byte) {
	at, same, sent := h.s.ports[h.id].come(frame)
	if !same {
		h.s.watch.add("host %d: a frame came out of its ring that is not the one that was written", h.id)
	}
	damaged, ok := h.s.parser.parse(frame, &h.in.Header)
	if !ok {
		return
	}
	if sent {
		h.s.report.ToHost = max(h.s.report.ToHost, now.Sub(at))
	}
	if damaged {
		h.in.Flags |= fabric.Trimmed | fabric.ChecksumStale
	}
	h.stack.Receive(now, &h.in)
}

func (h *host) transmit(now clock.Time) error {
	p := &h.out
	h.serial++
	p.ID, p.Original = h.serial, max(p.Original, p.Size)
	if p.TTL == 0 {
		p.TTL = fabric.InitialTTL
	}
	h.free = now.Add(h.link.Rate.Serialise(int(p.Size) + h.link.Framing))
	if h.udp != nil {
		return h.udp.send(&p.Header)
	}
	if h.between() > 100*slots {
		return fmt.Errorf("host %d: %w: %d", h.id, errTooManyBetween, h.between())
	}
	frame := h.s.net.Codecs().AppendTagged(h.buffer(), &p.Header)
	h.add(now, frame)
	return h.send(frame)
}

// next returns when the host wants to act, now or later.
func (h *host) next(now clock.Time) clock.Time {
	if h.stack == nil {
		return clock.Never
	}
	at := h.stack.NextTimer()
	if h.busy { // a past timer waits until packets are sent
		if at <= now {
			at = clock.Never
		}
		at = min(at, h.free)
	}
	return max(at, now)
}

// between returns how many of the frames that the host sent have not come to its port.
func (h *host) between() int {
	if h.udp != nil {
		p := h.s.ports[h.id]
		return int(h.udp.sent) - int(p.came-p.foreign)
	}
	return h.flight.between()
}

// idle reports whether the host waits for packets only.
func (h *host) idle() bool {
	return h.stack == nil || h.stack.NextTimer() == clock.Never && !h.busy
}

// kernelLosses reports what the kernel lost between a kernel host and port p.
func (h *host) kernelLosses(p *port, lose func(string, ...any)) error {
	var at, far netlink.LinkStatistics
	// After the traffic a kernel still retransmits, now and then: a frame that it has just sent is no loss. Counted after
	// the ring was read, as many sent frames as came prove that none is lost.
	for began := time.Now(); ; {
		p.drain(func([]byte) {})
		err := errors.Join(h.inside.do(func() error { return statistics(hostInterface, &at) }),
			h.s.inside.do(func() error { return statistics(portInterface(int(h.id)), &far) }))
		if err != nil {
			return err
		}
		if at.TxPackets <= p.came || time.Since(began) > lost {
			break
		}
		if err := h.s.waiter.Wait(lost / 10); err != nil {
			return err
		}
	}
	if n := at.TxDropped + far.TxDropped; n > 0 {
		lose("%d frames between host %d and its port, by its interfaces", n, h.id)
	}
	if at.TxPackets > p.came {
		lose("%d of %d frames of host %d did not come out of its port's ring", at.TxPackets-p.came, at.TxPackets, h.id)
	}
	return nil
}

// port represents a host in the switch's network: a fabric.Stack at the other end of a link.
type port struct {
	line
	flight   // of frames to the host
	s        *Switch
	host     *host
	uplink   *uplink // of a host that is another machine; nil: the host is in a namespace
	queue    []arrived
	first    int // of the queue: those before have left
	reusable [][]byte
	due      []clock.Time // of the frames of the batch
	foreign  uint64
	refused  uint64 // frames without room in the queue
	failed   error
}

// mostWaiting bounds the frames that wait at a host for its link. A kernel offers whole windows: its packets leave the
// socket's queue as soon as they are in the ring.
const mostWaiting = 1 << 16

// between returns how many of the frames to the host have not come there.
func (p *port) between() int {
	if p.host.udp != nil {
		return int(p.handed) - int(p.host.came)
	}
	return p.flight.between()
}

func (p *port) waiting() int { return len(p.queue) - p.first }

// arrived is a frame that waits for its link to become idle.
type arrived struct {
	fabric.Header
	frame []byte
	sum   uint32     // checksum of the frame in the ring
	sent  clock.Time // by the host
}

func (p *port) take(now clock.Time) {
	before := p.waiting()
	p.drain(func(frame []byte) {
		a := arrived{sent: now}
		if at, same, ok := p.host.come(frame); ok {
			if a.sent = at; !same {
				p.s.watch.add("port %d: a frame came out of its ring that is not the one that its host sent", p.host.id)
			}
		}
		frame = unpadded(frame)
		if _, ok := p.s.parser.parse(frame, &a.Header); !ok || a.Src != p.host.id {
			p.foreign++
			return
		}
		if p.waiting() >= p.s.most {
			p.refused++
			return
		}
		var b []byte
		if n := len(p.reusable); n > 0 {
			b, p.reusable = p.reusable[n-1], p.reusable[:n-1]
		}
		a.frame, a.sum = append(b[:0], frame...), sumOf(frame)
		p.queue = append(p.queue, a)
	})
	if n := p.waiting(); n > before {
		p.s.report.Waiting = max(p.s.report.Waiting, n)
		p.s.net.Host(p.host.id).Kick(now)
	}
}

// Poll implements fabric.Stack: the link to the switch is idle.
func (p *port) Poll(now clock.Time, out *fabric.Packet) bool {
	if p.waiting() == 0 {
		return false
	}
	a := &p.queue[p.first]
	p.s.report.ToSwitch = max(p.s.report.ToSwitch, now.Sub(a.sent))
	id, src := out.ID, out.Src
	out.Header = a.Header
	out.ID, out.Src = id, src
	p.s.net.SetFrame(out, a.frame)
	p.s.watch.taken[p.host.id].push(a.sum)
	p.reusable = append(p.reusable, a.frame)
	if p.first++; 2*p.first >= len(p.queue) { // each frame is moved once at most
		p.queue, p.first = append(p.queue[:0], p.queue[p.first:]...), 0
	}
	return true
}

// Receive implements fabric.Stack: a packet has left the switch.
func (p *port) Receive(now clock.Time, in *fabric.Packet) {
	frame := p.s.net.AppendFrame(p.buffer(), in)
	p.s.watch.written(int(p.host.id), frame, in)
	if p.host.stack != nil && p.host.udp == nil {
		p.add(now, frame)
	}
	if p.uplink != nil {
		frame = p.address(frame, in)
	}
	if err := p.send(frame); err != nil && p.failed == nil {
		p.failed = err
	}
	p.due = append(p.due, now)
}

func (p *port) flush() error {
	if err := errors.Join(p.failed, p.line.flush()); err != nil || len(p.due) == 0 {
		return err
	}
	now := p.s.clock.shown()
	for _, at := range p.due {
		p.s.report.Written.add(max(0, now-time.Duration(p.s.cfg.Slowdown)*at.Sub(0).Std()))
	}
	p.due = p.due[:0]
	return nil
}

// NextTimer implements fabric.Stack.
func (p *port) NextTimer() clock.Time { return clock.Never }

// HandleTimer implements fabric.Stack.
func (p *port) HandleTimer(clock.Time) {}
