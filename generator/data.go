package generator

// DataReport says whether what arrived at one side of a connection is what was sent.
type DataReport struct {
	Connection int    `json:"connection"` // from 1
	Side       string `json:"side"`       // where the data arrived
	Messages   int    `json:"messages"`   // compared
	Wrong      int    `json:"wrong"`      // of those that differ
	First      string `json:"first_difference,omitempty"`
}

// AtomicResults yields, for a schedule of atomics alone, what each message finds in the remote word, which is 0 before
// the first, and what it leaves there. It ends at a message of another verb.
func (t Traffic) AtomicResults(yield func(found, left uint64) bool) {
	word := uint64(0)
	for m := range t.Schedule {
		found := word
		wr := atomicOperands(m.Index)
		switch m.Verb {
		case FetchAdd:
			word += wr.SwapAdd
		case CompareSwap:
			if word == wr.Compare {
				word = wr.SwapAdd
			}
		case VerbNone, Write, WriteImm, Send, SendImm, SendInvalidate, Read:
			return
		}
		if !yield(found, word) {
			return
		}
	}
}

// AtomicWord is what the atomics of t leave in the remote word if each is executed exactly once, in order. It reports
// false if t has anything else but atomics.
func (t Traffic) AtomicWord() (word uint64, ok bool) {
	n := 0
	for _, left := range t.AtomicResults {
		word = left
		n++
	}
	return word, n > 0 && n == t.Messages
}

// atomicOperands are the operands of message id.
func atomicOperands(id int) WorkRequest {
	return WorkRequest{Compare: uint64(id), SwapAdd: uint64(id) + 1}
}
