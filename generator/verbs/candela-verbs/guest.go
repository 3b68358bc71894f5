//go:build verbs && cgo && linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/generator/verbs"
)

// netdev is the only interface of a guest, rdmaDevice its soft-RoCE device.
const (
	netdev     = "eth0"
	rdmaDevice = "rxe0"
)

func monotonic() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano(), err
}

func (a *agent) hello() (verbs.Hello, error) {
	h := verbs.Hello{Schema: verbs.Schema}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return h, err
	}
	h.Kernel = unix.ByteSliceToString(name.Release[:])
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return h, err
	}
	h.MemTotalKiB = int64(info.Totalram) * int64(info.Unit) >> 10
	if text, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource"); err == nil {
		h.ClockSource = strings.TrimSpace(string(text))
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return h, err
	}
	h.UptimeNS = boot.Nano()
	var err error
	h.MonotonicNS, err = monotonic()
	return h, err
}

// queueLength is the interface's queue length in packets: all responses to a READ are queued at once.
const queueLength = 20000

// configure brings the guest's interface up and adds a new soft-RoCE device to it.
func (a *agent) configure(r verbs.ConfigureRequest) (verbs.ConfigureResponse, error) {
	if !a.guest {
		return verbs.ConfigureResponse{}, errors.New("configure: this is no guest; its administrator configures a host")
	}
	a.close()
	if _, err := os.Stat("/sys/class/infiniband/" + rdmaDevice); err == nil {
		if err := run("rdma", "link", "delete", rdmaDevice); err != nil {
			return verbs.ConfigureResponse{}, err
		}
	}
	steps := [][]string{
		{"ip", "link", "set", netdev, "down"},
		{"ip", "addr", "flush", "dev", netdev},
		{"ip", "link", "set", netdev, "address", net.HardwareAddr(r.MAC[:]).String(), "mtu", strconv.Itoa(r.MTU),
			"txqueuelen", strconv.Itoa(queueLength)},
		{"ip", "link", "set", netdev, "up"},
	}
	// Duplicate address detection would delay IPv6 addresses.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+netdev+"/accept_dad", []byte("0"), 0o644)
	for _, p := range r.Addresses {
		steps = append(steps, []string{"ip", "addr", "add", p.String(), "dev", netdev})
	}
	for _, n := range r.Neighbours {
		steps = append(steps, []string{"ip", "neigh", "replace", n.IP.String(), "lladdr", net.HardwareAddr(n.MAC[:]).String(),
			"dev", netdev, "nud", "permanent"})
	}
	steps = append(steps, []string{"rdma", "link", "add", rdmaDevice, "type", "rxe", "netdev", netdev})
	for _, s := range steps {
		if err := run(s[0], s[1:]...); err != nil {
			return verbs.ConfigureResponse{}, err
		}
	}
	return verbs.ConfigureResponse{Device: rdmaDevice}, awaitGIDs(r)
}

// awaitGIDs waits until every address has its GID, which the kernel adds asynchronously.
func awaitGIDs(r verbs.ConfigureRequest) error {
	deadline := time.Now().Add(10 * time.Second)
	for _, p := range r.Addresses {
		for {
			_, err := verbs.Port{Device: rdmaDevice, Number: 1}.GIDIndex(os.DirFS("/"), p.Addr())
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

func run(name string, args ...string) error {
	_, err := output(name, args...)
	return err
}

// output runs a program and returns its standard output.
func output(name string, args ...string) ([]byte, error) {
	var out, complaint bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}
