package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Situations that a census counts, besides the packets of each opcode, whose key is the opcode's name.
const (
	seenPadded       = "padded packet"
	seenWrap         = "PSN wrap"
	seenMarked       = "delivered data packet with CE"
	seenBadICRC      = "packet that arrives with a wrong iCRC"
	seenICRC         = "packet whose iCRC was checked"
	seenMarkedICRC   = "marked packet whose iCRC was checked"
	seenAckRequest   = "request that asks for an acknowledgement"
	seenNoAckRequest = "request that asks for no acknowledgement"
	seenCoalesced    = "ACK of several messages"
	seenSilence      = "silence of 500 us"
	seenEmpty        = "request without payload"
	seenLostMark     = "CNP that was lost"
	seenSolicited    = "request for a solicited event"
	seenReverse      = "request of the responder"
	seenOther        = "request on another connection"
)

// silence is how long nothing must pass to count as a silence.
const silenceNS = 500_000

// census counts what passed the injector in one run.
type census struct {
	counts map[string]int64
	lastNS int64
	psn    map[trace.FlowID]packet.PSN // of the last data packet
	msn    map[trace.FlowID]uint32     // of the last ACK
}

// takeCensus reads the trace in a run directory.
func takeCensus(ctx context.Context, dir string) (counts map[string]int64, err error) {
	file, err := os.Open(filepath.Join(dir, "connections.json"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	known, err := trace.ReadConnections(file)
	if err != nil {
		return nil, err
	}
	checked, _, err := trace.Check(ctx, trace.FileSource(filepath.Join(dir, "trace.pcap")), trace.Options{
		Format: trace.FormatMirror, Connections: known,
	})
	if err != nil {
		return nil, err
	}
	c := census{counts: map[string]int64{}, psn: map[trace.FlowID]packet.PSN{}, msn: map[trace.FlowID]uint32{}}
	err = checked.ForEach(ctx, func(r *trace.Record) error {
		c.count(r)
		return nil
	})
	return c.counts, err
}

func (c *census) count(r *trace.Record) {
	c.counts[r.Opcode.String()]++
	c.when(r.PadCount > 0, seenPadded)
	c.when(r.ICRC != packet.ICRCNotCheckable, seenICRC)
	c.when(r.Event == trace.EventCorrupt, seenBadICRC)
	c.when(r.Marked() && r.Delivered() && r.Opcode.IsData(), seenMarked)
	c.when(r.Marked() && r.ICRC != packet.ICRCNotCheckable, seenMarkedICRC)
	c.when(r.Opcode == packet.CNP && !r.Delivered(), seenLostMark)
	c.when(c.lastNS != 0 && r.TimeNS-c.lastNS >= silenceNS, seenSilence)
	c.lastNS = r.TimeNS
	if r.Opcode.IsRequest() {
		c.request(r)
	}
	if r.Opcode.IsData() {
		last, ok := c.psn[r.Flow]
		c.when(ok && last != r.PSN && r.PSN < last && last.Before(r.PSN), seenWrap)
		c.psn[r.Flow] = r.PSN
	}
	if r.Opcode == packet.Acknowledge && r.Class() == packet.ClassAck {
		c.when(r.MSN > c.msn[r.Flow]+1, seenCoalesced)
		c.msn[r.Flow] = max(c.msn[r.Flow], r.MSN)
	}
}

func (c *census) request(r *trace.Record) {
	c.when(r.Has(trace.AckReq), seenAckRequest)
	c.when(!r.Has(trace.AckReq), seenNoAckRequest)
	c.when(r.PayloadLen == 0 && r.DMALen == 0, seenEmpty)
	c.when(r.Has(trace.Solicited), seenSolicited)
	c.when(r.Flow.Reverse(), seenReverse)
	c.when(r.Flow.Connection() > 1, seenOther)
}

func (c *census) when(happened bool, what string) {
	if happened {
		c.counts[what]++
	}
}
