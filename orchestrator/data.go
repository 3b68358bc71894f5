package orchestrator

import (
	"fmt"
	"slices"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// wrongData reports connections whose received bytes differ from the sent ones, unless a rewritten packet may have
// changed them.
func wrongData(g *generator.Report, changed []inbox) []string {
	var wrong []string
	for _, d := range g.Data {
		if d.Wrong > 0 && !slices.Contains(changed, inbox{d.Connection, d.Side}) {
			wrong = append(wrong, fmt.Sprintf("data of qpn %d at the %s: %d differences in %d messages, the first: %s",
				d.Connection, d.Side, d.Wrong, d.Messages, d.First))
		}
	}
	return wrong
}

// An inbox identifies the memory that one side of a connection receives into.
type inbox struct {
	connection int
	side       string
}

// rewritten lists the memory that rewrites may have changed. A rewritten packet has a valid iCRC, so its receiver must
// accept its fields.
func rewritten(intents []injector.Intent, hits []uint64, known *trace.Connections) []inbox {
	var list []inbox
	for i := range intents {
		in := &intents[i]
		if i >= len(hits) || hits[i] == 0 || !misleads(in) {
			continue
		}
		for _, connection := range receivers(in, known) {
			// A data request carries no acknowledgement, so it can change only its receiver's memory. Atomics are an exception:
			// their answers return the memory's contents. Any other misleading packet, such as a response that acknowledges lost
			// data, can make either memory wrong.
			to := []generator.Side{generator.Requester, generator.Responder}
			if in.Class == packet.ClassData && in.Space == packet.Requests && !hasAtomics(connection, known) {
				to = []generator.Side{receiverOf(in.Flow)}
			}
			for _, side := range to {
				list = append(list, inbox{connection, side.String()})
			}
		}
	}
	return list
}

// hasAtomics reports whether a connection uses atomics or is unknown.
func hasAtomics(connection int, known *trace.Connections) bool {
	c, ok := known.Get(trace.NewFlowID(connection, false))
	return !ok || slices.ContainsFunc(append([]string{c.Verb}, c.Verbs...), func(verb string) bool {
		return verb == generator.CompareSwap.String() || verb == generator.FetchAdd.String()
	})
}

func receiverOf(flow trace.FlowID) generator.Side {
	if flow.Reverse() {
		return generator.Requester
	}
	return generator.Responder
}

// misleads reports whether a rewrite changes what a compliant receiver writes to memory. A rewritten partition key only
// causes a loss; marks and hop limits do not affect memory.
func misleads(in *injector.Intent) bool {
	if in.Class == packet.ClassCNP {
		return false
	}
	switch field, _ := in.Action.Rewritten(); field {
	case packet.RewritePSN, packet.RewriteOpcode, packet.RewriteDestQP:
		return true
	case packet.RewriteRKey, packet.RewriteDMALength:
		return in.Space == packet.Requests
	case packet.RewriteSyndrome, packet.RewriteMSN:
		return in.Space == packet.Responses
	default:
		return false
	}
}

// receivers lists the connections whose queue pairs get the packets of an event. A queue pair whose packet was
// redirected sees a loss, which it can repair.
func receivers(in *injector.Intent, known *trace.Connections) []int {
	field, value := in.Action.Rewritten()
	if field != packet.RewriteDestQP {
		return []int{in.Flow.Connection()}
	}
	own, ok := known.Get(in.Flow)
	if !ok {
		return nil
	}
	var list []int
	to := endOf(own, receiverOf(in.Flow))
	for _, c := range known.All() {
		if end := endOf(&c, receiverOf(in.Flow)); end.IP == to.IP && uint64(end.QPN) == value {
			list = append(list, c.Index)
		}
	}
	return list
}

func endOf(c *trace.Connection, side generator.Side) trace.Side {
	if side == generator.Requester {
		return c.Requester
	}
	return c.Responder
}
