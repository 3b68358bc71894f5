package aqm

import (
	"fmt"
	"math"
	"math/bits"
)

// Lengths of Ethernet frames, with FCS. A device may count octets without it.
const (
	leastFrame = 64
	fcs        = 4
	// JumboMTU is the largest frame of the devices that print such texts.
	JumboMTU = 9216
)

// Broken is a counter that is wrong.
type Broken struct {
	Interface string `json:"interface"`
	Group     string `json:"group,omitempty"` // empty: of all groups together
	Line      int    `json:"line"`
	What      string `json:"what"`
}

// Bounds are what is known of the traffic.
type Bounds struct {
	MTU int // bytes of the largest frame, with FCS
	// AllECN says that ECN is on and every packet is ECN-capable: nothing is dropped early.
	AllECN bool
}

// Observed is the frames that taps saw, bytes without FCS.
type Observed struct{ Packets, Bytes uint64 }

// Taps are the frames for an interface (Arrived) and those that left by it (Sent), all of what its counters counted;
// nil: not seen.
type Taps struct{ Arrived, Sent *Observed }

// Since returns the growth of the counters since an earlier text, with the present depths, and which did not grow.
// Interfaces and groups must be those of the earlier text.
func (q *Queuing) Since(before *Queuing) (*Queuing, []Broken, error) {
	grown := &Queuing{Schema: q.Schema}
	var list []Broken
	for i := range q.Interfaces {
		f := q.Interfaces[i]
		old := before.Interface(f.Name)
		if old == nil {
			return nil, nil, fmt.Errorf("%s is not in the earlier text", f.Name)
		}
		groups := f.Groups
		f.Groups = nil
		for j := range groups {
			g := groups[j]
			was := old.Group(g.Name)
			if was == nil {
				return nil, nil, fmt.Errorf("%s of %s is not in the earlier text", g.Name, f.Name)
			}
			rows := g.Rows
			g.Rows = nil
			for _, r := range rows {
				o := was.Row(r.Name)
				if o == nil || len(o.Values) != len(r.Values) {
					return nil, nil, fmt.Errorf("%s of %s of %s has other columns in the earlier text, or is not there", r.Name,
						g.Name, f.Name)
				}
				r.Values = append([]uint64(nil), r.Values...)
				for k := range r.Values {
					switch {
					case r.Name == RowDepth:
					case r.Values[k] < o.Values[k]:
						list = append(list, Broken{f.Name, g.Name, r.Line, fmt.Sprintf("%s (%s) fell from %d to %d: it was cleared, "+
							"or is wrong", r.Name, g.Columns[k], o.Values[k], r.Values[k])})
						r.Values[k] = 0
					default:
						r.Values[k] -= o.Values[k]
					}
				}
				g.Rows = append(g.Rows, r)
			}
			f.Groups = append(f.Groups, g)
		}
		grown.Interfaces = append(grown.Interfaces, f)
	}
	return grown, list, nil
}

// Check returns what is wrong with the counters by themselves:
//
//   - all drops are at least the early ones
//   - the mean frame has a length that frames may have, and there are bytes if and only if there are packets
//   - if every packet is ECN-capable and ECN is on, none is dropped early
//
// Counters that a text does not have are not checked.
func (q *Queuing) Check(b Bounds) (list []Broken) {
	for i := range q.Interfaces {
		f := &q.Interfaces[i]
		for j := range f.Groups {
			g := &f.Groups[j]
			for column := range g.Columns {
				list = g.check(list, b, f.Name, column)
			}
		}
	}
	return list
}

func (g *ShownGroup) check(list []Broken, b Bounds, name string, column int) []Broken {
	tell := func(r *CounterRow, format string, args ...any) {
		list = append(list, Broken{name, g.Name, r.Line, fmt.Sprintf("%s (%s): %s", r.Name, g.Columns[column],
			fmt.Sprintf(format, args...))})
	}
	early, dropped := g.Row(RowEarlyPackets), g.Row(RowDropped)
	if early != nil && dropped != nil && dropped.Values[column] < early.Values[column] {
		tell(dropped, "%d, fewer than the %d early drops", dropped.Values[column], early.Values[column])
	}
	if early != nil && b.AllECN && early.Values[column] > 0 {
		tell(early, "%d, although ECN-capable packets are marked instead", early.Values[column])
	}
	for _, pair := range [][2]string{{RowTxPackets, RowTxBytes}, {RowEarlyPackets, RowEarlyBytes}} {
		packets, octets := g.Row(pair[0]), g.Row(pair[1])
		if packets == nil || octets == nil {
			continue
		}
		n, bytes := packets.Values[column], octets.Values[column]
		if !between(bytes, n, leastFrame-fcs, uint64(b.MTU)) {
			tell(octets, "%d bytes of %d packets, want %d to %d bytes a packet", bytes, n, leastFrame-fcs, b.MTU)
		}
	}
	return list
}

// between reports whether n packets of low to high bytes may have so many bytes.
func between(bytes, n, low, high uint64) bool {
	over, least := bits.Mul64(n, low)
	over2, most := bits.Mul64(n, high)
	if over2 > 0 {
		most = math.MaxUint64
	}
	return over == 0 && bytes >= least && bytes <= most
}

// CheckTaps compares the counters of an interface, all groups together, with what taps saw of it:
//
//   - what left is what was sent, in bytes with or without FCS
//   - arrivals = sent + dropped + waiting, and what waits has the bytes of so many frames
func (q *Queuing) CheckTaps(name string, t Taps, b Bounds) ([]Broken, error) {
	f := q.Interface(name)
	if f == nil {
		return nil, fmt.Errorf("interface %s is not in the text, want one of its interfaces: %s", name, q.names())
	}
	var sum [4]uint64 // packets and bytes sent, packets dropped, bytes that wait
	for i, row := range [...]string{RowTxPackets, RowTxBytes, RowDropped, RowDepth} {
		for j := range f.Groups {
			n, ok := f.Groups[j].Sum(row)
			if !ok {
				return nil, fmt.Errorf("%s of %s has no counter %s, which taps are compared with", f.Groups[j].Name, name, row)
			}
			sum[i] += n
		}
	}
	var list []Broken
	tell := func(format string, args ...any) {
		list = append(list, Broken{Interface: name, Line: f.Line, What: fmt.Sprintf(format, args...)})
	}
	if s := t.Sent; s != nil {
		if sum[0] != s.Packets {
			tell("%s are %d, the tap saw %d frames leave", RowTxPackets, sum[0], s.Packets)
		} else if sum[1] != s.Bytes && sum[1] != s.Bytes+fcs*s.Packets {
			tell("%s are %d, the frames that left have %d bytes, %d with FCS", RowTxBytes, sum[1], s.Bytes,
				s.Bytes+fcs*s.Packets)
		}
	}
	if a := t.Arrived; a != nil {
		waiting := a.Packets - sum[0] - sum[2]
		switch {
		case sum[0]+sum[2] > a.Packets:
			tell("%d frames arrived, fewer than %d sent and %d dropped", a.Packets, sum[0], sum[2])
		case !between(sum[3], waiting, leastFrame-fcs, uint64(b.MTU)):
			tell("%d frames arrived, %d were sent and %d dropped; the other %d cannot be the %d bytes that wait", a.Packets,
				sum[0], sum[2], waiting, sum[3])
		}
	}
	return list, nil
}

func (q *Queuing) names() (text string) {
	for i := range q.Interfaces {
		if i > 0 {
			text += ", "
		}
		text += q.Interfaces[i].Name
	}
	return text
}
