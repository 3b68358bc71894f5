package trace

import (
	"cmp"
	"context"
	"slices"

	"candela.dev/candela/packet"
)

// Sighting identifies one packet as its sender sent it, by what package rounds keeps of it.
type Sighting struct {
	Flow   FlowID
	PSN    packet.PSN
	TimeNS int64
}

// Payload is what a capture shows of the payload of one packet.
type Payload struct {
	ID   uint64 // of the record; 0: it was not found, or its iCRC is wrong
	Hash PayloadHash
	Len  uint16 // bytes that the packet announces
}

// Payloads returns the payloads of packets that ForEach has shown, in their order. Few packets are ever compared, and a
// hash costs a look at every byte, so a separate pass computes those and decodes no other packet.
func (c *Checked) Payloads(ctx context.Context, list []Sighting) ([]Payload, error) {
	found := make([]Payload, len(list))
	if len(list) == 0 {
		return found, nil
	}
	s := newWantedPackets(list)
	take := func(r *Record) error {
		if r.Flags&Sent != 0 && r.ICRC != packet.ICRCInvalid {
			for i := s.first(r.TimeNS); i < len(s.order) && instantOf(list[s.order[i]].TimeNS) == instantOf(r.TimeNS); i++ {
				at := s.order[i]
				if w := &list[at]; w.Flow == r.Flow && w.PSN == r.PSN {
					found[at] = Payload{ID: r.ID, Hash: r.Payload, Len: r.PayloadLen}
				}
			}
		}
		return nil
	}
	if c.payloads == nil {
		return found, c.stream(ctx, take)
	}
	return found, c.payloads(ctx, s, take)
}

// instant is the part of a time that a mirror copy carries.
type instant uint64

func instantOf(ns int64) instant { return instant(ns) & (1<<48 - 1) }

// wantedPackets finds the wantedPackets of an instant.
type wantedPackets struct {
	list  []Sighting
	order []int32 // by instant
	bits  []uint64
}

const wantedBits = 1 << 16

func newWantedPackets(list []Sighting) *wantedPackets {
	s := &wantedPackets{list: list, order: make([]int32, len(list)), bits: make([]uint64, wantedBits/64)}
	for i := range list {
		s.order[i] = int32(i)
		h := instantOf(list[i].TimeNS) % wantedBits
		s.bits[h/64] |= 1 << (h % 64)
	}
	slices.SortFunc(s.order, func(a,
		b int32) int {
		return cmp.Compare(instantOf(list[a].TimeNS), instantOf(list[b].TimeNS))
	})
	return s
}

// instants returns the times of the sightings, sorted.
func (s *wantedPackets) instants() []int64 {
	list := make([]int64, len(s.list))
	for i := range s.list {
		list[i] = s.list[i].TimeNS
	}
	slices.Sort(list)
	return list
}

// maybe reports whether something may be wanted at a time; most others are excluded quickly.
func (s *wantedPackets) maybe(at instant) bool {
	h := at % wantedBits
	return s.bits[h/64]>>(h%64)&1 != 0
}

// first returns the index of the first sighting at a time, or of a later one.
func (s *wantedPackets) first(ns int64) int {
	i, _ := slices.BinarySearchFunc(s.order, instantOf(ns), func(at int32, t instant) int {
		return cmp.Compare(instantOf(s.list[at].TimeNS), t)
	})
	return i
}

// payloads returns the second way to read the trace of a scan.
func (s *scan) payloads(meta Meta) func(context.Context, *wantedPackets, func(*Record) error) error {
	src, o, index := s.src, s.o, s.index
	return func(ctx context.Context, wanted *wantedPackets, fn func(*Record) error) error {
		dec := NewDecoder(o.Format, meta.Connections, meta.ICRCCheckable)
		dec.payloads = true
		var r Record
		take := func(f *Frame) error {
			at := instantOf(f.TimeNS)
			if o.Format != FormatPlain {
				if len(f.Data) < packet.EthernetLen {
					return nil
				}
				at = instant(uint48(f.Data))
			}
			if !wanted.maybe(at) || dec.Decode(f, &r) != nil {
				return nil
			}
			return fn(&r)
		}
		if index != nil {
			done, err := src.forEachFrameIn(ctx, index.ranges(wanted.instants()), take)
			if done || err != nil {
				return o.bearable(err)
			}
		}
		return o.bearable(src.ForEachFrame(ctx, take))
	}
}

// withPayloads streams what run does, with hashes of payloads.
func (v *tapView) withPayloads(ctx context.Context, _ *wantedPackets, fn func(*Record) error) error {
	w := *v
	w.payloads = true
	_, err := w.run(ctx, fn)
	return err
}
