package injector

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// claims finds events that would act on one packet for certain. What depends on the run (an ITER and an arrival number of
// the same PSN, an ordinal and a PSN) is left to the pipeline's order of tables.
type claims struct {
	exact  map[claim]int // → place of the intent that claimed first
	every  map[claim]int // Nth is Any
	some   map[claim]int // Nth isn't
	others map[claim]int // control events of a class, however addressed
}

// claim is a set of packets. Fields that don't narrow it are zero.
type claim struct {
	flow   trace.FlowID
	class  packet.Class
	space  packet.Space
	psn    int64
	nth    uint16
	packet bool // Nth counts arrivals of the PSN, not rounds
}

func newClaims() claims {
	return claims{map[claim]int{}, map[claim]int{}, map[claim]int{}, map[claim]int{}}
}

// claim registers the intent at place i. If its packets are already another's it returns the place of that one.
func (c *claims) claim(in *Intent, i int) (other int, clash bool) {
	group := claim{flow: in.Flow, class: in.Class, psn: in.RelPSN}
	if in.RelPSN != 0 {
		group.space = in.Space
	}
	exact := group
	exact.nth, exact.packet = in.Nth, in.Class == packet.ClassData && in.Scope == IterPacket && in.Nth != Any
	class := claim{flow: in.Flow, class: in.Class}
	checks := []struct {
		in  map[claim]int
		key claim
	}{{c.exact, exact}, {c.every, group}}
	if in.Nth == Any {
		checks = append(checks, struct {
			in  map[claim]int
			key claim
		}{c.some, group})
	}
	if in.Class != packet.ClassData {
		checks = append(checks, struct {
			in  map[claim]int
			key claim
		}{c.every, class})
		if in.RelPSN == 0 && in.Nth == Any {
			checks = append(checks, struct {
				in  map[claim]int
				key claim
			}{c.others, class})
		}
	}
	for _, check := range checks {
		if other, clash = check.in[check.key]; clash {
			return other, true
		}
	}
	c.exact[exact] = i
	if in.Nth == Any {
		c.every[group] = i
	} else {
		c.some[group] = i
	}
	if in.Class != packet.ClassData {
		c.others[class] = i
	}
	return 0, false
}
