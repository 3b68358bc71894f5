package analyzers

import (
	"unsafe"

	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/prefetch"
	"candela.dev/candela/trace"
)

// A Follower is an analyzer that uses the steps of package rounds. Run has one tracker for all of them.
type Follower interface {
	Analyzer
	// Share replaces the analyzer's own tracker by t, which its caller feeds from the first record on. From then on Follow
	// is called, not Packet.
	Share(t *rounds.Tracker)
	// Follow observes r and the step that the tracker made of it, nil for packets outside every stream of requests. Both
	// are valid during the call only.
	Follow(r *trace.Record, step *rounds.Step)
}

// A Splitter is an analyzer that judges each connection by its own packets alone. Several parts of it can share the
// connections.
type Splitter interface {
	Analyzer
	// Split returns n parts, of which the analyzer itself is the first.
	Split(n int) []Part
	// Join takes over what the parts that Split returned have found. Finish comes after it.
	Join(parts []Part)
}

// A Part judges some connections of a trace. Packet is called for the records of each of its connections in trace
// order; records of no known connection count as one connection.
type Part interface {
	Analyzer
	// Begin receives the first record of the trace before all others, whichever part it belongs to.
	Begin(first *trace.Record)
	// Elsewhere receives the records of other parts, in trace order with Packet's calls, in batches with a packet that the
	// injector rewrote: such a packet may have left for another connection.
	Elsewhere(r *trace.Record)
	// Prepare loads the state of a connection, of which r is a record, into the cache: Packet will soon be called for its
	// records. It is called twice: first for what is found without a look-up, then for what that refers to.
	Prepare(r *trace.Record, found bool)
}

// crew is the order in which the analyzers of a run are fed.
type crew struct {
	ordered   []Analyzer // that want every record in trace order
	followers []Follower // as do these, with what the tracker makes of it
	tracker   *rounds.Tracker
	splitters []Splitter
	parts     [][]Part // of each splitter
}

func newCrew(meta trace.Meta, all []Analyzer, workers int) *crew {
	c := &crew{}
	for _, a := range all {
		switch a := a.(type) {
		case Follower:
			if c.tracker == nil {
				c.tracker = rounds.New(meta)
			}
			a.Share(c.tracker)
			c.followers = append(c.followers, a)
		case Splitter:
			c.splitters = append(c.splitters, a)
			c.parts = append(c.parts, a.Split(workers))
		default:
			c.ordered = append(c.ordered, a)
		}
	}
	return c
}

// begin passes the first record to the parts.
func (c *crew) begin(first *trace.Record) {
	for _, parts := range c.parts {
		for _, p := range parts {
			p.Begin(first)
		}
	}
}

// join ends a pass.
func (c *crew) join() {
	for i, s := range c.splitters {
		s.Join(c.parts[i])
	}
}

// inCache is how many records one analyzer gets before the next one does: they and the analyzer's state stay in the
// cache.
const inCache = 256

// order feeds b to the analyzers that want trace order.
func (c *crew) order(b *batch) {
	for records := b.records[:b.n]; len(records) > 0; {
		n := min(inCache, len(records))
		for _, a := range c.ordered {
			for i := range records[:n] {
				a.Packet(&records[i])
			}
		}
		records = records[n:]
	}
}

// follow feeds b to the followers together: their states are smaller than the tracker's.
func (c *crew) follow(b *batch) {
	if c.tracker == nil {
		return
	}
	for i := range b.records[:b.n] {
		r := &b.records[i]
		step := c.tracker.Packet(r)
		for _, f := range c.followers {
			f.Follow(r, step)
		}
	}
}

// part feeds b to part k of n of every splitter.
func (c *crew) part(b *batch, k, n int) {
	for _, parts := range c.parts {
		if b.rewritten {
			b.inOrder(parts[k], k, n)
			continue
		}
		for shelf := k; shelf < shelves; shelf += n {
			b.announce(parts[k], shelf+2*n, false)
			b.announce(parts[k], shelf+n, true)
			b.take(parts[k], b.places[b.shelf(shelf):b.shelf(shelf+1)])
		}
	}
}

const (
	// batchLen is how many records are sorted by connection at a time. With 64 connections, the state of each is then
	// fetched into the first-level cache once for a hundred packets.
	batchLen = 8192
	// shelves are sets of connections. Those of one shelf stay in trace order.
	shelves = 256
)

// batch is a run of records of a trace, and their places by connection.
type batch struct {
	records   [batchLen]trace.Record
	n         int
	shelfs    [batchLen]uint8 // of the records
	places    [batchLen]uint16
	ends      [shelves]uint16 // in places, by shelf
	rewritten bool            // the injector rewrote one of the packets
	users     int32           // that have not finished with it yet
}

// shelfOf returns the shelf of a connection.
func shelfOf(r *trace.Record) int { return r.Flow.Connection() % shelves }

// shelf returns where the places of a shelf begin.
func (b *batch) shelf(i int) int {
	if i == 0 {
		return 0
	}
	return int(b.ends[i-1])
}

// announce prepares a part for the first connection of a shelf.
func (b *batch) announce(p Part, shelf int, found bool) {
	if shelf < shelves && b.shelf(shelf) < b.shelf(shelf+1) {
		p.Prepare(&b.records[b.places[b.shelf(shelf)]], found)
	}
}

// fetched is how many records are prefetched. Those of one connection are too far apart for the processor's prefetcher,
// and another goroutine may have them in its cache.
const fetched = 8

// take gives a part the records at some places.
func (b *batch) take(p Part, places []uint16) {
	var lines [2 * fetched]uintptr
	for i, at := range places {
		if i%fetched == 0 {
			list := prefetch.Lines(lines[:0])
			for _, next := range places[min(i+fetched, len(places)):min(i+2*fetched, len(places))] {
				list = list.AndTwo(unsafe.Pointer(&b.records[next]))
			}
			list.Fetch()
		}
		p.Packet(&b.records[at])
	}
}

// sort marks the records by the partitions known so far and fills places, by counting.
func (b *batch) sort(partitions *trace.Partitions) {
	var counts [shelves]uint16
	b.rewritten = false
	for i := range b.records[:b.n] {
		r := &b.records[i]
		if !partitions.Usual(r) {
			partitions.Mark(r)
		}
		shelf := uint8(shelfOf(r))
		b.shelfs[i] = shelf
		counts[shelf]++
		b.rewritten = b.rewritten || r.Event.Forges()
	}
	var next [shelves]uint16
	sum := uint16(0)
	for i, n := range counts {
		next[i] = sum
		sum += n
		b.ends[i] = sum
	}
	for i, shelf := range b.shelfs[:b.n] {
		at := next[shelf]
		next[shelf] = at + 1
		b.places[at&(batchLen-1)] = uint16(i)
	}
}

// inOrder feeds all records to a part in trace order, its own and those of other parts.
func (b *batch) inOrder(p Part, k, n int) {
	for i := range b.records[:b.n] {
		if r := &b.records[i]; shelfOf(r)%n == k {
			p.Packet(r)
		} else {
			p.Elsewhere(r)
		}
	}
}
