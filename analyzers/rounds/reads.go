package rounds

// read is an outstanding READ or atomic request. Responses [first, end) are due; next is the first that was not
// delivered.
type read struct {
	next, end int64
}

// readQueue holds outstanding reads in request order. RC allows few (at most 255 in CM's 8-bit fields); beyond that the
// oldest is dropped.
type readQueue struct {
	list []read
	head int
}

const maxReads = 1024

func (q *readQueue) push(r read) {
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	if len(q.list)-q.head >= maxReads {
		q.head++
	}
	if q.head >= maxReads {
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
	q.list = append(q.list, r)
}

// first returns the oldest outstanding read, nil if there is none.
func (q *readQueue) first() *read {
	if q.head == len(q.list) {
		return nil
	}
	return &q.list[q.head]
}

// limit returns acked, but at most the first response that is due: nothing acknowledges past it.
func (q *readQueue) limit(acked int64) int64 {
	if r := q.first(); r != nil {
		return min(acked, r.next)
	}
	return acked
}

// deliver removes a response for place from the queue if it is the next one due.
func (q *readQueue) deliver(place int64) bool {
	r := q.first()
	if r == nil || place != r.next {
		return false
	}
	r.next++
	if r.next >= r.end {
		q.head++
	}
	return true
}
