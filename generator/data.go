package generator

// DataReport is the result of the data comparison at one side of a connection.
type DataReport struct {
	Connection int    `json:"connection"` // from 1
	Side       string `json:"side"`       // receiver of the data
	Messages   int    `json:"messages"`   // compared
	Wrong      int    `json:"wrong"`      // messages with differences
	First      string `json:"first_difference,omitempty"`
}

// AtomicResults yields the values of the remote word before and after each message of a schedule of atomics. The word
// is 0 initially. It stops at a message of another verb.
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

// AtomicWord returns the final value of the remote word if each atomic of t is executed exactly once, in order. It
// reports false if t has other verbs or no messages.
func (t Traffic) AtomicWord() (word uint64, ok bool) {
	n := 0
	for _, left := range t.AtomicResults {
		word = left
		n++
	}
	return word, n > 0 && n == t.Messages
}

// atomicOperands returns the operands of message id.
func atomicOperands(id int) WorkRequest {
	return WorkRequest{Compare: uint64(id), SwapAdd: uint64(id) + 1}
}
