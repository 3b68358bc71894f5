package deflect

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/chance"
)

// bet is what a wager is about: a kind of choice, and a port.
type bet struct {
	of   choice
	port int
}

type choice uint8

// Kinds of choices.
const (
	ofRoute     choice = iota // a port is one of two equal paths that are drawn
	ofRouteTie                // of two equal queues
	ofPort                    // a port is deflected to
	ofStart                   // the scan begins with a port
	ofCandidate               // a port is a candidate
	ofTie                     // of candidates with equal queues
	ofThreshold               // a port refuses a packet by a draw
)

func (c choice) String() string {
	return [...]string{"as one of two paths", "of two equal paths", "to deflect to", "to begin with", "as a candidate",
		"of equal candidates", "to refuse packets at"}[c]
}

type wager struct{ *chance.Wager }

// draw tests that something at a packet happens with a probability.
func (d *device) draw(a *arrival, b bet, p float64, happened bool) {
	if p <= 0 || p >= 1 {
		return
	}
	w := d.bets[b]
	if w == nil {
		w = &wager{d.judge.wagers.Next()}
		d.bets[b] = w
	}
	d.judge.coverage["draws"]++
	if w.See(p, happened) {
		d.tell(a, wrongShare(place{d.who, b.port, a.id}, b.of, w.Selected, w.Seen, w.Expected))
	}
}

// place is a port of a switch with the packet at hand.
type place struct {
	who  cause.Switch
	port int
	id   uint64
}
