package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
)

// Lock is a lock that a transaction takes.
type Lock struct {
	ID        uint32
	Exclusive bool
}

// Locks is what one thread of a client does.
type Locks struct {
	Servers     []int // lock i is that of server i modulo their number
	Databases   []int // that answer what is granted at once; nil: switch and servers do
	Think       clock.Duration
	Timeout     clock.Duration
	Interval    clock.Duration // between the starts of transactions; 0: each follows another
	Kill        clock.Duration // after the start; 0: never
	Outstanding int
	Priority    int
	Resend      bool
	Await       bool
	Restart     bool // a transaction with a request that is rejected starts anew
	Queries     bool // clients ask databases for rows that did not come as grants
	Draws       Draws
	thread      int // of all threads of all clients
	stream      int
}

// Draws is what transactions take.
type Draws interface {
	// New returns a new generator of transactions, which is a function of the seed: it appends the locks of the next one,
	// each once, to buf.
	New() (next func(buf []Lock) []Lock)
}

// place is a thread among those of an item, and the seed of its draws.
type place struct {
	client, clients int // of its client among the clients of the item
	thread, threads int // among those of its client
	seed            uint64
	stream          int
	merge           int // locks of a coarse one
}

func (p *place) rand() *rand.Rand {
	const locks = 0x6c6f636b73
	return rand.New(rand.NewPCG(p.seed^locks, uint64(p.stream)<<48|uint64(p.client)<<16|uint64(p.thread)))
}

// threadParameters are those of kinds whose flows are threads that take locks.
func threadParameters() parameter.Table {
	return parameter.Table{
		{Name: "clients", Kind: parameter.Ranges, Required: true, Max: MaxHosts - 1, Doc: "Hosts that take locks."},
		{Name: "servers", Kind: parameter.Ranges, Required: true, Max: MaxHosts - 1,
			Doc: "Lock servers: lock i is that of the server at position i modulo their number."},
		{Name: "databases", Kind: parameter.Ranges, Max: MaxHosts - 1,
			Doc: "Database servers, which answer what is granted at once (one round trip): lock i is that of the one at " +
				"position i modulo their number. The switch has the same list."},
		{Name: "queries", Kind: parameter.Word, Words: []string{"off", "on"}, Default: "off",
			Doc: "on: a client that has a lock, and no row with it, asks the database itself, and the transaction waits for " +
				"the row."},
		{Name: "threads", Kind: parameter.Integer, Default: "1", Min: 1, Max: 256, Doc: "Threads of each client."},
		{Name: "count", Kind: parameter.Integer, Default: "0", Max: 100_000_000,
			Doc: "Transactions of each thread; 0: until the end of the test."},
		{Name: "think-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 1_000_000_000,
			Doc: "How long a transaction keeps its locks, from the last grant on."},
		{Name: "interval-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 1_000_000_000,
			Doc: "From the start of a transaction to that of the next; 0: when one has ended."},
		{Name: "outstanding", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1024,
			Doc: "Transactions of a thread at a time."},
		{Name: "timeout-us", Kind: parameter.Duration, Unit: "us", Default: "400", Min: 1, Max: 1_000_000_000,
			Doc: "How long a transaction waits for its locks, and at least twice think-us."},
		{Name: "on-timeout", Kind: parameter.Word, Words: []string{"restart", "await", "resend"},
			Default: "await",
			Doc: "await: its locks are released, and after a random pause it starts anew; the pause begins when its requests " +
				"have all been answered, and what it is granted has been released, or after 10 timeouts, as answers may be " +
				"lost. restart: the pause begins at once, so that its new requests may wait behind its old ones; " +
				"transactions of several locks may then stay deadlocked. resend: its requests that have no answer are repeated."},
		{Name: "on-reject", Kind: parameter.Word, Words: []string{"retry", "restart"}, Default: "retry",
			Doc: "What a client does 10 us after a request was rejected. retry: it repeats the request, and its transaction " +
				"keeps its other locks meanwhile; restart: the transaction has released them at once and starts anew."},
		{Name: "merge", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1 << 20,
			Doc: "How many neighbouring locks are one coarse lock, which has the number of the first of them. A transaction " +
				"takes a coarse lock once, exclusively if it takes one of its locks so. tpcc merges rows of one table, and no " +
				"warehouses or districts, of which there are few."},
		{Name: "kill-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 1_000_000_000,
			Doc: "When clients die with the locks that they have, after start-us; 0: never."},
		{Name: "priority", Kind: parameter.Integer, Default: "0", Max: 255,
			Doc: "Priority of the requests, 1 is the highest; 0: none."},
		{Name: "only", Kind: parameter.Integer, Optional: true, Max: 1 << 21,
			Doc: "The only thread that runs, of all threads of all clients, from 0: what a test is minimised to."},
		{Name: "stream", Kind: parameter.Integer, Optional: true, Max: 1 << 16,
			Doc: "Decides, beside the seed, which locks are drawn; without it the place of the item in the workload does."},
	}
}

// threads makes the flows of an item, one for each thread of each client.
func threads(v parameter.Values, in Scope, draws func(place) Draws) []Flow {
	var list []Flow
	servers, clients := v.Ranges("servers"), v.Ranges("clients")
	stream := in.Item
	if v.Has("stream") {
		stream = v.Int("stream")
	}
	for c, client := range clients {
		for thread := range v.Int("threads") {
			number := c*v.Int("threads") + thread
			if v.Has("only") && number != v.Int("only") {
				continue
			}
			list = append(list, Flow{
				Kind: Locking, Src: client, Dst: servers[0], Count: v.Int("count"),
				Locks: &Locks{Servers: servers, Databases: v.Ranges("databases"), Think: v.Duration("think-us"),
					Timeout:  v.Duration("timeout-us"),
					Interval: v.Duration("interval-us"), Kill: v.Duration("kill-us"), Outstanding: v.Int("outstanding"),
					Priority: v.Int("priority"), Resend: v.Word("on-timeout") == "resend",
					Await:   v.Word("on-timeout") == "await",
					Restart: v.Word("on-reject") == "restart", Queries: v.Word("queries") == "on",
					thread: number, stream: stream,
					Draws: draws(place{c, len(clients), thread, v.Int("threads"), in.Seed, stream, v.Int("merge")})},
			})
		}
	}
	return list
}

// onlyThread is an item with one flow of it.
func onlyThread(kind string) func(parameter.Values, *Flow) (string, parameter.Values) {
	return func(v parameter.Values, f *Flow) (string, parameter.Values) {
		one := v.Clone()
		one.SetStep("only", int64(f.Locks.thread))
		one.SetStep("stream", int64(f.Locks.stream))
		return kind, one
	}
}

func checkThreads(v parameter.Values, hosts int) (int, []Problem) {
	clients, servers := v.Ranges("clients"), v.Ranges("servers")
	var problems []Problem
	for key, list := range map[string][]int{"clients": clients, "servers": servers, "databases": v.Ranges("databases")} {
		if len(list) > 0 {
			problems = append(problems, exists(key, slices.Max(list), hosts)...)
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return len(b.Key) - len(a.Key) })
	for _, c := range clients {
		if slices.Contains(servers, c) {
			problems = append(problems, Problem{"clients", fmt.Sprintf("host %d is client and lock server", c), ""})
			break
		}
	}
	for _, d := range v.Ranges("databases") {
		if slices.Contains(servers, d) || slices.Contains(clients, d) {
			problems = append(problems, Problem{"databases", fmt.Sprintf("host %d is also a client or lock server", d), ""})
			break
		}
	}
	if v.Word("queries") == "on" && len(v.Ranges("databases")) == 0 {
		problems = append(problems, Problem{"queries", "is on without databases", "name the hosts that are asked"})
	}
	if several := v.Table().Find("locks-each") < 0; v.Word("on-timeout") == "resend" && (several ||
		v.Int("locks-each") > 1) {
		allowed := "restart or await"
		if !several {
			allowed += ", or locks-each: 1"
		}
		problems = append(problems, Problem{"on-timeout", "is resend, and transactions of several locks may wait for " +
			"each other for ever", allowed})
	}
	total := len(clients) * v.Int("threads")
	if v.Has("only") {
		if v.Int("only") >= total {
			problems = append(problems, Problem{"only", fmt.Sprintf("is %d of %d threads", v.Int("only"), total),
				fmt.Sprintf("threads are 0 to %d", total-1)})
		}
		total = 1
	}
	return total, problems
}

func locks() Kind {
	return Kind{
		Model: parameter.Model{Name: "locks",
			Doc: "Threads of clients that take locks, keep them for a while and release them. Each thread is a flow; its " +
				"round trips are those of its transactions, from the first request to the release.",
			Parameters: append(threadParameters(), parameter.Table{
				{Name: "locks", Kind: parameter.Integer, Default: "1000", Min: 1, Max: 1 << 30, Doc: "Locks that there are."},
				{Name: "first", Kind: parameter.Integer, Default: "1", Max: 1 << 30, Doc: "Number of the first lock."},
				{Name: "locks-each", Kind: parameter.Integer, Default: "1", Min: 1, Max: 64, Doc: "Locks of a transaction."},
				{Name: "shared", Kind: parameter.Number, Default: "0", Max: 1,
					Doc: "Share of locks that are taken shared; the others are taken exclusively."},
				{Name: "sets", Kind: parameter.Word, Words: []string{"all", "own", "halves", "zipf"}, Default: "all",
					Doc: "all: each lock is drawn of all; own: clients take turns through locks of their own; halves: each thread " +
						"takes turns through half of the locks, drawn for it; zipf: lock i is drawn as often as 1/i to the skew."},
				{Name: "skew", Kind: parameter.Number, Default: "0.99", Max: 10, Doc: "Of zipf."},
			}...)},
		For: Locking, Transport: "netlock", Counts: []string{"count"}, Sample: "clients: 0, servers: 1, count: 10",
		Check: func(v parameter.Values, hosts int) (int, []Problem) {
			n, problems := checkThreads(v, hosts)
			if each := v.Int("locks-each"); each > v.Int("locks") {
				problems = append(problems, Problem{"locks-each", fmt.Sprintf("is %d of %d locks", each, v.Int("locks")),
					"a transaction takes each lock once"})
			}
			if clients := len(v.Ranges("clients")); v.Word("sets") == "own" && v.Int("locks") < clients*v.Int("locks-each") {
				problems = append(problems, Problem{"locks", fmt.Sprintf("is %d for %d clients", v.Int("locks"), clients),
					"with sets: own each client has at least locks-each"})
			}
			if v.Word("sets") == "halves" && v.Int("locks") < 2*v.Int("locks-each") {
				problems = append(problems, Problem{"locks", fmt.Sprintf("is %d", v.Int("locks")),
					"with sets: halves at least twice locks-each"})
			}
			return n, problems
		},
		Flows: func(v parameter.Values, in Scope) []Flow {
			return threads(v, in, func(p place) Draws {
				return &lockDraws{place: p, locks: v.Int("locks"), first: v.Int("first"), each: v.Int("locks-each"),
					shared: v.Number("shared"), sets: v.Word("sets"), skew: v.Number("skew")}
			})
		},
		Single: onlyThread("locks"),
	}
}

// lockDraws is what transactions of the kind locks take.
type lockDraws struct {
	place
	locks, first, each int
	shared             float64
	sets               string
	skew               float64
}

// New implements Draws.
func (d *lockDraws) New() func([]Lock) []Lock {
	rng := d.rand()
	pick := d.picker(rng)
	return func(buf []Lock) []Lock {
		for len(buf) < d.each {
			id := uint32(d.first + pick())
			if !slices.ContainsFunc(buf, func(l Lock) bool { return l.ID == id }) {
				buf = append(buf, Lock{id, rng.Float64() >= d.shared})
			}
		}
		return merged(buf, d.coarse)
	}
}

// coarse returns the number of a coarse lock.
func (d *lockDraws) coarse(id uint32) uint32 {
	first := uint32(d.first)
	return first + (id-first)/uint32(d.merge)*uint32(d.merge)
}

// merged replaces locks by coarse ones, each once.
func merged(locks []Lock, coarse func(id uint32) uint32) []Lock {
	kept := locks[:0]
	for _, l := range locks {
		l.ID = coarse(l.ID)
		if i := slices.IndexFunc(kept, func(o Lock) bool { return o.ID == l.ID }); i >= 0 {
			kept[i].Exclusive = kept[i].Exclusive || l.Exclusive
		} else {
			kept = append(kept, l)
		}
	}
	return kept
}

// picker returns what chooses a lock, from 0.
func (d *lockDraws) picker(rng *rand.Rand) func() int {
	n := d.locks
	switch d.sets {
	case "own":
		own := (n - d.client + d.clients - 1) / d.clients
		at := d.thread * own / d.threads
		return func() int {
			at = (at + 1) % own
			return d.client + at*d.clients
		}
	case "halves":
		half := rng.Perm(n)[:n/2]
		at := 0
		return func() int {
			at = (at + 1) % len(half)
			return half[at]
		}
	case "zipf":
		sum, upto := 0.0, make([]float64, n)
		for i := range upto {
			sum += math.Pow(float64(i+1), -d.skew)
			upto[i] = sum
		}
		return func() int {
			i, _ := slices.BinarySearch(upto, rng.Float64()*sum)
			return min(i, n-1)
		}
	}
	return func() int { return rng.IntN(n) }
}
