package live

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"candela.dev/candela/generator/sockets"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// datagrams is the UDP sockets through which a stack sends and receives: one for each port on which it receives, and
// one for each port that it sends from. A stack decides headers; Ethernet, IP and checksums are the kernel's.
type datagrams struct {
	own      fabric.HostID
	codecs   *wire.Codecs
	at       sockets.Place
	v6       bool
	in       []socket
	from     map[uint16]int // sockets by the port that they send from
	class    map[int]int    // of packets, by socket
	frame    []byte
	received []byte
	sent     uint64
	refused  uint64 // that the kernel did not take
}

// socket is one that receives.
type socket struct {
	fd   int
	port uint16
}

// receiveBuffer is how many bytes wait at a socket at most: those of some 10,000 small datagrams.
const receiveBuffer = 1 << 23

// openDatagrams opens the sockets of a host on the ports of all codecs that have one. The caller closes them.
func openDatagrams(own fabric.HostID, codecs *wire.Codecs, v6 bool, at sockets.Place) (d *datagrams, err error) {
	d = &datagrams{own: own, codecs: codecs, v6: v6, at: at, from: make(map[uint16]int), class: make(map[int]int),
		received: make([]byte, 1<<16)}
	for _, c := range codecs {
		if c == nil {
			continue
		}
		for _, port := range []uint16{c.Port, c.Reply} {
			if port == 0 || c.IPv4 != packet.ProtocolUDP {
				continue
			}
			fd, err := d.open(port)
			if err != nil {
				return nil, errors.Join(err, d.close())
			}
			d.in = append(d.in, socket{fd, port})
			if _, err := drops(fd); err != nil { // a loss that nobody counts would be blamed on the switch
				return nil, errors.Join(fmt.Errorf("UDP port %d: what the kernel drops: %w", port, err), d.close())
			}
			// Not every kernel allows so much; what is lost is counted.
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
		}
	}
	return d, nil
}

// open opens a socket at the host's address.
func (d *datagrams) open(port uint16) (int, error) {
	family := unix.AF_INET
	if d.v6 {
		family = unix.AF_INET6
	}
	var fd int
	err := d.at(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("UDP socket: %w", err)
	}
	if err := unix.Bind(fd, d.address(d.own, port)); err != nil {
		return 0, errors.Join(fmt.Errorf("UDP port %d of %v: %w", port, d.ip(d.own), err), unix.Close(fd))
	}
	return fd, nil
}

func (d *datagrams) ip(h fabric.HostID) netip.Addr {
	if d.v6 {
		return h.IPv6()
	}
	return h.IPv4()
}

func (d *datagrams) address(h fabric.HostID, port uint16) unix.Sockaddr {
	if d.v6 {
		return &unix.SockaddrInet6{Port: int(port), Addr: h.IPv6().As16()}
	}
	return &unix.SockaddrInet4{Port: int(port), Addr: h.IPv4().As4()}
}

// send sends a packet.
func (d *datagrams) send(h *fabric.Header) error {
	if h.IPv6 != d.v6 {
		return fmt.Errorf("host %d: a packet of another version of IP than its sockets", d.own)
	}
	d.frame = d.codecs.AppendTagged(d.frame[:0], h)
	at := ethernetLen + packet.IPv4Len
	if h.IPv6 {
		at = ethernetLen + packet.IPv6Len
	}
	if len(d.frame) < at+packet.UDPLen {
		return fmt.Errorf("host %d: a packet of %d bytes is no datagram", d.own, len(d.frame))
	}
	b := d.frame[at:]
	fd, err := d.sender(binary.BigEndian.Uint16(b))
	if err == nil {
		err = d.mark(fd, int(h.DSCP)<<2|int(h.ECN))
	}
	if err != nil {
		return err
	}
	switch err := unix.Sendto(fd, b[packet.UDPLen:], 0, d.address(h.Dst, binary.BigEndian.Uint16(b[2:]))); {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
		d.refused++
	case err != nil:
		return fmt.Errorf("host %d sends to host %d: %w", d.own, h.Dst, err)
	default:
		d.sent++
	}
	return nil
}

// sender returns the socket that sends from a port.
func (d *datagrams) sender(port uint16) (fd int, err error) {
	if i := slices.IndexFunc(d.in, func(s socket) bool { return s.port == port }); i >= 0 {
		return d.in[i].fd, nil
	}
	fd, ok := d.from[port]
	if !ok {
		if fd, err = d.open(port); err == nil {
			d.from[port] = fd
		}
	}
	return fd, err
}

// mark sets the traffic class of what a socket sends.
func (d *datagrams) mark(fd, class int) (err error) {
	if d.class[fd] == class {
		return nil
	}
	d.class[fd] = class
	if d.v6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, class)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, class)
}

// drain calls came for each datagram that has arrived, and take for each that is of the test, whose header is in p.
func (d *datagrams) drain(came func(), p *fabric.Packet, take func()) error {
	for _, s := range d.in {
		for n := 0; n < kernelSlots; n++ {
			// The codecs parse datagrams with their UDP header, which the kernel has taken off.
			size, from, err := unix.Recvfrom(s.fd, d.received[packet.UDPLen:], 0)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				return fmt.Errorf("host %d receives on UDP port %d: %w", d.own, s.port, err)
			}
			came()
			ip, port := origin(from)
			b := d.received[:packet.UDPLen+size]
			binary.BigEndian.PutUint16(b, port)
			binary.BigEndian.PutUint16(b[2:], s.port)
			binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
			header := ethernetLen + packet.IPv4Len
			if d.v6 {
				header = ethernetLen + packet.IPv6Len
			}
			whole := int32(header + len(b))
			p.Header = fabric.Header{Src: wire.HostOf(ip.AsSlice()), Dst: d.own, Size: whole, Original: whole, IPv6: d.v6,
				TTL: fabric.InitialTTL}
			if d.codecs.ParseUDP(b, &p.Header) {
				take()
			}
		}
	}
	return nil
}

// origin returns where a datagram is from.
func origin(a unix.Sockaddr) (ip netip.Addr, port uint16) {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr), uint16(a.Port)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr), uint16(a.Port)
	}
	return ip, 0
}

// losses lists what the kernel did not send, or lost between interface and sockets.
func (d *datagrams) losses(add func(what string, n uint64)) {
	if d.refused > 0 {
		add("datagrams that its kernel did not take:", d.refused)
	}
	for _, s := range d.in {
		switch n, err := drops(s.fd); {
		case err != nil:
			add(fmt.Sprintf("counters that cannot be read (UDP port %d: %v):", s.port, err), 1)
		case n > 0:
			add(fmt.Sprintf("datagrams that UDP port %d has dropped:", s.port), uint64(n))
		}
	}
}

// drops returns how many datagrams a socket has dropped: no room, or a wrong checksum.
func drops(fd int) (uint32, error) {
	const last = 8                                     // SK_MEMINFO_DROPS
	var info [last + 1]uint32                          // SO_MEMINFO
	size := uint32(unsafe.Sizeof(info))                // socklen_t
	_, _, failed := unix.Syscall6(unix.SYS_GETSOCKOPT, // package unix has no function for this option
		uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if failed != 0 {
		return 0, failed
	}
	if size <= last*uint32(unsafe.Sizeof(info[0])) {
		return 0, errors.New("the kernel counts no drops of sockets")
	}
	return info[last], nil
}

// each calls f for each socket that receives.
func (d *datagrams) each(f func(fd int)) {
	if d == nil {
		return
	}
	for _, s := range d.in {
		f(s.fd)
	}
}

// close closes the sockets.
func (d *datagrams) close() error {
	if d == nil {
		return nil
	}
	var failed []error
	for _, s := range d.in {
		failed = append(failed, unix.Close(s.fd))
	}
	for _, port := range slices.Sorted(maps.Keys(d.from)) {
		failed = append(failed, unix.Close(d.from[port]))
	}
	d.in, d.from = nil, nil
	return errors.Join(failed...)
}
