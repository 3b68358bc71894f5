package rank

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"

	"candela.dev/candela/analyzers"
)

// tallies count what became of the packets of each rank, at all ports to which packets come with ranks.
type tallies map[uint64]*tally

type tally struct{ arrived, dropped, left, inversions int64 }

// rankBits are the digits of a rank, in binary, that tallies tell apart: ranks below 2^10 each by itself, greater ones
// within a thousandth.
const rankBits = 10

func (t tallies) of(rank uint64) *tally {
	shift := max(bits.Len64(rank)-rankBits, 0)
	least := rank >> shift << shift
	n := t[least]
	if n == nil {
		n = new(tally)
		t[least] = n
	}
	return n
}

// greatest returns the greatest rank that is counted with one.
func greatest(least uint64) uint64 {
	return least | (1<<max(bits.Len64(least)-rankBits, 0) - 1)
}

// tenths is how many classes of arrivals by rank there are.
const tenths = 10

// tenth is what became of a tenth of the arrivals.
type tenth struct {
	tally
	from, to uint64
}

// tenths returns the least rank of each tally, ascending, its tenth from 0, and the sums over tenths: a packet belongs
// to that in which the share of arrivals with smaller ranks is.
func (t tallies) tenths() (ranks []uint64, of []int, sums [tenths]tenth) {
	all := int64(0)
	for _, n := range t {
		all += n.arrived
	}
	before := int64(0)
	for _, rank := range slices.Sorted(maps.Keys(t)) {
		n := t[rank]
		i := min(int(tenths*before/max(all, 1)), tenths-1)
		s := &sums[i]
		if s.arrived == 0 {
			s.from = rank
		}
		s.to = greatest(rank)
		s.arrived, s.dropped, s.left, s.inversions = s.arrived+n.arrived, s.dropped+n.dropped, s.left+n.left,
			s.inversions+n.inversions
		before += n.arrived
		ranks, of = append(ranks, rank), append(of, i)
	}
	return ranks, of, sums
}

// results returns the distributions of inversions by rank and of drops by tenth, and the tables of both.
func (t tallies) results() (metrics []*analyzers.Distribution, tables []analyzers.Table) {
	if len(t) == 0 {
		return nil, nil
	}
	inversions := analyzers.NewDistribution("rank.inversions-by-rank", "packets", 0)
	drops := analyzers.NewDistribution("rank.drops", analyzers.UnitPPM, 0)
	file := analyzers.Table{File: "ranks", Columns: []string{"from_rank", "to_rank", "tenth", "arrived", "dropped", "left",
		"inversions"}}
	shown := analyzers.Table{Title: "By rank", Columns: []string{"tenth", "from rank", "to rank", "arrived", "dropped",
		"dropped %", "left", "inversions"},
		Note: "Tenths of the packets that came, the most urgent first; inversions: how many of smaller ranks waited " +
			"while they left, in all."}
	ranks, of, sums := t.tenths()
	text := func(list ...int64) (row []string) {
		for _, n := range list {
			row = append(row, strconv.FormatInt(n, 10))
		}
		return row
	}
	rankText := func(r uint64) string { return strconv.FormatUint(r, 10) }
	for i, rank := range ranks {
		n := t[rank]
		inversions.Record(n.inversions)
		file.Rows = append(file.Rows, append([]string{rankText(rank), rankText(greatest(rank))},
			text(int64(of[i])+1, n.arrived, n.dropped, n.left, n.inversions)...))
	}
	for i := range sums {
		s := &sums[i]
		if s.arrived == 0 {
			continue
		}
		drops.Record(s.dropped * ppm / s.arrived)
		shown.Rows = append(shown.Rows, slices.Concat([]string{strconv.Itoa(i + 1), rankText(s.from), rankText(s.to)},
			text(s.arrived, s.dropped), []string{fmt.Sprintf("%.2f", 100*float64(s.dropped)/float64(s.arrived))},
			text(s.left, s.inversions)))
	}
	return []*analyzers.Distribution{inversions, drops}, []analyzers.Table{file, shown}
}

// lengths counts the arrivals that find so many packets waiting; beyond 2^10 within a thousandth.
type lengths map[uint64]int64

func (h lengths) add(n int) {
	shift := max(bits.Len64(uint64(n))-rankBits, 0)
	h[uint64(n)>>shift<<shift]++
}

func (h lengths) table() analyzers.Table {
	t := analyzers.Table{File: "rank-waiting", Title: "Packets that wait when another comes", Cumulative: true,
		Unit: "packets", Columns: []string{"waiting", "arrivals"}}
	for _, n := range slices.Sorted(maps.Keys(h)) {
		t.Rows = append(t.Rows, []string{strconv.FormatUint(n, 10), strconv.FormatInt(h[n], 10)})
	}
	return t
}
