package detection

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// trims draws what a third of the scenarios have besides losses: packets that are trimmed, and hosts that react to that
// or not. It has a separate random source, so that the rest of a scenario does not change.
type trims struct {
	r    *rand.Rand
	some bool
}

func newTrims(scenario uint64) *trims {
	r := rand.New(rand.NewPCG(scenario, 0x7a13))
	return &trims{r: r, some: r.IntN(3) == 0}
}

// mark is the DSCP that reacting hosts look for.
const mark = 48

// hosts draws the reactions of the requester and the responder; addresses are their NICs' settings or empty.
func (t *trims) hosts(requester, responder string) string {
	var b strings.Builder
	for _, h := range [][2]string{{"requester", requester}, {"responder", responder}} {
		var keys []string
		if h[1] != "" {
			keys = append(keys, "nic: {ip-list: ["+h[1]+"]}")
		}
		if t.some && t.r.IntN(3) > 0 {
			keys = append(keys, fmt.Sprintf("roce-parameters: {trim-reaction: true, trim-dscp: %d}", mark))
		}
		if len(keys) > 0 {
			fmt.Fprintf(&b, "%s: {%s}\n", h[0], strings.Join(keys, ", "))
		}
	}
	return b.String()
}

// event replaces the type of some data events by a trim: mostly with the mark, sometimes without or with another one;
// of sizes at which small packets are runts, or that cut headers; with every combination of updated lengths.
func (t *trims) event(other string) string {
	if !t.some || t.r.IntN(4) == 0 {
		return other
	}
	text := fmt.Sprintf("trim, trim-size: %d", []int{60, 64, 72, 128, 128, 300}[t.r.IntN(6)])
	if t.r.IntN(8) > 0 {
		text += fmt.Sprintf(", trim-dscp: %d", mark)
	} else if t.r.IntN(2) == 0 {
		text += ", trim-dscp: 5"
	}
	return text + fmt.Sprintf(", update-ip-len: %v, update-udp-len: %v", t.r.IntN(3) > 0, t.r.IntN(3) == 0)
}
