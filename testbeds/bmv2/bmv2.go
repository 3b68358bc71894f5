// Package bmv2 makes an injector switch of bmv2's simple_switch_grpc: it starts the program from the PATH, attaches
// interfaces, serves its P4Runtime at our address, and stops it.
//
// A proxy before the program passes P4Runtime through byte for byte and adds candela.injector.v1.Status. A testbed thus
// finds the same two services as with our own switch: on a unix socket, or elsewhere with mutual TLS.
package bmv2

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds"
)

// Datapath is the name of this datapath in testbeds of network namespaces.
const Datapath = "bmv2"

// Program is the required executable on the PATH.
const Program = "simple_switch_grpc"

// ErrAbsent reports that the program is not installed.
var ErrAbsent = errors.New(Program + " is not on the PATH")

// Find returns the path of the program.
func Find() (string, error) {
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("%w: install bmv2 with P4Runtime", ErrAbsent)
	}
	return path, nil
}

// Config describes a Switch.
type Config struct {
	Program  string   // path of simple_switch_grpc; empty: the one on the PATH
	Ports    []string // interfaces towards hosts; port numbers count from 0
	Mirrors  []string // interfaces towards dumpers; their numbers follow
	DeviceID uint64
	Version  string // of the tool
	Log      *slog.Logger
}

// PacketsPerSecond bounds the packet rate of a host: bmv2 forwards about 5000/s from both hosts, with their copies,
// without loss.
const PacketsPerSecond = 1500

// Paced returns spec with hosts limited to the rate that bmv2 forwards without loss.
func Paced(spec testbeds.Spec) testbeds.Spec {
	rate := clock.BitRate(shortest(&spec)*8) * PacketsPerSecond
	for i := range spec.Hosts {
		spec.Hosts[i].Rate = min(spec.Hosts[i].Rate, rate)
	}
	return spec
}

// overhead is the length of headers, preamble and gap around a packet's payload, in bytes.
const overhead = 14 + 20 + 8 + 12 + 4 + 24

// shortest returns the wire length of the shortest full packet of the traffic, in bytes.
func shortest(spec *testbeds.Spec) int {
	size := 0
	for _, c := range spec.Connections {
		for _, t := range c.Traffic {
			if t.Messages == 0 {
				continue
			}
			payload := min(t.MessageSize, c.MTU)
			for _, v := range t.Verbs {
				if v.IsAtomic() {
					payload = 0
				}
			}
			if size == 0 || payload+overhead < size {
				size = payload + overhead
			}
		}
	}
	return max(size, overhead)
}
