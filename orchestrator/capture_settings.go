package orchestrator

import (
	"cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/rp"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// captureAnalyzers returns the analyzers of a capture. Settings of a connection come from a document or the connection
// manager, else from given.
func captureAnalyzers(meta trace.Meta, given *trace.Settings) []analyzers.Analyzer {
	limits, params, carried := map[int]gbn.Limits{}, map[int]retrans.Params{}, map[int]fields.Settings{}
	for _, c := range meta.Connections.All() {
		s := trace.Settings{
			Timeout: cmp.Or(c.Timeout, given.Timeout), Retry: cmp.Or(c.Retry, given.Retry),
			RNRRetry: cmp.Or(c.RNRRetry, given.RNRRetry),
		}
		carried[c.Index] = fieldSettings(&c.Settings)
		var l gbn.Limits
		if s.Timeout != nil && *s.Timeout > 0 {
			l.TimeoutNS = plan.AckTimeout(*s.Timeout).Nanoseconds()
		}
		if s.Retry != nil {
			l.Retry = gbn.AtMost(*s.Retry)
		}
		if s.RNRRetry != nil {
			l.RNRRetry = gbn.AtMost(*s.RNRRetry)
		}
		limits[c.Index] = l
		if s.Timeout != nil && s.Retry != nil && s.RNRRetry != nil {
			params[c.Index] = retrans.Params{
				Known: true, TimeoutExponent: uint8(*s.Timeout), RetryCount: uint8(*s.Retry), RNRRetry: uint8(*s.RNRRetry),
			}
		}
	}
	return []analyzers.Analyzer{
		gbn.New(meta, gbn.Config{Connections: limits}), retrans.New(meta, retrans.Config{Connections: params}),
		cnp.New(meta, cnp.Config{}), rp.New(meta, rp.Config{}), fields.New(meta, fields.Config{Connections: carried}),
	}
}

// fieldSettings returns the header fields of a connection's packets.
func fieldSettings(s *trace.Settings) fields.Settings {
	octet := func(n *int) *uint8 {
		if n == nil {
			return nil
		}
		b := uint8(*n)
		return &b
	}
	known := fields.Settings{DSCP: octet(s.DSCP), CNPDSCP: octet(s.CNPDSCP)}
	if s.ECN != nil {
		ecn := packet.ECN(*s.ECN)
		known.ECN = &ecn
	}
	if s.MigReq != nil {
		set := *s.MigReq == 1
		known.MigReq, known.Origin = &set, "mig_req of the connection"
	}
	return known
}
