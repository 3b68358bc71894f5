package datapathtest

import (
	"errors"
	"fmt"
	"slices"

	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/packet"
)

// Differences are allowed differences of a target from the pipeline in Go: what the contract leaves open or the target
// cannot avoid.
type Differences struct {
	CopyPorts bool // draws the UDP ports of mirror copies otherwise
	TxBytes   bool // counts a trimmed packet's bytes in roce_tx as they arrived
	Turns     bool // goes on with the turns when the gate is opened that was open
}

// Memory is a datapath without wires: what a frame makes leave is known when Process returns.
type Memory interface {
	switchd.Datapath
	Process(port uint16, frame []byte, leave func(port uint16, frame []byte)) error
}

// Run runs a sequence on a datapath without wires and returns how frames and counters differ from those of the
// pipeline; nil if they don't.
func (s Sequence) Run(d Memory, allowed Differences) error {
	ref, err := newReference(Case{})
	if err == nil {
		d.Reset()
		err = Program(d, Case{})
	}
	if err != nil {
		return err
	}
	for i, step := range s.Steps {
		if step.Reopens && allowed.Turns {
			return nil
		}
		err := errors.Join(step.apply(ref), step.apply(d))
		for n, f := range step.In {
			if err != nil {
				break
			}
			var want, got [Ports][][]byte
			if want, err = ref.process([]Frame{f}); err != nil {
				break
			}
			err = d.Process(f.Port, f.Data, func(port uint16, frame []byte) { got[port] = append(got[port], frame) })
			for _, f := range slices.Concat(got[DumperA], got[DumperB]) {
				ClearStamp(f)
			}
			if allowed.CopyPorts {
				clearPorts(want, got)
			}
			if err = errors.Join(err, Compare(want, got)); err != nil {
				err = fmt.Errorf("frame %d: %w", n, err)
			}
		}
		if err == nil {
			err = s.compareCounters(ref, d, allowed.TxBytes)
		}
		if err != nil {
			return fmt.Errorf("%s: step %d: %w", s.Name, i, err)
		}
	}
	return nil
}

// clearPorts zeroes the UDP destination ports of mirror copies.
func clearPorts(lists ...[Ports][][]byte) {
	for _, list := range lists {
		for _, f := range slices.Concat(list[DumperA], list[DumperB]) {
			l3 := packet.EthernetLen
			if len(f) > l3 && f[12] == 0x81 && f[13] == 0 {
				l3 += packet.VLANLen
			}
			if len(f) <= l3 {
				continue
			}
			l4 := l3 + packet.IPv6Len
			if f[l3]>>4 == 4 {
				l4 = l3 + int(f[l3]&0xf)*4
			}
			if len(f) >= l4+4 {
				clear(f[l4+2 : l4+4])
			}
		}
	}
}
