package trace

import (
	"context"
	"slices"

	"candela.dev/candela/packet"
)

// keptInvalidations is how many invalidated keys of a flow are kept: the application counts in the low eight bits of a
// key, so that older keys may be in use again.
const keptInvalidations = 255

// invalidation is the last packet of a SEND with invalidate.
type invalidation struct {
	psn packet.PSN
	key uint32
}

// WithInvalidations returns the trace of a test whose hosts register memory that a SEND has invalidated under a new
// key: a request with an invalidated key gets the flag ForeignRKey. In other traces a key may be reused, so this is
// unknown.
//
// A responder executes requests in the order of their PSNs. So a request is refused if its PSN is after that of the
// SEND, whenever it passed the observer; a repeated READ before the SEND is not.
func (c *Checked) WithInvalidations() *Checked {
	other := Checked{meta: c.meta, payloads: c.payloads}
	other.stream = func(ctx context.Context, fn func(*Record) error) error {
		flows := make([][]invalidation, 2*c.meta.Connections.Len())
		return c.stream(ctx, func(r *Record) error {
			if r.RKey != 0 && r.Flow >= 0 && int(r.Flow) < len(flows) {
				r.invalidated(&flows[r.Flow])
			}
			return fn(r)
		})
	}
	return &other
}

// invalidated records a SEND with invalidate, and marks a later request with its key.
func (r *Record) invalidated(known *[]invalidation) {
	if r.Opcode.Headers()&packet.HasIETH == 0 {
		if slices.ContainsFunc(*known, func(i invalidation) bool { return i.key == r.RKey && i.psn.Before(r.PSN) }) {
			r.Flags |= ForeignRKey
		}
		return
	}
	this := invalidation{r.PSN, r.RKey}
	if !r.Delivered() || slices.Contains(*known, this) {
		return
	}
	if len(*known) == keptInvalidations {
		*known = slices.Delete(*known, 0, 1)
	}
	*known = append(*known, this)
}
