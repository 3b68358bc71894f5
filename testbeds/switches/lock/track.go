package lock

// tracker counts what locks are asked for that are not installed: each packet passes the switch. It has few counters; a
// lock that has none gets one after a period in which another was not asked for.
type tracker struct {
	most  int
	locks map[uint32]int // index into counters
	list  []counter
}

type counter struct {
	lock                        uint32
	requests, outstanding, most int
}

func newTracker(most int) tracker {
	if most <= 0 {
		return tracker{}
	}
	return tracker{most: most, locks: make(map[uint32]int)}
}

func (t *tracker) len() int { return len(t.list) }

// acquire counts a request. What is asked for again, as its grant or it was lost, counts twice until the period ends.
func (t *tracker) acquire(lock uint32) {
	if t.most == 0 {
		return
	}
	i, ok := t.locks[lock]
	if !ok {
		if len(t.list) == t.most {
			return
		}
		i = len(t.list)
		t.locks[lock] = i
		t.list = append(t.list, counter{lock: lock})
	}
	c := &t.list[i]
	c.requests++
	c.outstanding++
	c.most = max(c.most, c.outstanding)
}

// release counts the end of a use.
func (t *tracker) release(lock uint32) {
	if i, ok := t.locks[lock]; ok {
		c := &t.list[i]
		c.outstanding = max(0, c.outstanding-1)
	}
}

// demands appends what was asked for, and begins the next period. Requests from before the period, which is longer than
// a lease, have ended, whether or not their releases came.
func (t *tracker) demands(list []Demand) []Demand {
	kept := t.list[:0]
	for _, c := range t.list {
		if c.requests == 0 {
			delete(t.locks, c.lock)
			continue
		}
		list = append(list, Demand{c.lock, float64(c.requests), c.most})
		c.outstanding = min(c.outstanding, c.requests)
		c.requests, c.most = 0, c.outstanding
		t.locks[c.lock] = len(kept)
		kept = append(kept, c)
	}
	t.list = kept
	return list
}

// take returns the counters of a lock that is now installed, without the requests that others count.
func (t *tracker) take(lock uint32) (requests, most int) {
	if i, ok := t.locks[lock]; ok {
		c := &t.list[i]
		requests, most = c.requests, c.most
		c.requests, c.outstanding, c.most = 0, 0, 0
	}
	return requests, most
}

// put counts for a lock that is not installed any more what the switch counted until now.
func (t *tracker) put(l *entry) {
	if l.requests == 0 {
		return
	}
	t.acquire(l.id)
	if i, ok := t.locks[l.id]; ok {
		c := &t.list[i]
		c.requests += l.requests - 1
		c.outstanding, c.most = 0, max(c.most, l.most)
	}
}
