// Package chance tests what a device does at random against the probabilities that a judge computes. It looks after
// every packet, and what is probable may depend on what happened before: all tests are betting martingales, so that
// those of a run together accuse a correct device with a probability of at most FalseAlarm (Ville 1939).
package chance

import "math"

// FalseAlarm bounds the probability that a correct device is accused of a wrong probability in one run, whatever the
// number of flows, queues, packets and looks.
const FalseAlarm = 1e-6

// Wager tests whether packets are selected with the probabilities that the judge computes, each given all that
// happened before: the likelihood ratios of alternatives are martingales of mean 1 if they are, and their mean exceeds
// 1/α at any time with a probability of at most α (Ville 1939). So it may look after every packet, and probabilities
// may depend on what was dropped before. Alternatives multiply the odds of each packet by a factor, for all packets or
// after a selected one and its inverse after others. A bug may begin late: an alternative begins at any multiple of
// restart packets, with the prior probability 1/(j(j+1)) for the j-th, so that what was right before does not hide it.
type Wager struct {
	limit float64 // log of 1/α
	// logs of the ratios, each the mean of those that have begun
	ratios [len(factors) + len(echoes)]float64
	last   bool
	broken bool
	// what the ratios lose with a packet of probability p: most packets have that of the one before
	p      float64
	losses [len(factors) + len(echoes)]float64
	// what it has seen: packets, those selected, and how many were to be
	Seen, Selected int
	Expected       float64
}

// restart is after how many packets alternatives begin anew; a choice.
const restart = 64

var (
	factors = [...]float64{0.05, 0.25, 0.5, 0.8, 0.92, 1.08, 1.25, 2, 4, 20}
	echoes  = [...]float64{0.05, 0.5, 2, 10}
	gains   = gained() // logs of all of them
)

func gained() (logs [len(factors) + len(echoes)]float64) {
	for i, factor := range append(factors[:], echoes[:]...) {
		logs[i] = math.Log(factor)
	}
	return logs
}

// expect notes what the ratios lose with a packet of probability p.
func (w *Wager) expect(p float64) {
	if p == w.p {
		return
	}
	w.p = p
	for i, factor := range factors {
		w.losses[i] = math.Log1p(p * (factor - 1))
	}
	for i, factor := range echoes {
		w.losses[len(factors)+i] = math.Log1p(p * (factor - 1))
	}
}

// Budget gives each Wager its share α of FalseAlarm: the k-th 6/(π²k²), which sum to 1.
type Budget struct{ wagers int }

func (b *Budget) limit() float64 {
	b.wagers++
	k := float64(b.wagers)
	return -math.Log(FalseAlarm * 6 / (math.Pi * math.Pi * k * k))
}

// Next returns a new wager.
func (b *Budget) Next() *Wager { return &Wager{limit: b.limit()} }

// See takes a packet that is selected with probability p, strictly between 0 and 1. It returns true once, if the
// probabilities cannot be right.
func (w *Wager) See(p float64, selected bool) bool {
	if w.Seen%restart == 0 {
		w.begin(w.Seen/restart + 1)
	}
	w.Seen++
	w.Expected += p
	if selected {
		w.Selected++
	}
	w.expect(p)
	bets := len(factors)
	if w.last {
		bets += len(echoes)
	}
	for i := range bets {
		w.ratios[i] -= w.losses[i]
		if selected {
			w.ratios[i] += gains[i]
		}
	}
	w.last = selected
	if w.broken || !w.exceeds() {
		return false
	}
	w.broken = true
	return true
}

// begin begins the alternatives for the j-th time.
func (w *Wager) begin(j int) {
	prior := -math.Log(float64(j) * float64(j+1))
	for i, r := range w.ratios {
		if j == 1 {
			w.ratios[i] = prior
			continue
		}
		most := max(r, prior)
		w.ratios[i] = most + math.Log1p(math.Exp(min(r, prior)-most))
	}
}

// exceeds reports whether the mean of the ratios exceeds the limit.
func (w *Wager) exceeds() bool {
	most := w.ratios[0]
	for _, r := range w.ratios {
		most = max(most, r)
	}
	if most < w.limit {
		return false
	}
	sum := 0.0
	for _, r := range w.ratios {
		sum += math.Exp(r - most)
	}
	return most+math.Log(sum/float64(len(w.ratios))) > w.limit
}
