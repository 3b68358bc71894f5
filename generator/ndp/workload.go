package ndp

import (
	"math/rand/v2"

	"candela.dev/candela/clock"
)

// Transfer is a flow of a workload with its sender.
type Transfer struct {
	From Endpoint
	Flow
}

// Incast returns a transfer from each sender i to receiver i modulo the number of receivers, all with one start.
func Incast(senders, receivers []Endpoint, bytes uint64, start clock.Time) []Transfer {
	list := make([]Transfer, len(senders))
	for i, from := range senders {
		list[i] = Transfer{from, Flow{To: receivers[i%len(receivers)], Bytes: bytes, Start: start}}
	}
	return list
}

// Permutation returns a transfer from every host to one other host, so that every host also receives from one: a random
// cycle through all hosts, drawn by seed.
func Permutation(hosts []Endpoint, bytes uint64, start clock.Time, seed uint64) []Transfer {
	order := append([]Endpoint(nil), hosts...)
	rng := rand.New(rand.NewPCG(seed, uint64(len(hosts))))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	next := make(map[Endpoint]Endpoint, len(order))
	for i, from := range order {
		next[from] = order[(i+1)%len(order)]
	}
	list := make([]Transfer, len(hosts))
	for i, from := range hosts {
		list[i] = Transfer{from, Flow{To: next[from], Bytes: bytes, Start: start}}
	}
	return list
}
