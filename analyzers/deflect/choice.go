package deflect

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/chance"
)

// bet is what a wager is about: a kind of choice, and a port.
type bet struct {
	of   choice
	port int
	with int // of pairs: the other port
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
	ofPair                    // two ports are drawn together
	ofNext                    // a port behind a congested one is deflected to, which scans favour
	ofCoarse                  // the lowest 16 bits of a random number are 0
	choices
)

func (c choice) String() string {
	return [...]string{"as one of two paths", "of two equal paths", "to deflect to", "to begin with", "as a candidate",
		"of equal candidates", "to refuse packets at", "together with another", "behind a congested one",
		"for a number with few bits"}[c]
}

type wager struct{ *chance.Wager }

// wager returns the one about a bet: a place for each kind and port, then for each pair of ports.
func (d *device) wager(b bet) *wager {
	n := len(d.ports)
	i := int(b.of)*n + b.port
	if b.of == ofPair {
		i = int(choices)*n + b.port*n + b.with
	}
	if i >= len(d.bets) {
		d.bets = append(d.bets, make([]*wager, i+1-len(d.bets))...)
	}
	if d.bets[i] == nil {
		d.bets[i] = &wager{d.judge.wagers.Next()}
	}
	return d.bets[i]
}

// draw tests that something at a packet happens with a probability.
func (d *device) draw(a *arrival, b bet, p float64, happened bool) {
	if p <= 0 || p >= 1 {
		return
	}
	w := d.wager(b)
	d.judge.coverage.draws++
	if w.See(p, happened) {
		d.tell(a, wrongShare(place{d.who, b.port, a.id}, b.of, w.Selected, w.Seen, w.Expected))
	}
}

// pair tests that each two of so many ports are drawn together as often. Of three, the shares of ports say it.
func (d *device) pair(a *arrival, among []int, first, second int) {
	const least, most = 4, 8
	n := len(among)
	if n < least || n > most {
		return
	}
	for i, low := range among {
		for _, high := range among[i+1:] {
			d.draw(a, bet{of: ofPair, port: low, with: high}, 2/float64(n*(n-1)),
				min(first, second) == min(low, high) && max(first, second) == max(low, high))
		}
	}
}

// place is a port of a switch with the packet at hand.
type place struct {
	who  cause.Switch
	port int
	id   uint64
}
