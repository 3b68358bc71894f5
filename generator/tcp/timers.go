package tcp

import "candela.dev/candela/clock"

// timers is a heap of the connections with a running timer, earliest first. Postponing a timer, as every ACK does, does
// not move its entry: the entry is re-checked when it is due.
type timers []entry

// entry is a connection and when it is due, not later than its timers.
type entry struct {
	due clock.Time
	*connection
}

// expiry returns the earliest expiry of the connection's timers.
func (c *connection) expiry() clock.Time { return min(c.expires, c.ackAt, c.paced) }

// set ensures that the connection is popped no later than its timer expires.
func (t *timers) set(c *connection) {
	at := c.expiry()
	switch {
	case at == clock.Never:
		return
	case c.place == 0:
		*t = append(*t, entry{at, c})
		c.place = len(*t)
	case at >= (*t)[c.place-1].due:
		return
	}
	(*t)[c.place-1].due = at
	t.up(c.place - 1)
}

// next returns when the first connection is to be popped.
func (t timers) next() clock.Time {
	if len(t) == 0 {
		return clock.Never
	}
	return t[0].due
}

// pop removes the first connection.
func (t *timers) pop() *connection {
	h := *t
	first, last := h[0].connection, len(h)-1
	h[0] = h[last]
	h[0].place, first.place = 1, 0
	h[last] = entry{}
	*t = h[:last]
	t.down(0)
	return first
}

// remove removes a connection.
func (t *timers) remove(c *connection) {
	h := *t
	at, last := c.place-1, len(h)-1
	c.place = 0
	if at < last {
		h[at] = h[last]
		h[at].place = at + 1
	}
	h[last] = entry{}
	*t = h[:last]
	if at < last {
		t.up(at)
		t.down(at)
	}
}

func (t timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t[parent].due <= t[i].due {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t timers) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t); child++ {
			if t[child].due < t[least].due {
				least = child
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

func (t timers) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i+1, j+1
}
