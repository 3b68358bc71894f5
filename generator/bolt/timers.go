package bolt

import "container/heap"

// timers has the senders that wait for an instant, the earliest first.
type timers []*sender

// Len implements heap.Interface.
func (t timers) Len() int { return len(t) }

// Less implements heap.Interface.
func (t timers) Less(i, j int) bool {
	return t[i].due < t[j].due || t[i].due == t[j].due && t[i].connection < t[j].connection
}

// Swap implements heap.Interface.
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	s := x.(*sender)
	s.place = len(*t)
	*t = append(*t, s)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := len(*t) - 1
	s := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	s.place = -1
	return s
}

// put adds s or moves it to where its time belongs.
func (t *timers) put(s *sender) {
	if s.place < 0 {
		heap.Push(t, s)
	} else {
		heap.Fix(t, s.place)
	}
}

// remove removes s if it is there.
func (t *timers) remove(s *sender) {
	if s.place >= 0 {
		heap.Remove(t, s.place)
	}
}
