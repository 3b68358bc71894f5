package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"

	"candela.dev/candela/link"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// way is how a host reaches its peers: addresses of its interface, and a route and a neighbour for each peer. Nothing
// else of the machine changes, and no other address is reached through the interface.
type way struct {
	device   string
	mtu      int
	shared   bool // what the machine has already stays: addresses and routes of its administrator's
	ips      []netip.Addr
	peers    []SocketPeer
	closed   chan struct{}
	undo     []func() error // in the order in which it was done
	offloads *link.Offloads
}

// wayOf checks what an orchestrator wants.
func wayOf(q *agentpb.EquipRequest) (*way, error) {
	const least, most = 576, 9216
	w := &way{device: q.GetInterface(), mtu: int(q.GetMtu()), closed: make(chan struct{})}
	if w.mtu < least || w.mtu > most {
		return nil, refuse("an MTU of %d; allowed are %d to %d", w.mtu, least, most)
	}
	for _, b := range q.GetIps() {
		ip, ok := netip.AddrFromSlice(b)
		if !ok || !ip.IsPrivate() {
			return nil, refuse("%v is not a private IP address", net.IP(b))
		}
		w.ips = append(w.ips, ip)
	}
	for _, p := range q.GetPeers() {
		ip, ok := netip.AddrFromSlice(p.GetIp())
		if !ok || !ip.IsPrivate() || len(p.GetMac()) != len(packet.MAC{}) {
			return nil, refuse("peer %v: want a private IP address and an Ethernet address", net.IP(p.GetIp()))
		}
		w.peers = append(w.peers, SocketPeer{ip, packet.MAC(p.GetMac())})
	}
	return w, nil
}

// open sets the way up. After an error close takes back what was done.
func (w *way) open() error {
	l, err := netlink.LinkByName(w.device)
	if err != nil {
		return wayError(w.device, "look it up", err)
	}
	if have := l.Attrs().MTU; have < w.mtu {
		return wayError(w.device, "MTU", fmt.Errorf("it is %d, the test needs %d", have, w.mtu))
	}
	if !w.shared { // an RDMA device has offloads of its own
		if w.offloads, err = link.DisableOffloads(w.device); err != nil {
			return err
		}
		w.undo = append(w.undo, w.offloads.Restore)
	}
	for _, ip := range w.ips {
		if err := w.address(l, ip); err != nil {
			return err
		}
	}
	for i := range w.peers {
		if err := w.peer(l, &w.peers[i]); err != nil {
			return err
		}
	}
	return nil
}

// single returns the network of one address.
func single(ip netip.Addr) *net.IPNet {
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
}

// meet adds a peer to a way that is open, unless it is known.
func (w *way) meet(p SocketPeer) error {
	if slices.Contains(w.peers, p) {
		return nil
	}
	l, err := netlink.LinkByName(w.device)
	if err != nil {
		return wayError(w.device, "look it up", err)
	}
	w.peers = append(w.peers, p)
	return w.peer(l, &p)
}

// has reports whether the interface has an address, with whatever prefix.
func has(l netlink.Link, ip netip.Addr) (bool, error) {
	const anyFamily = 0 // AF_UNSPEC
	list, err := netlink.AddrList(l, anyFamily)
	return slices.ContainsFunc(list, func(a netlink.Addr) bool { return a.IP.Equal(ip.AsSlice()) }), err
}

func (w *way) address(l netlink.Link, ip netip.Addr) error {
	if w.shared {
		switch there, err := has(l, ip); {
		case err != nil:
			return wayError(w.device, "list its addresses", err)
		case there:
			return nil
		case !ip.IsPrivate():
			return wayError(w.device, "address "+ip.String(), errors.New("it is not private, and the interface lacks it"))
		}
	}
	a := &netlink.Addr{IPNet: single(ip), Flags: noDAD}
	if err := netlink.AddrAdd(l, a); err != nil {
		if errors.Is(err, syscall.EEXIST) {
			err = errors.New("the machine has this address already: another test, or a network of its own, uses it")
		}
		return wayError(w.device, "address "+ip.String(), err)
	}
	w.undo = append(w.undo, func() error { return gone(netlink.AddrDel(l, a)) })
	return nil
}

// Values of Linux that netlink declares there only: NUD_PERMANENT of linux/neighbour.h, RT_SCOPE_LINK of
// linux/rtnetlink.h.
const (
	permanent               = 0x80
	onLink    netlink.Scope = 253
)

func (w *way) peer(l netlink.Link, p *SocketPeer) error {
	index := l.Attrs().Index
	n := &netlink.Neigh{LinkIndex: index, IP: p.IP.AsSlice(), HardwareAddr: p.MAC[:], State: permanent}
	add := netlink.NeighAdd
	if w.shared {
		add = netlink.NeighSet // an entry that the kernel has found comes back by itself
	}
	if err := add(n); err != nil {
		return wayError(w.device, "neighbour "+p.IP.String(), err)
	}
	w.undo = append(w.undo, func() error { return gone(netlink.NeighDel(n)) })
	r := &netlink.Route{LinkIndex: index, Dst: single(p.IP), Scope: onLink, MTU: w.mtu}
	for _, ip := range w.ips {
		if ip.Is4() == p.IP.Is4() {
			r.Src = ip.AsSlice()
		}
	}
	if err := netlink.RouteAdd(r); w.shared && errors.Is(err, syscall.EEXIST) {
		return nil
	} else if err != nil {
		return wayError(w.device, "route to "+p.IP.String(), err)
	}
	w.undo = append(w.undo, func() error { return gone(netlink.RouteDel(r)) })
	return nil
}

// gone lets pass that there is nothing to take back.
func gone(err error) error {
	for _, e := range []error{syscall.ESRCH, syscall.ENOENT, syscall.EADDRNOTAVAIL, syscall.ENODEV} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// close takes back what open has done, the latest first.
func (w *way) close() error {
	select {
	case <-w.closed:
		return nil
	default:
		close(w.closed)
	}
	var failed []error
	for i := len(w.undo) - 1; i >= 0; i-- {
		failed = append(failed, w.undo[i]())
	}
	w.undo = nil
	return errors.Join(failed...)
}

// noDAD makes an IPv6 address usable immediately (IFA_F_NODAD).
const noDAD = 0x02

// countPackets reads the packets of an interface.
func countPackets(device string) (p packets, err error) {
	l, err := netlink.LinkByName(device)
	if err != nil {
		return p, fmt.Errorf("interface %q: %w", device, err)
	}
	if s := l.Attrs().Statistics; s != nil {
		return packets{s.TxPackets, s.RxPackets}, nil
	}
	return p, fmt.Errorf("interface %q: %w", device, os.ErrNotExist)
}
