package trace

// A TrimReaction says what a host does with the header of a packet whose payload a switch cut off.
type TrimReaction uint8

// Trim reactions. Unknown ones show in the trace: a host that asks for a packet that nothing but its trimmed header named reacts.
const (
	TrimReactionUnknown TrimReaction = iota
	TrimIgnored                      // dropped, as damaged packets are
	TrimAnswered                     // a request by a NAK at once, a READ response by repeating the READ request
)

// TrimReactions are those of both hosts of a test.
type TrimReactions struct {
	Requester, Responder TrimReaction
}

// Receiver returns the reaction of the host that packets on flow go to.
func (t TrimReactions) Receiver(flow FlowID) TrimReaction {
	if flow.Reverse() {
		return t.Requester
	}
	return t.Responder
}

// WithTrimReactions returns the trace with what a test says about its hosts.
func (c *Checked) WithTrimReactions(t TrimReactions) *Checked {
	other := *c
	other.meta.TrimReactions = t
	return &other
}
