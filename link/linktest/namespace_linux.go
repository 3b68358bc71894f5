// Package linktest makes network namespaces and veth pairs that end with the test.
package linktest

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Namespace runs f in a new network namespace on a separate thread, which ends afterwards together with the namespace.
// Goroutines that f starts are not in the namespace unless they inherit open sockets. Without the privilege the test is
// skipped with a reason.
func Namespace(t testing.TB, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Never unlocked: the runtime ends the thread, so no other goroutine runs in its namespace.
		runtime.LockOSThread()
		if failed = enter(); failed != nil {
			return
		}
		f()
	}()
	<-ended
	if failed != nil {
		t.Skipf("no network namespace: %v", failed)
	}
}

// enter moves the thread into new namespaces. /sys shows the interfaces of the network namespace that it was mounted
// in, so it is mounted again, visible to this thread only.
func enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the network and the mounts: %w", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts below / private: %w", err)
	}
	if err := unix.Mount("candela", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs on /sys: %w", err)
	}
	return nil
}

// Veth makes a pair of connected interfaces, up and without IPv6, in the current namespace.
func Veth(t testing.TB, a, b string) {
	t.Helper()
	VethQueues(t, a, b, 1)
}

// VethQueues is Veth with several receive and transmit queues at both ends. What a CPU sends goes through the queue
// with its number, modulo their number, and is received on that CPU.
func VethQueues(t testing.TB, a, b string, queues int) {
	t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = a
	attributes.MTU = 9000
	attributes.NumTxQueues, attributes.NumRxQueues = queues, queues
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: b, PeerMTU: 9000,
		PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues)}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatalf("make veth pair %s, %s: %v", a, b, err)
	}
	for _, name := range []string{a, b} {
		// Router solicitations would appear among a test's frames. The file is missing where the kernel has no IPv6.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatalf("set %s up: %v", name, err)
		}
	}
}

// SetMTU changes an interface's MTU in the current namespace.
func SetMTU(t testing.TB, name string, mtu int) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetMTU(l, mtu)
	}
	if err != nil {
		t.Fatalf("set the MTU of %s to %d: %v", name, mtu, err)
	}
}

// SetUp brings an interface of the current namespace up.
func SetUp(t testing.TB, name string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		t.Fatalf("set %s up: %v", name, err)
	}
}

// SetDown takes an interface of the current namespace down.
func SetDown(t testing.TB, name string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetDown(l)
	}
	if err != nil {
		t.Fatalf("set %s down: %v", name, err)
	}
}
