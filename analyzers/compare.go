package analyzers

import (
	"context"

	"candela.dev/candela/trace"
)

// A Comparer is an analyzer that compares the payloads of a few packets. Hashing all payloads would cost more than
// reading the rest of the trace: a separate pass before Finish reads the ones that it wants.
type Comparer interface {
	Analyzer
	// Compare returns the packets, at the end of the trace.
	Compare() []trace.Sighting
	// Compared is given the payloads in that order.
	Compared(payloads []trace.Payload)
}

// compare gives all comparers the payloads that they want.
func compare(ctx context.Context, c *trace.Checked, all []Analyzer) error {
	for _, a := range all {
		comparer, ok := a.(Comparer)
		if !ok {
			continue
		}
		payloads, err := c.Payloads(ctx, comparer.Compare())
		if err != nil {
			return err
		}
		comparer.Compared(payloads)
	}
	return nil
}
