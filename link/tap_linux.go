package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Tap receives the frames of one interface one by one, without delay, as a switch needs, where a Ring's blocks would
// hold a packet for a millisecond. Its ring has a slot for each frame (TPACKET_V2). One goroutine uses it.
type Tap struct {
	cfg    TapConfig
	fd     int
	memory []byte
	next   int
	kept   int // slots before next that the kernel has not got back
	stats  Stats
}

// OpenTap opens a tap. It needs CAP_NET_RAW. The caller closes it.
func OpenTap(cfg TapConfig) (_ *Tap, err error) {
	if cfg.Frames == 0 {
		cfg.Frames = defaultFrames
	}
	device, err := net.InterfaceByName(cfg.Interface)
	if err != nil {
		return nil, fmt.Errorf("open tap on %q: %w", cfg.Interface, err)
	}
	if cfg.FrameBytes == 0 {
		cfg.FrameBytes = slotFor(device.MTU)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open tap on %q: packet socket: %w%s", cfg.Interface, err, privilege(err))
	}
	t := &Tap{cfg: cfg, fd: fd}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open tap on %q: %w", cfg.Interface, err), t.Close())
		}
	}()
	if err := t.mapRing(device.Index); err != nil {
		return nil, err
	}
	return t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap16(unix.ETH_P_ALL), Ifindex: device.Index})
}

// slotFor returns the size of a slot for the frames of an interface. It avoids powers of two: frames at such distances
// in memory would compete for the same cache lines.
func slotFor(mtu int) int {
	const unit = 256
	n := (slotOverhead + macs + 2 + 2*vlanRoom + mtu + unit - 1) / unit
	return min((n|1)*unit, defaultFrameBytes)
}

// slotOverhead is what the kernel puts before a frame: header, address, alignment, and what PACKET_RESERVE requests.
const slotOverhead = unix.SizeofTpacket2Hdr + unix.SizeofSockaddrLinklayer + 3*unix.TPACKET_ALIGNMENT

func (t *Tap) mapRing(index int) error {
	membership := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	err := errors.Join(
		unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_RESERVE, vlanRoom),
		unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(t.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &membership),
	)
	if err != nil {
		return err
	}
	// A block holds whole slots: 16 of them, which is a multiple of the page size for every slot of 256 bytes or more.
	const slots = 16
	request := unix.TpacketReq{
		Block_size: uint32(t.cfg.FrameBytes * slots), Block_nr: uint32(t.cfg.Frames / slots),
		Frame_size: uint32(t.cfg.FrameBytes), Frame_nr: uint32(t.cfg.Frames / slots * slots),
	}
	if err := unix.SetsockoptTpacketReq(t.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &request); err != nil {
		return fmt.Errorf("ring of %d slots of %d bytes: %w", t.cfg.Frames, t.cfg.FrameBytes, err)
	}
	t.cfg.Frames = int(request.Frame_nr)
	t.memory, err = unix.Mmap(t.fd, 0, t.cfg.Frames*t.cfg.FrameBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the ring: %w", err)
	}
	return nil
}

func (t *Tap) slot() []byte { return t.memory[t.next*t.cfg.FrameBytes : (t.next+1)*t.cfg.FrameBytes] }

// Next returns the next frame if there is one. Call Release or Keep before the next Next; the frame is valid until
// Release, or until ReleaseKept.
func (t *Tap) Next() (Frame, bool) {
	if t.kept == t.cfg.Frames {
		return Frame{}, false
	}
	slot := t.slot()
	h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
	status := atomic.LoadUint32(&h.Status)
	if status&unix.TP_STATUS_USER == 0 {
		return Frame{}, false
	}
	f := Frame{Length: int(h.Len), Time: int64(h.Sec)*int64(time.Second) + int64(h.Nsec)}
	start, n := int(h.Mac), int(h.Snaplen)
	if status&unix.TP_STATUS_VLAN_VALID != 0 && n >= macs {
		start -= vlanRoom
		copy(slot[start:], slot[start+vlanRoom:start+vlanRoom+macs])
		tpid := uint16(unix.ETH_P_8021Q)
		if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			tpid = h.Vlan_tpid
		}
		binary.BigEndian.PutUint16(slot[start+macs:], tpid)
		binary.BigEndian.PutUint16(slot[start+macs+2:], h.Vlan_tci)
		n += vlanRoom
		f.Length += vlanRoom
	}
	f.Data = slot[start : start+n : start+n]
	return f, true
}

// Release returns the frame of Next, and those that were kept, to the kernel.
func (t *Tap) Release() {
	t.Keep()
	t.ReleaseKept()
}

// Keep keeps the frame that Next returned until ReleaseKept.
func (t *Tap) Keep() {
	t.kept++
	t.next++
	if t.next == t.cfg.Frames {
		t.next = 0
	}
}

// ReleaseKept gives the frames that were kept back to the kernel.
func (t *Tap) ReleaseKept() {
	for ; t.kept > 0; t.kept-- {
		i := (t.next - t.kept + t.cfg.Frames) % t.cfg.Frames
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&t.memory[i*t.cfg.FrameBytes]))
		atomic.StoreUint32(&h.Status, unix.TP_STATUS_KERNEL)
	}
}

// Stats returns what the kernel counted so far. A frame larger than a slot is cut, not lost: compare Length with Data.
func (t *Tap) Stats() (Stats, error) {
	// Reading resets the kernel's numbers.
	s, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return t.stats, fmt.Errorf("statistics of %q: %w", t.cfg.Interface, err)
	}
	t.stats.Frames += uint64(s.Packets)
	t.stats.Dropped += uint64(s.Drops)
	return t.stats, nil
}

// Close frees the tap.
func (t *Tap) Close() error {
	var err error
	if t.memory != nil {
		err = unix.Munmap(t.memory)
		t.memory = nil
	}
	return errors.Join(err, unix.Close(t.fd))
}

// A Waiter waits for frames on several taps, and can be woken.
type Waiter struct {
	taps []*Tap
	wake int
	fds  []unix.PollFd
}

// NewWaiter returns a waiter for taps, which stay the caller's. The caller closes it.
func NewWaiter(taps ...*Tap) (*Waiter, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("wait for frames: %w", err)
	}
	w := &Waiter{taps: taps, wake: wake, fds: []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}}
	for _, t := range taps {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(t.fd), Events: unix.POLLIN})
	}
	return w, nil
}

// Also has Wait return when a socket can be read, too. The socket stays the caller's.
func (w *Waiter) Also(fd int) {
	w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
}

// Wait returns when a tap has a frame, when Wake was called, or after the timeout; a negative one waits for ever.
// Timeouts below a millisecond are respected. An error names the interface that failed, such as one that went down.
func (w *Waiter) Wait(timeout time.Duration) error {
	var limit *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		limit = &t
	}
	for i := range w.fds {
		w.fds[i].Revents = 0
	}
	if _, err := unix.Ppoll(w.fds, limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for frames: %w", err)
	}
	if w.fds[0].Revents != 0 {
		var sink [8]byte
		_, _ = unix.Read(w.wake, sink[:]) // non-blocking; nothing to read is fine
	}
	for i, t := range w.taps {
		if w.fds[i+1].Revents&unix.POLLERR == 0 {
			continue
		}
		if code, err := unix.GetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
			return fmt.Errorf("receive on %q: %w", t.cfg.Interface, unix.Errno(code))
		}
	}
	return nil
}

// Wake makes a running or the next Wait return. Any goroutine may call it until Close.
func (w *Waiter) Wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.wake, one[:]) // full means that it is awake already
}

// Close frees the waiter.
func (w *Waiter) Close() error { return unix.Close(w.wake) }
