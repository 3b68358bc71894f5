package chance

import "math"

// DiceBits is of how many bits the numbers are that a Dice takes.
const DiceBits = 3

const faces = 1 << DiceBits

// Dice tests whether numbers of DiceBits bits are uniform and independent. Two alternatives bet by what they have seen:
// that each number has a probability of its own, and that this depends on the number before. Both estimate it as
// Krichevsky and Trofimov 1981; their mean likelihood ratio is a martingale of mean 1 if the numbers are uniform.
type Dice struct {
	limit  float64
	ratios [2]float64
	counts [1 + faces][faces]int // of all, and by the number before
	last   int
	broken bool
	Seen   int
}

// NewDice returns a test.
func NewDice(b *Budget) *Dice { return &Dice{limit: b.limit()} }

// See takes a number below 2^DiceBits. It returns true once, if the numbers cannot be uniform and independent.
func (d *Dice) See(face int) bool {
	bet := func(i int, counts *[faces]int) {
		sum := 0
		for _, n := range counts {
			sum += n
		}
		d.ratios[i] += math.Log(faces * (float64(counts[face]) + 0.5) / (float64(sum) + 0.5*faces))
		counts[face]++
	}
	bet(0, &d.counts[0])
	if d.Seen > 0 {
		bet(1, &d.counts[1+d.last])
	}
	d.Seen++
	d.last = face
	most := max(d.ratios[0], d.ratios[1])
	if d.broken || most+math.Log((math.Exp(d.ratios[0]-most)+math.Exp(d.ratios[1]-most))/2) <= d.limit {
		return false
	}
	d.broken = true
	return true
}
