package link

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An XDPSender transmits frames as a [Sender] does, through an XDP socket in copy mode, which every driver supports. A
// frame costs the kernel a third less, because it is in registered memory instead of a message. One goroutine uses it.
type XDPSender struct {
	name  string
	fd    int
	chunk int
	limit int      // bytes of a frame: what is longer the driver would drop and call sent
	umem  []byte   // a chunk for each frame that is under way
	free  []uint64 // chunks, by their offset

	rings     [][]byte // as mapped
	ring      []unix.XDPDesc
	written   *uint32 // frames that we handed over
	taken     *uint32 // by the kernel
	done      []uint64
	finished  *uint32 // chunks that the kernel gave back
	collected *uint32 // of them, by us
	queued    int
	stuck     bool   // the latest Flush could not send all frames
	clogged   bool   // the latest Queue found no room
	next      uint32 // *written after the next Flush
	accepted  uint64 // by the kernel, those that it lost included
	lost      uint64

	transmit func() unix.Errno // makes the kernel look at the ring
	pause    func() error      // lets some time pass
}

const (
	xdpFrames = 256                   // in flight; a power of two
	xdpPages  = 4096                  // no chunk may be longer
	xdpRoom   = macs + 2 + 2*vlanRoom // Ethernet header and two tags, beyond the MTU
	xdpTries  = 1000                  // that a full interface is given
	xdpPause  = 100 * time.Microsecond
	xdpQueue  = 0 // of the interface
	// xdpUnseen is how many calls the kernel may need for a full ring without progress: it takes 32 frames a call, and
	// before Linux 6.17 it reports them only when it finds the ring empty.
	xdpUnseen = xdpFrames / 32
)

// OpenXDPSender opens a sender. It needs CAP_NET_RAW, a kernel with XDP sockets, an interface without one on its first
// queue, and an MTU below a page; after an error use a Sender. The caller closes it.
func OpenXDPSender(name string) (_ *XDPSender, err error) {
	s := &XDPSender{name: name, fd: -1, chunk: xdpPages}
	s.transmit, s.pause = s.send, s.sleep
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open XDP sender on %q: %w", name, err), s.Close())
		}
	}()
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if device.MTU+xdpRoom > xdpPages {
		return nil, fmt.Errorf("an MTU of %d: frames must fit into %d bytes", device.MTU, xdpPages)
	}
	if device.MTU+xdpRoom <= xdpPages/2 {
		s.chunk = xdpPages / 2
	}
	s.limit = device.MTU + macs + 2 + vlanRoom // as the kernel's own devices have it
	if s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err := s.mapRings(); err != nil {
		return nil, err
	}
	address := &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(device.Index), QueueID: xdpQueue}
	return s, unix.Bind(s.fd, address)
}

// mapRings registers the memory of frames and maps the two of an XDP socket's four rings that are used.
func (s *XDPSender) mapRings() (err error) {
	s.umem, err = unix.Mmap(-1, 0, xdpFrames*s.chunk, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	for i := range xdpFrames {
		s.free = append(s.free, uint64(i*s.chunk))
	}
	register := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&s.umem[0]))), Len: uint64(len(s.umem)),
		Size: uint32(s.chunk)}
	_, _, code := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&register)), unsafe.Sizeof(register), 0)
	if code != 0 {
		return fmt.Errorf("register memory: %w", code)
	}
	err = errors.Join(
		unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_UMEM_FILL_RING, xdpFrames), // unused, but wanted
		unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_UMEM_COMPLETION_RING, xdpFrames),
		unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_TX_RING, xdpFrames),
		// so that it doesn't bound what is under way
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, xdpFrames*xdpPages),
	)
	if err != nil {
		return err
	}
	var at unix.XDPMmapOffsets
	length := uint32(unsafe.Sizeof(at))
	_, _, code = unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&length)), 0)
	if code != 0 {
		return fmt.Errorf("layout of the rings: %w", code)
	}
	if s.written, s.taken, s.ring, err = mapXDP[unix.XDPDesc](s, unix.XDP_PGOFF_TX_RING, at.Tx); err != nil {
		return err
	}
	s.finished, s.collected, s.done, err = mapXDP[uint64](s, unix.XDP_UMEM_PGOFF_COMPLETION_RING, at.Cr)
	return err
}

func mapXDP[T any](s *XDPSender, offset int64, at unix.XDPRingOffset) (producer, consumer *uint32, entries []T,
	err error) {
	var entry T
	memory, err := unix.Mmap(s.fd, offset, int(at.Desc)+xdpFrames*int(unsafe.Sizeof(entry)),
		unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("map a ring: %w", err)
	}
	s.rings = append(s.rings, memory)
	return (*uint32)(unsafe.Pointer(&memory[at.Producer])), (*uint32)(unsafe.Pointer(&memory[at.Consumer])),
		unsafe.Slice((*T)(unsafe.Pointer(&memory[at.Desc])), xdpFrames), nil
}

// Queue adds a copy of a frame to the batch and transmits the batch when it is full. A frame without room is lost.
func (s *XDPSender) Queue(frame []byte) error {
	if len(frame) == 0 || len(frame) > s.limit {
		return fmt.Errorf("send on %q: a frame of %d bytes, allowed are 1…%d", s.name, len(frame), s.limit)
	}
	if err := s.room(); err != nil {
		return err
	}
	last := len(s.free) - 1
	at := s.free[last]
	s.free = s.free[:last]
	copy(s.umem[at:], frame)
	s.ring[s.next%xdpFrames] = unix.XDPDesc{Addr: at, Len: uint32(len(frame))}
	s.next++
	s.queued++
	if s.queued == DefaultBatch {
		return s.Flush()
	}
	return nil
}

// room waits for a free chunk, which implies room in the ring. If the interface made no progress before, it does not
// wait again: a switch must serve its other ports.
func (s *XDPSender) room() error {
	patience := xdpTries
	if s.clogged {
		patience = 1
	}
	for range patience {
		if s.collect(); len(s.free) > 0 {
			s.clogged = false
			return nil
		}
		if s.stuck {
			if err := s.Flush(); err != nil {
				return err
			}
			continue
		}
		if err := s.pause(); err != nil {
			return err
		}
	}
	s.clogged = true
	return fmt.Errorf("send on %q: %d frames are under way and none gets done: %w", s.name, xdpFrames, unix.ENOBUFS)
}

// collect takes back chunks whose frames are done.
func (s *XDPSender) collect() {
	at := *s.collected
	end := atomic.LoadUint32(s.finished)
	for ; at != end; at++ {
		s.free = append(s.free, s.done[at%xdpFrames])
	}
	atomic.StoreUint32(s.collected, at)
}

// sleep waits a moment. Polling for room in the ring (POLLOUT) does not help: the kernel's memory for frames and free
// chunks run out first, and it signals neither.
func (s *XDPSender) sleep() error {
	limit := unix.NsecToTimespec(xdpPause.Nanoseconds())
	if _, err := unix.Ppoll(nil, &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("send on %q: %w", s.name, err)
	}
	return nil
}

func (s *XDPSender) send() unix.Errno {
	_, _, code := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return code
}

// Pending returns how many frames wait for Flush.
func (s *XDPSender) Pending() int { return s.queued }

// Flush transmits the batch. An error names what the kernel refused first. Without carrier only that frame is lost;
// after any other error the rest goes with a later batch, if the interface recovers.
func (s *XDPSender) Flush() (failed error) {
	s.queued = 0
	atomic.StoreUint32(s.written, s.next)
	patience, unseen := xdpTries, 0
	if s.stuck {
		patience = 1
	}
	defer func() { s.stuck = atomic.LoadUint32(s.taken) != s.next }()
	for atomic.LoadUint32(s.taken) != s.next {
		took, code := s.step()
		most := xdpUnseen
		switch code {
		case 0, unix.EINTR, unix.EAGAIN, unix.ENOBUFS: // took as many as it does at a time, or none for want of room
		case unix.EBUSY: // took one more and lost it
			s.lost++
			most = xdpFrames
			if failed == nil {
				failed = fmt.Errorf("send on %q: %w", s.name, unix.ENOBUFS)
			}
		default:
			return errors.Join(failed, fmt.Errorf("send on %q: %w", s.name, code))
		}
		if took > 0 {
			unseen = 0
			continue
		}
		if unseen++; unseen <= most {
			continue
		}
		if patience--; patience == 0 {
			return errors.Join(failed, fmt.Errorf("send on %q: %w", s.name, unix.ENOBUFS))
		}
		if err := s.pause(); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// step lets the kernel take some frames, and returns how many it says it took.
func (s *XDPSender) step() (took uint32, code unix.Errno) {
	before := atomic.LoadUint32(s.taken)
	code = s.transmit()
	took = atomic.LoadUint32(s.taken) - before
	s.accepted += uint64(took)
	s.collect()
	return took, code
}

// Sent returns how many frames the interface took.
func (s *XDPSender) Sent() uint64 { return s.accepted - min(s.lost, s.accepted) }

// Close frees the socket; what was not flushed is lost.
func (s *XDPSender) Close() error {
	var failed []error
	for _, memory := range s.rings { // each keeps the socket, and with it the interface's queue
		failed = append(failed, unix.Munmap(memory))
	}
	if s.fd >= 0 {
		failed = append(failed, unix.Close(s.fd))
	}
	if s.umem != nil {
		failed = append(failed, unix.Munmap(s.umem))
	}
	s.rings, s.umem, s.fd = nil, nil, -1
	return errors.Join(failed...)
}
