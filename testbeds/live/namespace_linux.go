package live

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"candela.dev/candela/link"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// namespace is an unnamed network namespace: a thread in it, and the sockets opened there. The kernel removes it, with
// its interfaces, when both are gone, however this process ends.
type namespace struct {
	work  chan func()
	ended chan struct{}
	ns    netns.NsHandle
}

// newNamespace creates a namespace. After close it must not be used.
func newNamespace() (*namespace, error) {
	n := &namespace{work: make(chan func()), ended: make(chan struct{})}
	began := make(chan error, 1)
	go n.live(began)
	return n, <-began
}

// live serves work on its own thread, which ends with it.
func (n *namespace) live(began chan<- error) {
	defer close(n.ended)
	runtime.LockOSThread() // never unlocked: the runtime ends the thread
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		n.ns, err = netns.Get()
	}
	if began <- err; err != nil {
		return
	}
	for f := range n.work {
		f()
	}
}

func (n *namespace) do(f func() error) error {
	done := make(chan error, 1)
	n.work <- func() { done <- f() }
	return <-done
}

func (n *namespace) close() error {
	close(n.work)
	<-n.ended
	return n.ns.Close()
}

const hostInterface = "eth0"

func portInterface(h int) string { return fmt.Sprintf("port%d", h) }

func cable(sw, host *namespace, h, mtu int) error {
	mac, far := fabric.HostID(h).MAC(), [6]byte{0x02, 0xca, 0xdf, 0, byte(h >> 8), byte(h)}
	return sw.do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name, a.MTU, a.NumRxQueues, a.NumTxQueues, a.HardwareAddr = portInterface(h), mtu, 1, 1, far[:]
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: hostInterface, PeerMTU: uint32(mtu),
			PeerHardwareAddr: mac[:],
			PeerNamespace:    netlink.NsFd(host.ns)})
	})
}

// raise turns off everything that adds or changes frames, and sets up an interface of the calling thread's namespace.
func raise(name string, v6 bool) error {
	if !v6 {
		// The file is missing where the kernel has no IPv6.
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	offloads, err := link.DisableOffloads(name)
	if err != nil {
		return err
	}
	if len(offloads.Remaining) > 0 {
		return fmt.Errorf("interface %s keeps offloads that change frames: %v", name, offloads.Remaining)
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

// statistics reads the counts of an interface of the calling thread's namespace.
func statistics(name string, s *netlink.LinkStatistics) error {
	l, err := netlink.LinkByName(name)
	if err == nil && l.Attrs().Statistics != nil {
		*s = *l.Attrs().Statistics
	}
	return err
}

// negotiateECN has connections from the calling thread's namespace ask for ECN, or not, whatever the machine's default.
func negotiateECN(on bool) error {
	value := "2" // only if asked
	if on {
		value = "1"
	}
	return os.WriteFile("/proc/sys/net/ipv4/tcp_ecn", []byte(value), 0)
}

// address gives the calling thread's namespace the addresses of host h, and the neighbour entries of all others, so
// that no address resolution is needed.
func address(h, hosts int, v6 bool) error {
	l, err := netlink.LinkByName(hostInterface)
	if err != nil {
		return err
	}
	add := func(ip net.IP, bits int) error {
		return netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(bits, 8*len(ip))},
			Flags: unix.IFA_F_NODAD})
	}
	id := fabric.HostID(h)
	failed := []error{add(id.IPv4().AsSlice(), 8)}
	if v6 {
		failed = append(failed, add(id.IPv6().AsSlice(), 64))
	}
	for i := range hosts {
		mac, other := fabric.HostID(i).MAC(), fabric.HostID(i)
		ips := []net.IP{other.IPv4().AsSlice()}
		if v6 {
			ips = append(ips, other.IPv6().AsSlice())
		}
		for _, ip := range ips {
			if i != h {
				failed = append(failed, netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: ip, HardwareAddr: mac[:],
					State: netlink.NUD_PERMANENT}))
			}
		}
	}
	return errors.Join(failed...)
}
