package injector

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// claims finds events that would certainly act on one packet. What depends on the run (an ITER and an arrival number of
// the same PSN, an ordinal and a PSN) is left to the pipeline's order of tables. The maps have the place of the intent
// that claimed first.
type claims struct {
	exact   map[claim]int // each claim with its Nth
	every   map[claim]int // claims with Nth Any
	counted map[claim]int // claims with a number, less the number
	class   map[claim]int // control packets of a class, however addressed
}

// claim is a set of packets. Fields that don't narrow it are zero.
type claim struct {
	flow    trace.FlowID
	class   packet.Class
	space   packet.Space
	psn     int64
	nth     uint16
	arrival bool // nth counts arrivals of the PSN, not rounds
}

func newClaims() claims {
	return claims{map[claim]int{}, map[claim]int{}, map[claim]int{}, map[claim]int{}}
}

// claim registers the intent at place i. If its packets are already claimed it returns the place of that intent.
func (c *claims) claim(in *Intent, i int) (other int, clash bool) {
	class := claim{flow: in.Flow, class: in.Class}
	group := class
	if in.RelPSN != 0 {
		group.space, group.psn = in.Space, in.RelPSN
	}
	exact := group
	exact.nth = in.Nth
	exact.arrival = in.Class == packet.ClassData && in.Scope == IterPacket && in.Nth != Any

	others := []first{{c.exact, exact}, {c.every, group}}
	if in.Nth == Any {
		others = append(others, first{c.counted, group})
	}
	if in.Class != packet.ClassData {
		others = append(others, first{c.every, class})
		if in.RelPSN == 0 && in.Nth == Any {
			others = append(others, first{c.class, class})
		}
	}
	for _, o := range others {
		if other, clash = o.by[o.claim]; clash {
			return other, true
		}
	}
	c.register(in, i, exact, group, class)
	return 0, false
}

// first looks up who made a claim first.
type first struct {
	by    map[claim]int
	claim claim
}

func (c *claims) register(in *Intent, i int, exact, group, class claim) {
	c.exact[exact] = i
	if in.Nth == Any {
		c.every[group] = i
	} else {
		c.counted[group] = i
	}
	if in.Class != packet.ClassData {
		c.class[class] = i
	}
}
