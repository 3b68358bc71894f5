package netlock

import (
	"math/rand/v2"

	"candela.dev/candela/clock"
)

// line is the way between a host's NIC and its client or lock server: first in, first out, with a delay.
type line struct {
	delay, jitter clock.Duration
	rand          *rand.Rand
	last          clock.Time // when the latest gets there
	list          []message
	head          int
}

func (l *line) len() int { return len(l.list) - l.head }

// due returns when the first arrives.
func (l *line) due() clock.Time {
	if l.len() == 0 {
		return clock.Never
	}
	return l.list[l.head].at
}

func (l *line) push(now clock.Time, m message) {
	m.at = l.time(now)
	*l.add(m.at) = m
}

// time returns when what enters now gets to the other end.
func (l *line) time(now clock.Time) clock.Time {
	at := now.Add(l.delay)
	if l.jitter > 0 {
		at = at.Add(clock.Duration(l.rand.Int64N(int64(l.jitter) + 1)))
	}
	l.last = max(l.last, at)
	return l.last
}

// add returns the place of a message that arrives no earlier than those before it.
func (l *line) add(at clock.Time) *message {
	n := len(l.list)
	if n == cap(l.list) {
		if l.head > n/2 {
			l.list, l.head = l.list[:copy(l.list, l.list[l.head:])], 0
			n = len(l.list)
		} else {
			l.list = append(l.list, message{})[:n]
		}
	}
	l.list = l.list[:n+1]
	m := &l.list[n]
	m.at = at
	return m
}

// pop removes the first message. It is valid until the next is added.
func (l *line) pop() *message {
	m := &l.list[l.head]
	if l.head++; l.head == len(l.list) {
		l.list, l.head = l.list[:0], 0
	}
	return m
}
