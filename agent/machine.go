package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/link"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// sysClassNet shows the interfaces of the network namespace that /sys was mounted in.
const sysClassNet = "/sys/class/net"

// linkKind returns the kernel's name for the kind of an interface, such as veth; "device" for hardware.
func linkKind(name string) string {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return ""
	}
	return l.Type()
}

// lossCounters count frames that an interface lost, by name.
type lossCounters map[string]uint64

// lossFiles are below an interface's directory. A change of carrier loses frames in flight.
var lossFiles = []string{
	"statistics/rx_dropped", "statistics/rx_errors", "statistics/rx_missed_errors", "statistics/tx_dropped",
	"statistics/tx_errors",
	"carrier_changes",
}

func readLosses(name string) (lossCounters, error) {
	c := make(lossCounters)
	for _, file := range lossFiles {
		b, err := os.ReadFile(filepath.Join(sysClassNet, name, file))
		if err != nil {
			return nil, fmt.Errorf("losses of %q: %w", name, err)
		}
		v, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("losses of %q: %s: %w", name, file, err)
		}
		c[filepath.Base(file)] = v
	}
	return c, nil
}

// since lists what grew, in the order of lossFiles.
func (c lossCounters) since(before lossCounters) (list []*agentpb.Counter) {
	for _, file := range lossFiles {
		name := filepath.Base(file)
		list = append(list, &agentpb.Counter{Name: name, Value: c[name] - before[name]})
	}
	return list
}

// Describe says what the machine is.
func (s *Server) Describe(context.Context, *agentpb.DescribeRequest) (*agentpb.DescribeResponse, error) {
	answer := &agentpb.DescribeResponse{Version: s.cfg.Version, Privileges: privileges(), NowUnixNs: time.Now().UnixNano(),
		Properties: properties()}
	for _, name := range s.cfg.Interfaces {
		i, err := describeInterface(name)
		if err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		answer.Interfaces = append(answer.Interfaces, i)
		answer.Properties = append(answer.Properties, interfaceProperties(name)...)
	}
	return answer, nil
}

func describeInterface(name string) (*agentpb.Interface, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	offloads, err := link.ActiveOffloads(name)
	if err != nil && !errors.Is(err, link.ErrUnsupported) {
		return nil, err
	}
	return &agentpb.Interface{
		Name: name, Mac: device.HardwareAddr, Mtu: uint32(device.MTU), Kind: linkKind(name), Offloads: offloads,
		Up: device.Flags&net.FlagUp != 0 && device.Flags&net.FlagRunning != 0,
	}, nil
}

func properties() []*agentpb.Property {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	host, _ := os.Hostname()
	return []*agentpb.Property{
		{Name: "hostname", Value: host},
		{Name: "kernel", Value: strings.TrimSpace(string(kernel))},
		{Name: "cpus", Value: strconv.Itoa(runtime.NumCPU())},
		{Name: "go", Value: runtime.Version()},
	}
}

// capabilities that matter here, by their bits (linux/capability.h).
var capabilities = map[int]string{12: "CAP_NET_ADMIN", 13: "CAP_NET_RAW", 38: "CAP_PERFMON", 39: "CAP_BPF"}

// privileges reads which capabilities the process has in effect; CAP_SYS_ADMIN contains the newer two.
func privileges() (names []string) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return nil
		}
		for bit, name := range capabilities {
			if bits>>bit&1 == 1 {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
