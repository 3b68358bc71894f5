// Package bmv2 makes an injector switch of bmv2's simple_switch_grpc: it starts the program from the PATH, gives it
// interfaces, serves its P4Runtime where ours is expected, and stops it.
//
// What stands in front is a proxy that passes P4Runtime through byte for byte and adds candela.injector.v1.Status, so
// that a testbed finds the same two services as with our own switch: on a unix socket, or anywhere with mutual TLS.
package bmv2

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds"
)

// Datapath is the name of this switch among those of a testbed of network namespaces.
const Datapath = "bmv2"

// Program is what must be on the PATH.
const Program = "simple_switch_grpc"

// ErrAbsent says that the program is not installed.
var ErrAbsent = errors.New(Program + " is not on the PATH")

// Find returns the path of the program.
func Find() (string, error) {
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("%w: install bmv2 with P4Runtime", ErrAbsent)
	}
	return path, nil
}

// Config is what a Switch is made of.
type Config struct {
	Program  string   // path of simple_switch_grpc; empty: the one on the PATH
	Ports    []string // interfaces towards hosts; port numbers count from 0
	Mirrors  []string // interfaces towards dumpers; their numbers follow
	DeviceID uint64
	Version  string // of the tool
	Log      *slog.Logger
}

// PacketsPerSecond is how many packets a host may send in a second: bmv2 loses none at some 5000 from both hosts and
// their copies.
const PacketsPerSecond = 1500

// Paced returns a specification whose hosts send no faster than bmv2 forwards without loss.
func Paced(spec testbeds.Spec) testbeds.Spec {
	rate := clock.BitRate(shortest(&spec)*8) * PacketsPerSecond
	for i := range spec.Hosts {
		spec.Hosts[i].Rate = min(spec.Hosts[i].Rate, rate)
	}
	return spec
}

// overhead are the headers, preamble and gap around a packet's payload, in bytes.
const overhead = 14 + 20 + 8 + 12 + 4 + 24

// shortest returns the length of the shortest full packet that the traffic sends, on the wire, in bytes.
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
