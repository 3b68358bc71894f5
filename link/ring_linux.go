package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	defaultBlockBytes   = 1 << 20
	defaultBlocks       = 16
	defaultBlockTimeout = time.Millisecond

	// vlanRoom is kept free in front of each frame for the tag that the kernel took out.
	vlanRoom = 4
	macs     = 12 // bytes of addresses in front of a tag
)

// A Ring receives the frames of one interface. One goroutine reads; Stop and Stats may be called by any other.
type Ring struct {
	cfg    RingConfig
	fd     int
	wake   int // an eventfd that ends a waiting poll
	memory []byte
	next   int // block

	stopped atomic.Bool
	mu      sync.Mutex // guards stats and, against Stop, the file descriptors
	closed  bool
	stats   Stats
}

// OpenRing opens a receive ring. It needs CAP_NET_RAW. The caller closes it.
func OpenRing(cfg RingConfig) (_ *Ring, err error) {
	setDefaults(&cfg)
	device, err := net.InterfaceByName(cfg.Interface)
	if err != nil {
		return nil, fmt.Errorf("open ring on %q: %w", cfg.Interface, err)
	}
	// Protocol 0 receives nothing: no frame gets into the ring before filter and fanout are set.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open ring on %q: packet socket: %w%s", cfg.Interface, err, privilege(err))
	}
	r := &Ring{cfg: cfg, fd: fd, wake: -1}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open ring on %q: %w", cfg.Interface, err), r.Close())
		}
	}()
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	if err := r.configure(device.Index); err != nil {
		return nil, err
	}
	address := &unix.SockaddrLinklayer{Protocol: swap16(unix.ETH_P_ALL), Ifindex: device.Index}
	if err := unix.Bind(fd, address); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	if cfg.Fanout != nil {
		// A socket joins a group only once it is bound and running.
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_FANOUT, fanoutArgument(*cfg.Fanout)); err != nil {
			return nil, fmt.Errorf("join fanout group %d: %w", cfg.Fanout.Group, err)
		}
	}
	return r, nil
}

func setDefaults(cfg *RingConfig) {
	if cfg.BlockBytes == 0 {
		cfg.BlockBytes = defaultBlockBytes
	}
	if cfg.Blocks == 0 {
		cfg.Blocks = defaultBlocks
	}
	if cfg.BlockTimeout == 0 {
		cfg.BlockTimeout = defaultBlockTimeout
	}
}

// privilege adds what to do about an error that root would not get.
func privilege(err error) string {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return " (needs CAP_NET_RAW)"
	}
	return ""
}

func (r *Ring) configure(index int) error {
	if page := unix.Getpagesize(); r.cfg.BlockBytes%page != 0 {
		return fmt.Errorf("block of %d bytes is not a multiple of the page size %d", r.cfg.BlockBytes, page)
	}
	set := func(name string, option, value int) error {
		if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, option, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	ignore := 1
	if r.cfg.Outgoing {
		ignore = 0
	}
	err := errors.Join(
		set("PACKET_VERSION", unix.PACKET_VERSION, unix.TPACKET_V3),
		set("PACKET_RESERVE", unix.PACKET_RESERVE, vlanRoom),
		set("PACKET_IGNORE_OUTGOING", unix.PACKET_IGNORE_OUTGOING, ignore),
	)
	if err != nil {
		return err
	}
	if r.cfg.Promiscuous {
		membership := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
		if err := unix.SetsockoptPacketMreq(r.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &membership); err != nil {
			return fmt.Errorf("promiscuous mode: %w", err)
		}
	}
	if r.cfg.Snap > 0 {
		if err := r.limit(r.cfg.Snap); err != nil {
			return err
		}
	}
	return r.mapRing()
}

// limit makes the kernel copy at most snap bytes of each frame: a filter returns the length to keep.
func (r *Ring) limit(snap int) error {
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: uint32(snap)}}
	err := unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: 1, Filter: &program[0]})
	if err != nil {
		return fmt.Errorf("limit frames to %d bytes: %w", snap, err)
	}
	return nil
}

func (r *Ring) mapRing() error {
	const frame = 2048 // of no consequence for TPACKET_V3, but checked
	request := unix.TpacketReq3{
		Block_size:     uint32(r.cfg.BlockBytes),
		Block_nr:       uint32(r.cfg.Blocks),
		Frame_size:     frame,
		Frame_nr:       uint32(r.cfg.BlockBytes / frame * r.cfg.Blocks),
		Retire_blk_tov: uint32(max(1, r.cfg.BlockTimeout.Milliseconds())),
	}
	if err := unix.SetsockoptTpacketReq3(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &request); err != nil {
		return fmt.Errorf("ring of %d blocks of %d bytes: %w", r.cfg.Blocks, r.cfg.BlockBytes, err)
	}
	memory, err := unix.Mmap(r.fd, 0, r.cfg.BlockBytes*r.cfg.Blocks, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the ring: %w", err)
	}
	r.memory = memory
	return nil
}

func fanoutArgument(f Fanout) int {
	mode := unix.PACKET_FANOUT_HASH
	switch f.Mode {
	case FanoutByFlow:
	case FanoutRoundRobin:
		mode = unix.PACKET_FANOUT_LB
	case FanoutByCPU:
		mode = unix.PACKET_FANOUT_CPU
	}
	return int(f.Group) | mode<<16
}

// Block is a run of frames that the kernel has handed over.
type Block struct {
	memory []byte
	ring   *Ring
}

// Wait returns the next block, or nil if none is complete within the timeout or if a signal ends the wait early, such
// as the runtime's own; a negative timeout has no limit. The block must be released before the next call. After Stop it
// returns ErrStopped when the finished blocks have been read.
func (r *Ring) Wait(timeout time.Duration) (*Block, error) {
	for polled := false; ; polled = true {
		memory := r.memory[r.next*r.cfg.BlockBytes : (r.next+1)*r.cfg.BlockBytes]
		if atomic.LoadUint32(blockStatus(memory))&unix.TP_STATUS_USER != 0 {
			return &Block{memory: memory, ring: r}, nil
		}
		if r.stopped.Load() {
			return nil, ErrStopped
		}
		if polled {
			return nil, nil
		}
		if err := r.poll(timeout); err != nil {
			return nil, err
		}
	}
}

func (r *Ring) poll(timeout time.Duration) error {
	ms := -1
	if timeout >= 0 {
		ms = int((timeout + time.Millisecond - 1) / time.Millisecond)
	}
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(r.wake), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, ms)
	switch {
	case err != nil && !errors.Is(err, unix.EINTR):
		return fmt.Errorf("wait for frames of %q: %w", r.cfg.Interface, err)
	case fds[0].Revents&unix.POLLERR != 0:
		// The pending error says what happened to the interface; ENETDOWN when it went away.
		if code, err := unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
			return fmt.Errorf("receive on %q: %w", r.cfg.Interface, unix.Errno(code))
		}
	}
	return nil
}

// Pause lets blocks gather: it returns after d, or immediately when the ring is stopped. Each ready block wakes a
// reader in Wait; a reader that pauses in between is woken once for many.
func (r *Ring) Pause(d time.Duration) error {
	limit := unix.NsecToTimespec(d.Nanoseconds())
	_, err := unix.Ppoll([]unix.PollFd{{Fd: int32(r.wake), Events: unix.POLLIN}}, &limit, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("pause at %q: %w", r.cfg.Interface, err)
	}
	return nil
}

// header is tpacket_hdr_v1, which follows version and offset in a block.
func header(block []byte) *unix.TpacketHdrV1 {
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&block[blockHeaderAt]))
}

// blockHeaderAt is the offset of the union in struct tpacket_block_desc.
const blockHeaderAt = 8

func blockStatus(block []byte) *uint32 { return &header(block).Block_status }

// Len returns the number of frames.
func (b *Block) Len() int { return int(header(b.memory).Num_pkts) }

// Frames visits the block's frames in the order of arrival.
func (b *Block) Frames() iter.Seq[Frame] {
	return func(yield func(Frame) bool) {
		h := header(b.memory)
		at := int(h.Offset_to_first_pkt)
		for range h.Num_pkts {
			p := (*unix.Tpacket3Hdr)(unsafe.Pointer(&b.memory[at]))
			if !yield(b.frame(at, p)) {
				return
			}
			at += int(p.Next_offset)
		}
	}
}

func (b *Block) frame(at int, p *unix.Tpacket3Hdr) Frame {
	f := Frame{Length: int(p.Len), Time: int64(p.Sec)*int64(time.Second) + int64(p.Nsec)}
	start, n := at+int(p.Mac), int(p.Snaplen)
	if p.Status&unix.TP_STATUS_VLAN_VALID != 0 && n >= macs {
		start -= vlanRoom
		b.restoreTag(start, p)
		n += vlanRoom
		f.Length += vlanRoom
		if snap := b.ring.cfg.Snap; snap > 0 {
			n = min(n, snap)
		}
	}
	f.Data = b.memory[start : start+n : start+n]
	address := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&b.memory[at+addressAt]))
	f.Outgoing = address.Pkttype == unix.PACKET_OUTGOING
	return f
}

// addressAt is the offset of the sockaddr_ll after a frame's header: TPACKET_ALIGN(sizeof(struct tpacket3_hdr)).
const addressAt = (unix.SizeofTpacket3Hdr + unix.TPACKET_ALIGNMENT - 1) &^ (unix.TPACKET_ALIGNMENT - 1)

// restoreTag moves the addresses to start and writes the tag after them.
func (b *Block) restoreTag(start int, p *unix.Tpacket3Hdr) {
	copy(b.memory[start:], b.memory[start+vlanRoom:start+vlanRoom+macs])
	tpid := uint16(unix.ETH_P_8021Q)
	if p.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = p.Hv1.Vlan_tpid
	}
	binary.BigEndian.PutUint16(b.memory[start+macs:], tpid)
	binary.BigEndian.PutUint16(b.memory[start+macs+2:], uint16(p.Hv1.Vlan_tci))
}

// Release gives the block back to the kernel; its frames are gone.
func (b *Block) Release() {
	atomic.StoreUint32(blockStatus(b.memory), unix.TP_STATUS_KERNEL)
	b.ring.next = (b.ring.next + 1) % b.ring.cfg.Blocks
}

// Stats returns what the kernel counted up to now.
func (r *Ring) Stats() (Stats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.stats, nil
	}
	// Reading resets the kernel's numbers.
	s, err := unix.GetsockoptTpacketStatsV3(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return r.stats, fmt.Errorf("statistics of %q: %w", r.cfg.Interface, err)
	}
	r.stats.Frames += uint64(s.Packets)
	r.stats.Dropped += uint64(s.Drops)
	r.stats.Freezes += uint64(s.Freeze_q_cnt)
	return r.stats, nil
}

// Stop makes a waiting or later Wait return ErrStopped. A block that is still filling is lost unless the reader waits
// for its timeout first: to get every frame, stop after the link has been quiet for longer than the block timeout.
func (r *Ring) Stop() {
	r.stopped.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.wake >= 0 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(r.wake, one[:]) // full means that it is awake already
	}
}

// Close frees the ring. The reader must have returned from Wait, and released its block.
func (r *Ring) Close() error {
	_, statsErr := r.Stats()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var err error
	if r.memory != nil {
		err = unix.Munmap(r.memory)
	}
	if r.wake >= 0 {
		err = errors.Join(err, unix.Close(r.wake))
	}
	return errors.Join(statsErr, err, unix.Close(r.fd))
}

// swap16 puts a number into network order, as the kernel wants protocols.
func swap16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
