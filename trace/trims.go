package trace

import (
	"context"
	"slices"

	"candela.dev/candela/packet"
)

// A TrimReaction says what a host does with the header of a packet whose payload a switch cut off.
type TrimReaction uint8

// Trim reactions. Unknown ones show in the trace: a host that requests a packet that only its trimmed header named
// reacts.
const (
	TrimReactionUnknown TrimReaction = iota
	TrimIgnored                      // dropped, as damaged packets are
	TrimAnswered                     // a request by an immediate NAK, a READ response by repeating the READ request
)

// TrimReactions are those of both hosts of a test.
type TrimReactions struct {
	Requester, Responder TrimReaction
}

// Receiver returns the reaction of the host that packets on flow go to.
func (t TrimReactions) Receiver(flow FlowID) TrimReaction {
	if flow.Reverse() {
		return t.Requester
	}
	return t.Responder
}

// A Cut is one trim with what the mirror copy, which shows the packet before, does not carry; it comes from
// entries.json.
type Cut struct {
	Flow  FlowID // that the packet travels on
	PSN   packet.PSN
	Nth   uint16 // orders the cuts of one packet
	Size  int    // bytes kept, from the IP header on
	DSCP  uint8
	Flags packet.TrimFlags
	// Unmarked: the receiver expects another DSCP, so it takes the header for a damaged packet.
	Unmarked bool
}

// Cuts finds the cut of each trimmed packet, in one pass over a trace.
type Cuts struct {
	connections *Connections
	known       map[cutKey][]Cut
	used        map[cutKey]int
}

type cutKey struct {
	flow FlowID
	psn  packet.PSN
}

// NewCuts returns a finder among the cuts of entries that fired.
func NewCuts(connections *Connections, cuts []Cut) *Cuts {
	c := &Cuts{connections: connections, known: map[cutKey][]Cut{}, used: map[cutKey]int{}}
	for _, cut := range cuts {
		k := cutKey{cut.Flow, cut.PSN}
		c.known[k] = append(c.known[k], cut)
	}
	for _, list := range c.known {
		slices.SortStableFunc(list, func(a, b Cut) int { return int(a.Nth) - int(b.Nth) })
	}
	return c
}

// Of returns the cut of r, the next trimmed packet of the trace; nil: unknown. Entries that found the packet too short
// to be cut are skipped.
func (c *Cuts) Of(r *Record) *Cut {
	k := cutKey{r.Flow, r.PSN}
	list := c.known[k]
	i := c.used[k]
	for i < len(list)-1 && list[i].Size >= c.ipLength(r) {
		i++
	}
	if len(list) == 0 {
		return nil
	}
	i = min(i, len(list)-1)
	c.used[k] = i + 1
	return &list[i]
}

// ipLength returns the length of the whole packet from the IP header on, in bytes.
func (c *Cuts) ipLength(r *Record) int {
	n := packet.IPv4Len
	if conn, ok := c.connections.Get(r.Flow); ok && conn.Requester.IP.Is6() {
		n = packet.IPv6Len
	}
	return n + packet.UDPLen + packet.BTHLen + r.Opcode.Headers().ExtendedLen() + int(r.PayloadLen) + int(
		r.PadCount) + packet.ICRCLen
}

// WithTrims returns the trace with what a test knows of its hosts and of the cuts: headers that their receiver cannot
// recognise get the flag TrimUnmarked.
func (c *Checked) WithTrims(t TrimReactions, cuts []Cut) *Checked {
	other := *c
	other.meta.TrimReactions = t
	if !slices.ContainsFunc(cuts, func(c Cut) bool { return c.Unmarked }) {
		return &other
	}
	other.batches = nil
	other.stream = func(ctx context.Context, fn func(*Record) error) error {
		find := NewCuts(c.meta.Connections, cuts)
		return c.stream(ctx, func(r *Record) error {
			if r.Event == EventTrim {
				if cut := find.Of(r); cut != nil && cut.Unmarked {
					r.Flags |= TrimUnmarked
				}
			}
			return fn(r)
		})
	}
	return &other
}

// HeaderArrives reports whether the receiver of r gets a trimmed header that it can recognise.
func (r *Record) HeaderArrives() bool {
	return r.Event == EventTrim && r.Flags&(Passed|TrimUnmarked) == Passed
}
