package trace

import (
	"context"

	"candela.dev/candela/packet"
)

// Stats is a summary of a trace.
type Stats struct {
	Name        string            `json:"name"`
	Kind        string            `json:"kind"`
	PacketIDs   string            `json:"packet_ids"`
	Packets     int64             `json:"packets"`
	FirstID     uint64            `json:"first_id"`
	LastID      uint64            `json:"last_id"`
	DurationNS  int64             `json:"duration_ns"`
	Unknown     int64             `json:"unknown"` // packets of no connection
	Inferred    bool              `json:"inferred"`
	Connections []ConnectionStats `json:"connections"`
	Notes       []string          `json:"notes"`
}

// ConnectionStats is the summary of one connection.
type ConnectionStats struct {
	Connection Connection   `json:"connection"`
	StartNS    int64        `json:"start_ns"` // from the first packet of the trace
	EndNS      int64        `json:"end_ns"`
	Directions [2]FlowStats `json:"directions"` // requester → responder, and back
}

// FlowStats is the summary of one direction of a connection.
type FlowStats struct {
	Packets      int64 `json:"packets"`
	Data         int64 `json:"data"`
	PayloadBytes int64 `json:"payload_bytes"` // of data packets, repeats included
	Repeats      int64 `json:"repeats"`       // data packets that do not advance the highest PSN of their space
	ReadRequests int64 `json:"read_requests"`
	Acks         int64 `json:"acks"`
	Naks         int64 `json:"naks"` // of any kind but RNR
	RNRs         int64 `json:"rnrs"`
	CNPs         int64 `json:"cnps"`
	CE           int64 `json:"ce"` // marked by the injector or before it
	Dropped      int64 `json:"dropped"`
	Corrupted    int64 `json:"corrupted"` // by the injector, or with a bad iCRC
	MaxIter      int64 `json:"max_iter"`
}

// GatherStats summarises a trace in one pass.
func GatherStats(ctx context.Context, c *Checked) (*Stats, error) {
	meta := c.Meta()
	s := &Stats{
		Name: meta.Name, Kind: meta.Kind.String(), PacketIDs: meta.PacketIDs, Packets: meta.Packets,
		DurationNS:  meta.EndNS - meta.StartNS,
		Connections: make([]ConnectionStats, meta.Connections.Len()), Notes: meta.Notes,
	}
	for i, conn := range meta.Connections.All() {
		s.Connections[i].Connection = conn
		s.Inferred = meta.Connections.Inferred
	}
	iters := NewIterTracker(meta.Connections)
	high := make([]int64, 2*2*len(s.Connections))
	first := true
	err := c.ForEach(ctx, func(r *Record) error {
		if first {
			s.FirstID, first = r.ID, false
		}
		s.LastID = r.ID
		if r.Flow == NoFlow {
			s.Unknown++
			return nil
		}
		iter, rel := iters.Observe(r)
		conn := &s.Connections[r.Flow.Connection()-1]
		at := r.TimeNS - meta.StartNS
		if conn.Directions[0].Packets+conn.Directions[1].Packets == 0 {
			conn.StartNS = at
		}
		conn.EndNS = max(conn.EndNS, at)
		flow := &conn.Directions[r.Flow&1]
		if r.Has(Sent) { // of a pair, every packet counts where it was sent
			flow.add(r, iter, rel, &high[2*int(r.Flow)+int(r.Opcode.Space())])
		}
		return nil
	})
	return s, err
}

// add counts a packet that was sent; high is the highest relative PSN of its space so far.
func (f *FlowStats) add(r *Record, iter, rel int64, high *int64) {
	f.Packets++
	f.MaxIter = max(f.MaxIter, iter)
	switch r.Class() {
	case packet.ClassData:
		f.Data++
		f.PayloadBytes += int64(r.PayloadLen)
		if rel <= *high {
			f.Repeats++
		}
		*high = max(*high, rel)
	case packet.ClassReadRequest:
		f.ReadRequests++
	case packet.ClassAck, packet.ClassAtomicAck:
		f.Acks++
	case packet.ClassNak, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp:
		f.Naks++
	case packet.ClassRNR:
		f.RNRs++
	case packet.ClassCNP:
		f.CNPs++
	case packet.ClassOther:
	}
	if r.Marked() {
		f.CE++
	}
	switch {
	case r.Event == EventDrop:
		f.Dropped++
	case r.Event == EventCorrupt || r.ICRC == packet.ICRCInvalid:
		f.Corrupted++
	}
}
