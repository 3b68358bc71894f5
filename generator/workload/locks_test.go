package workload_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
)

// values reads settings, those of hosts as the first and the last.
func values(t *testing.T, k *workload.Kind, settings ...string) parameter.Values {
	t.Helper()
	var rest []string
	ranges := map[string][2]int64{}
	for _, s := range settings {
		name, text, _ := strings.Cut(s, "=")
		if name != "clients" && name != "servers" {
			rest = append(rest, s)
			continue
		}
		var r [2]int64
		if n, _ := fmt.Sscanf(text, "%d..%d", &r[0], &r[1]); n < 2 {
			r[1] = r[0]
		}
		ranges[name] = r
	}
	v, err := k.Parameters.Values(rest...)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range ranges {
		v.SetRanges(name, [][2]int64{r})
	}
	return v
}

// flowsOf makes the flows of an item.
func flowsOf(t *testing.T, kind string, settings ...string) []workload.Flow {
	t.Helper()
	k := workload.Find(kind)
	v := values(t, k, settings...)
	if _, problems := k.Check(v, 20); len(problems) > 0 {
		t.Fatal(problems)
	}
	return k.Flows(v, workload.Scope{Hosts: 20, Seed: 1})
}

// drawn counts how often so many transactions take each lock.
func drawn(d workload.Draws, transactions int) (counts map[uint32]int, locks, exclusive int) {
	counts = map[uint32]int{}
	next, buf := d.New(), []workload.Lock(nil)
	for range transactions {
		buf = next(buf[:0])
		for _, l := range buf {
			counts[l.ID]++
			if locks++; l.Exclusive {
				exclusive++
			}
		}
	}
	return counts, locks, exclusive
}

func TestClientsWithLocksOfTheirOwnShareNone(t *testing.T) {
	owner := map[uint32]int{}
	for _, f := range flowsOf(t, "locks", "clients=0..2", "servers=5", "locks=10", "first=100", "sets=own", "threads=2") {
		counts, _, _ := drawn(f.Locks.Draws, 50)
		for id := range counts {
			if other, taken := owner[id]; taken && other != f.Src || id < 100 || id >= 110 {
				t.Errorf("host %d takes lock %d, which host %d has", f.Src, id, other)
			}
			owner[id] = f.Src
		}
	}
	if len(owner) != 10 {
		t.Errorf("%d locks are taken, want 10", len(owner))
	}
}

func TestHalvesAreDrawnForEachThreadAndTakenInTurn(t *testing.T) {
	var sets []map[uint32]int
	for _, f := range flowsOf(t, "locks", "clients=0", "servers=5", "locks=100", "sets=halves", "threads=2") {
		counts, _, _ := drawn(f.Locks.Draws, 150)
		for id, n := range counts {
			if n != 3 {
				t.Errorf("lock %d is taken %d times in 3 turns", id, n)
			}
		}
		if len(counts) != 50 {
			t.Errorf("%d locks, want 50", len(counts))
		}
		sets = append(sets, counts)
	}
	both := 0
	for id := range sets[0] {
		if _, also := sets[1][id]; also {
			both++
		}
	}
	if both < 10 || both > 40 { // 25 are expected, with a standard deviation of 2.5
		t.Errorf("two threads share %d of 50 locks", both)
	}
}

func TestZipfFollowsTheSkew(t *testing.T) {
	f := flowsOf(t, "locks", "clients=0", "servers=5", "locks=1000", "sets=zipf", "skew=1", "shared=0.25")
	counts, locks, exclusive := drawn(f[0].Locks.Draws, 100_000)
	if ratio := float64(counts[1]) / float64(counts[10]); ratio < 9 || ratio > 11 {
		t.Errorf("lock 1 is taken %.1f times as often as lock 10, want 10", ratio)
	}
	if share := float64(exclusive) / float64(locks); share < 0.74 || share > 0.76 {
		t.Errorf("%.3f are exclusive, want 0.75", share)
	}
}

// Each seed has its own transactions, and each new generator the same.
func TestDrawsDependOnTheSeedAlone(t *testing.T) {
	for _, kind := range []string{"locks", "tpcc"} {
		f := flowsOf(t, kind, "clients=0", "servers=5", "threads=2")
		first, again, other := f[0].Locks.Draws.New(), f[0].Locks.Draws.New(), f[1].Locks.Draws.New()
		same := 0
		for range 100 {
			a, b, c := first(nil), again(nil), other(nil)
			if !slices.Equal(a, b) {
				t.Fatalf("%s: %v, then %v", kind, a, b)
			}
			if slices.Equal(a, c) {
				same++
			}
		}
		if same > 50 {
			t.Errorf("%s: two threads have %d of 100 transactions in common", kind, same)
		}
	}
}

// The mix of section 11 of the reference model (netlock.md) makes 0.45 x 13 + 0.43 x 3 + 0.04 x (2 + 30 + 21) = 9.26
// locks on average, less what is merged; the model says "about 10-13".
func TestTransactionsOfTPCCHaveTheLocksOfTheModel(t *testing.T) {
	f := flowsOf(t, "tpcc", "clients=0", "servers=5", "warehouses=10")
	counts, locks, _ := drawn(f[0].Locks.Draws, 50_000)
	if mean := float64(locks) / 50_000; mean < 9.1 || mean > 9.3 {
		t.Errorf("%.2f locks a transaction, want 9.2", mean)
	}
	rows := 0 // New-Order and Payment take the row of the warehouse: 88 %
	for id, n := range counts {
		if id%workload.LocksOfWarehouse == 0 {
			rows += n
		}
		if id >= 10*workload.LocksOfWarehouse {
			t.Fatalf("lock %d is of no warehouse", id)
		}
	}
	if share := float64(rows) / 50_000; share < 0.87 || share > 0.89 {
		t.Errorf("%.3f of transactions take a warehouse's row, want 0.88", share)
	}
}

// Coarse locks are of neighbouring ones, and each is taken once, exclusively if one of its locks is.
func TestMergedLocksAreTakenAsOne(t *testing.T) {
	f := flowsOf(t, "locks", "clients=0", "servers=5", "locks=100", "locks-each=20", "first=3", "shared=0.5")
	fine := f[0].Locks.Draws.New()
	f = flowsOf(t, "locks", "clients=0", "servers=5", "locks=100", "locks-each=20", "first=3", "shared=0.5", "merge=8")
	coarse := f[0].Locks.Draws.New()
	for range 200 {
		want := make(map[uint32]bool)
		for _, l := range fine(nil) {
			id := 3 + (l.ID-3)/8*8
			want[id] = want[id] || l.Exclusive
		}
		got := make(map[uint32]bool)
		locks := coarse(nil)
		for _, l := range locks {
			got[l.ID] = l.Exclusive
		}
		if len(locks) != len(got) || !maps.Equal(got, want) {
			t.Fatalf("locks are %v, want %v", locks, want)
		}
	}
}

// In TPC-C rows of a table are merged. Those of the few warehouses and districts stay.
func TestTPCCMergesRowsOfATable(t *testing.T) {
	const customers, stock, order = 11, 30_011, 130_011 // where tables begin in a warehouse
	f := flowsOf(t, "tpcc", "clients=0", "servers=5", "warehouses=10", "merge=70")
	counts, _, _ := drawn(f[0].Locks.Draws, 20_000)
	fine := 0
	for id := range counts {
		switch row := id % workload.LocksOfWarehouse; {
		case row < customers:
			fine++
		case row < stock && (row-customers)%70 != 0, row >= stock && row < order && (row-stock)%70 != 0:
			t.Fatalf("row %d is the first of no coarse lock", row)
		}
	}
	if fine != 10*customers {
		t.Errorf("%d locks of warehouses and districts, want %d", fine, 10*customers)
	}
}

func TestThreadsThatCannotBeAreRefused(t *testing.T) {
	k := workload.Find("locks")
	for _, c := range []struct{ settings, want string }{
		{"clients=0..2 servers=2", "host 2 is client and lock server"},
		{"clients=0..2 servers=30", "there is no host 30"},
		{"clients=0 servers=2 locks=3 locks-each=4", "is 4 of 3 locks"},
		{"clients=0..2 servers=5 locks=2 sets=own", "is 2 for 3 clients"},
		{"clients=0 servers=2 locks-each=2 on-timeout=resend", "is resend, and transactions of several locks may wait for " +
			"each other for ever"},
		{"clients=0 servers=2 only=1", "is 1 of 1 threads"},
	} {
		v := values(t, k, strings.Fields(c.settings)...)
		_, problems := k.Check(v, 20)
		if len(problems) != 1 || problems[0].What != c.want {
			t.Errorf("%s: %+v, want %q", c.settings, problems, c.want)
		}
	}
}
