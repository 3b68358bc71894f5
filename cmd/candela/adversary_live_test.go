//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/link/linktest"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/packet"
)

// A mangler returns the frames that a box sends for the n-th arriving frame of the traffic, and a frame that it sends
// later.
type mangler func(n int, frame []byte) (now [][]byte, late []byte)

// lateness is the delay of a late duplicate after its original.
const lateness = 10 * time.Millisecond

// opcode returns the opcode of a RoCE frame over IPv4 without options.
func opcode(frame []byte) packet.Opcode { return packet.Opcode(frame[42]) }

func destQP(frame []byte) uint32 { return binary.BigEndian.Uint32(frame[46:]) & 0xffffff }

func pass(frame []byte) [][]byte { return [][]byte{frame} }

// adversaries returns cables with faults beyond a single frame, each with the expected words of the report.
func adversaries() map[string]struct {
	words  string
	mangle func() mangler
} {
	type fault = struct {
		words  string
		mangle func() mangler
	}
	stateless := func(words string, m mangler) fault { return fault{words, func() mangler { return m }} }
	return map[string]fault{
		"loses every ACK": stateless("lost", func(_ int, f []byte) ([][]byte, []byte) {
			if opcode(f) == packet.Acknowledge {
				return nil, nil
			}
			return pass(f), nil
		}),
		"loses every 100th frame": stateless("lost", func(n int, f []byte) ([][]byte, []byte) {
			if n%100 == 0 {
				return nil, nil
			}
			return pass(f), nil
		}),
		"repeats a frame 10 ms later": stateless("duplicated", func(n int, f []byte) ([][]byte, []byte) {
			if n == 7 {
				return pass(f), slices.Clone(f)
			}
			return pass(f), nil
		}),
		"swaps two frames of different connections": {"in another order", func() mangler {
			var held []byte
			done := false
			return func(n int, f []byte) ([][]byte, []byte) {
				switch {
				case done || n < 5:
				case held == nil:
					held = slices.Clone(f)
					return nil, nil
				case destQP(f) != destQP(held):
					done = true
					return [][]byte{f, held}, nil
				default: // the held frame leaves in its position
					before := held
					held = slices.Clone(f)
					return pass(before), nil
				}
				return pass(f), nil
			}
		}},
		"loses one frame and repeats another": stateless("1 lost, 1 duplicated", func(n int, f []byte) ([][]byte, []byte) {
			switch n {
			case 6:
				return nil, nil
			case 20:
				return [][]byte{f, slices.Clone(f)}, nil
			}
			return pass(f), nil
		}),
		"exchanges the contents of two frames": {"", func() mangler {
			var first []byte
			return func(n int, f []byte) ([][]byte, []byte) {
				switch n {
				case 9:
					first = slices.Clone(f)
					return nil, nil
				case 12:
					return [][]byte{f, first}, nil
				}
				return pass(f), nil
			}
		}},
		"repeats what passed 30 frames before": {"duplicated", func() mangler {
			var old []byte
			return func(n int, f []byte) ([][]byte, []byte) {
				if n == 3 {
					old = slices.Clone(f)
				}
				if n == 33 {
					return [][]byte{f, old}, nil
				}
				return pass(f), nil
			}
		}},
		"makes a frame of its own": stateless("", func(n int, f []byte) ([][]byte, []byte) {
			if n == 11 {
				forged := slices.Clone(f)
				forged[53] += 100 // the lowest byte of the PSN
				return [][]byte{f, forged}, nil
			}
			return pass(f), nil
		}),
		"cuts the iCRC off": stateless("", func(n int, f []byte) ([][]byte, []byte) {
			if n == 8 {
				return pass(f[:len(f)-4]), nil
			}
			return pass(f), nil
		}),
		"appends four bytes": stateless("", func(n int, f []byte) ([][]byte, []byte) {
			if n == 8 && len(f) > 100 {
				return pass(append(slices.Clone(f), 1, 2, 3, 4)), nil
			}
			return pass(f), nil
		}),
	}
}

// adversaryTest has two connections with data in both directions, and more than 100 frames in each direction.
const adversaryTest = `name: adversary
requester: {nic: {profile: spec, ip-list: [10.0.0.2/24]}}
responder: {nic: {profile: spec, ip-list: [10.0.0.1/24]}}
traffic:
  num-connections: 2
  rdma-verb: write
  num-msgs-per-qp: 4
  mtu: 1024
  message-size: 20480
  min-retransmit-timeout: 15
  bidirectional: true
`

// TestALabWhoseCableHasAnOddFaultIsNotJudged puts a box with each of the faults into the requester's cable, for frames
// towards it. With CANDELA_TEST_ADVERSARY=all it tests each cable in each direction. CANDELA_TEST_CLEAN (3) runs
// without a fault must pass.
func TestALabWhoseCableHasAnOddFaultIsNotJudged(t *testing.T) {
	needLive(t)
	if !aloneInNamespaces(t) {
		return
	}
	var boxes [2]*box
	var near []string
	for i := range 4 {
		near = append(near, fmt.Sprintf("p%d", i))
		if i >= len(boxes) {
			linktest.Veth(t, near[i], fmt.Sprintf("n%d", i))
			continue
		}
		linktest.Veth(t, near[i], fmt.Sprintf("b%d", i))
		linktest.Veth(t, fmt.Sprintf("c%d", i), fmt.Sprintf("n%d", i))
		boxes[i] = newBox(t, fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i))
		boxes[i].run(t)
	}
	l := newCabledLab(t, "afpacket", near[:2], near[2:])
	description := l.describe(t, 0, 1, 2, 3)
	hosts, directions := []string{"requester", "responder"}, []string{"to", "from"}
	if os.Getenv("CANDELA_TEST_ADVERSARY") != "all" {
		hosts, directions = hosts[:1], directions[:1]
	}
	for i, host := range hosts {
		for from, direction := range directions {
			for name, fault := range adversaries() {
				t.Run(fmt.Sprintf("the cable %s the %s %s", direction, host, name), func(t *testing.T) {
					defer boxes[i].corrupt(0, nil)
					exit, said := runTest(t, adversaryTest, description, t.TempDir(),
						func() { boxes[i].corrupt(from, fault.mangle()) })
					if exit != orchestrator.ExitInvalid || !strings.Contains(said, "cable or port") || !strings.Contains(said, host) ||
						!strings.Contains(said, fault.words) {
						t.Errorf("exit %d, want %d with “cable or port”, %q and %q:\n%s", exit, orchestrator.ExitInvalid, host,
							fault.words, said)
					}
					if strings.Count(said, "RoCE frames") == 0 {
						t.Errorf("no counts:\n%s", said)
					}
				})
			}
		}
	}
	runs, _ := strconv.Atoi(os.Getenv("CANDELA_TEST_CLEAN"))
	for i := range max(3, runs) {
		if exit, said := runTest(t, adversaryTest, description, t.TempDir()); exit != orchestrator.ExitPass {
			t.Errorf("run %d without a fault: exit %d:\n%s", i, exit, said)
		}
	}
}
