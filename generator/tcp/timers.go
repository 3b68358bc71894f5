package tcp

import "candela.dev/candela/clock"

// timers is a heap of the connections whose timer is set, the earliest first. A timer that is put off, as
// retransmission timers are with every acknowledgement, stays where it is and is looked at when it is reached.
type timers []*connection

// expiry returns when the connection's earlier timer is due.
func (c *connection) expiry() clock.Time { return min(c.expires, c.ackAt) }

// set has the connection looked at when its timer is due, or before.
func (t *timers) set(c *connection) {
	at := c.expiry()
	switch {
	case at == clock.Never:
		return
	case c.place == 0:
		*t = append(*t, c)
		c.place = len(*t)
	case at >= c.due:
		return
	}
	c.due = at
	t.up(c.place - 1)
}

// next returns when a connection is to be looked at.
func (t timers) next() clock.Time {
	if len(t) == 0 {
		return clock.Never
	}
	return t[0].due
}

// pop takes the first connection out.
func (t *timers) pop() *connection {
	h := *t
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h[0].place, first.place = 1, 0
	h[last] = nil
	*t = h[:last]
	t.down()
	return first
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

func (t timers) down() {
	for i := 0; ; {
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
