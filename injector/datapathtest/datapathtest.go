// Package datapathtest is one suite of packets-in/packets-out cases for every injector datapath: the pipeline in Go,
// XDP, packet rings, bmv2. A case is a set of table entries, frames that arrive, and the frames that must leave,
// computed by the Go pipeline: per port, in order, byte for byte except the stamps of a datapath's own clock.
//
// The pipeline itself has hand-written expectations in its own package; here it is the reference.
package datapathtest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/packet"
)

// Ports of the switch under test: hosts first, then dumpers.
const (
	HostA = iota
	HostB
	DumperA
	DumperB

	Ports
)

// Seed is the seed of the mirror copies' UDP ports.
const Seed = 7

// Entry is one table entry, or a default action if Default is set.
type Entry struct {
	Table   uint32
	Default bool
	Key     p4.Key
	Action  p4.Action
}

// Frame is a frame on a port.
type Frame struct {
	Port uint16
	Data []byte
}

// A Case is what a datapath is programmed with and what arrives. Every case starts on a fresh pipeline with [Base]
// entries.
type Case struct {
	Name    string
	Entries []Entry
	In      []Frame
	// Needs are ids of actions beyond those that every target has.
	Needs []uint32
}

// sessions of the two dumpers.
const (
	sessionA = 1
	sessionB = 2
)

// Base are the entries of every case: forwarding to both hosts, one turn for each dumper, an open gate.
func Base() []Entry {
	return []Entry{
		{Table: p4.TableL2Forward, Key: p4.KeyOf(MAC(HostA).Uint48()), Action: p4.NewAction(p4.ActionForward, HostA)},
		{Table: p4.TableL2Forward, Key: p4.KeyOf(MAC(HostB).Uint48()), Action: p4.NewAction(p4.ActionForward, HostB)},
		{Table: p4.TableMirrorSlot, Key: p4.KeyOf(0), Action: p4.NewAction(p4.ActionSelectSession, sessionA)},
		{Table: p4.TableMirrorSlot, Key: p4.KeyOf(1), Action: p4.NewAction(p4.ActionSelectSession, sessionB)},
		{Table: p4.TableMirror, Default: true, Action: p4.NewAction(p4.ActionOpen, 2)},
	}
}

// MAC is a host's address.
func MAC(host int) packet.MAC { return packet.MAC{2, 0xca, 0xde, 0x1a, 1, byte(host)} }

// Program writes a case into a datapath that was just reset.
func Program(d switchd.Datapath, c Case) error {
	if err := d.SetMulticastGroup(p4.FloodGroup, []uint16{HostA, HostB}); err != nil {
		return err
	}
	for session, port := range map[uint32]uint16{sessionA: DumperA, sessionB: DumperB} {
		if err := d.SetCloneSession(session, []uint16{port}); err != nil {
			return err
		}
	}
	return write(d, slices.Concat(Base(), c.Entries))
}

func write(d switchd.Datapath, entries []Entry) error {
	for i, e := range entries {
		var err error
		if e.Default {
			err = d.SetDefault(e.Table, e.Action)
		} else {
			err = d.Set(e.Table, e.Key, e.Action)
		}
		if err != nil {
			return fmt.Errorf("entry %d of table %d: %w", i, e.Table, err)
		}
	}
	return nil
}

// Expected returns the frames that leave each port in order, by the pipeline in Go, with mirror stamps of zero.
func Expected(c Case) ([Ports][][]byte, error) {
	r, err := newReference(c)
	if err != nil {
		return [Ports][][]byte{}, err
	}
	return r.process(c.In)
}

// reference is the pipeline in Go with the forwarder of all datapaths in Go.
type reference struct {
	*pipeline.Pipeline
	wire *pipeline.Wire
	out  [Ports][][]byte // what has left since process began
}

func newReference(c Case) (*reference, error) {
	p, err := pipeline.New(pipeline.Config{Ports: Ports, Seed: Seed})
	if err == nil {
		err = Program(p, c)
	}
	ref := &reference{Pipeline: p}
	ref.wire = pipeline.NewWire(p, ref)
	return ref, err
}

// process returns what leaves each port when frames arrive.
func (ref *reference) process(in []Frame) ([Ports][][]byte, error) {
	ref.out = [Ports][][]byte{}
	for _, f := range in {
		if _, err := ref.wire.Forward(0, f.Port, f.Data); err != nil {
			return ref.out, err
		}
		ref.wire.Mirror()
	}
	return ref.out, nil
}

func (ref *reference) Transmit(port uint16, frame []byte) {
	ref.out[port] = append(ref.out[port], bytes.Clone(frame))
}

func (ref *reference) Room(n int) []byte { return make([]byte, 0, n) }

func (ref *reference) Keep(frame []byte) []byte { return frame }

// ClearStamp zeroes the time of a mirror copy, the one field that may differ.
func ClearStamp(frame []byte) {
	if len(frame) >= 6 {
		clear(frame[:6])
	}
}

// Compare returns how the frames that left a switch differ from the expected ones; nil if equal.
func Compare(want, got [Ports][][]byte) error {
	for port := range want {
		for i := range max(len(want[port]), len(got[port])) {
			switch {
			case i >= len(got[port]):
				return fmt.Errorf("port %d: %d frames left, want %d; missing:\n%s", port, len(got[port]), len(want[port]),
					hex.Dump(want[port][i]))
			case i >= len(want[port]):
				return fmt.Errorf("port %d: %d frames left, want %d; too many:\n%s", port, len(got[port]), len(want[port]),
					hex.Dump(got[port][i]))
			case !bytes.Equal(want[port][i], got[port][i]):
				return fmt.Errorf("port %d: frame %d differs:\ngot\n%swant\n%s", port, i, hex.Dump(got[port][i]),
					hex.Dump(want[port][i]))
			}
		}
	}
	return nil
}
