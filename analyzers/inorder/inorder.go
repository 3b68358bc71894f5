// Package inorder keeps what happens at a switch until it can be judged in its order: what becomes of a packet, and
// where it waits, shows only when it leaves or is dropped, and until then nothing behind it can be judged.
package inorder

// Most is how many entries a log may keep: a packet may wait for as long as it likes, behind queues that are served
// first, and keeps all that comes after it.
const Most = 1 << 18

// few is how many judged entries are not worth moving the others.
const few = 1024

// Log keeps entries in the order in which they are added. The zero value is an empty one.
type Log[E any] struct {
	entries []E
	done    int
}

// Add adds an entry behind all others.
func (l *Log[E]) Add(e E) { l.entries = append(l.entries, e) }

// Waiting returns the entries that are kept, first things first, until Add or Next changes them.
func (l *Log[E]) Waiting() []E { return l.entries[l.done:] }

// First returns the first entry; false: none is kept.
func (l *Log[E]) First() (e E, ok bool) {
	if l.done == len(l.entries) {
		return e, false
	}
	return l.entries[l.done], true
}

// Next forgets the first entry.
func (l *Log[E]) Next() {
	var none E
	l.entries[l.done] = none // what it points to can go
	l.done++
	if l.done > few && 2*l.done > len(l.entries) {
		l.entries = l.entries[:copy(l.entries, l.entries[l.done:])]
		l.done = 0
	}
}

// Full reports whether more than Most entries are kept.
func (l *Log[E]) Full() bool { return len(l.entries)-l.done > Most }
