package generator

import (
	"errors"
	"fmt"

	"candela.dev/candela/clock"
)

// Side is one of the two ends of a connection.
type Side uint8

// Sides. The requester sends requests to the responder; with bidirectional traffic both sides send them.
const (
	Requester Side = iota
	Responder
)

// String names the side.
func (s Side) String() string {
	if s == Requester {
		return "requester"
	}
	return "responder"
}

// Peer returns the other side.
func (s Side) Peer() Side { return s ^ 1 }

// End is one side of a connection: its queue pair, and the memory that the peer may access. QP is nil if the side is on
// another machine, which has its own Workload.
type End struct {
	QP     QueuePair
	Region Region
}

// Ends are both sides of a connection, indexed by Side.
type Ends [2]End

// WorkloadConfig describes the traffic.
type WorkloadConfig struct {
	Traffic
	Bidirectional bool // both sides are requesters
	// TrafficOf, if set, replaces Traffic and Bidirectional. It returns the traffic that side posts on a connection,
	// counted from 0; no messages if it posts none.
	TrafficOf func(connection int, side Side) Traffic
	// BarrierSync starts the next round, TxDepth messages per stream, only after all queue pairs have completed the
	// current one.
	BarrierSync bool
	// ReceiveDepth is the number of posted receive requests at a side that receives SENDs or immediates; 0 means 50.
	ReceiveDepth int
	// RepostDelay is the time until the application reposts a consumed receive request.
	RepostDelay clock.Duration
}

const defaultReceiveDepth = 50

// traffic returns the traffic that side posts on a connection.
func (c *WorkloadConfig) traffic(connection int, side Side) Traffic {
	if c.TrafficOf != nil {
		return c.TrafficOf(connection, side)
	}
	t := c.Traffic
	if side == Responder && !c.Bidirectional {
		t.Messages = 0
	}
	return t
}

// validate reports all errors of t.
func (t *Traffic) validate() error {
	var errs []error
	if len(t.Verbs) == 0 {
		errs = append(errs, errors.New("no verb"))
	}
	if t.Messages < 1 {
		errs = append(errs, fmt.Errorf("%d messages per queue pair are not at least 1", t.Messages))
	}
	if t.MessageSize < 0 {
		errs = append(errs, fmt.Errorf("message size %d is negative", t.MessageSize))
	}
	if t.TxDepth < 1 {
		errs = append(errs, fmt.Errorf("tx-depth %d is not at least 1", t.TxDepth))
	}
	return errors.Join(errs...)
}

// A Workload is the application at the ends of all connections, or at those on this machine. It posts the messages of a
// schedule and measures their completion times. It performs no I/O: the caller calls Start once and Completion for
// every completion.
type Workload struct {
	cfg     WorkloadConfig
	streams []*stream    // connection by connection, requester before responder
	byEnd   [][2]*stream // streams by connection and side; nil where nothing is posted
	round   int          // rounds that may be posted so far, if BarrierSync
	reposts []repost     // receive requests waiting for RepostDelay, oldest first
}

// stream is one direction of requests of one connection.
type stream struct {
	traffic    Traffic
	connection int // from 0
	side       Side
	from, to   End
	posted     int // messages
	completed  int // messages, successful or not
	receives   int // receive requests posted at the other side
	reposting  int // receive requests waiting for RepostDelay
	consumers  int // messages of the schedule that consume a receive request
	turns      int // SENDs with invalidate posted, each of which turns the remote key
	failed     bool
	messages   []MessageResult
}

// NewWorkload returns the application for connections.
func NewWorkload(cfg WorkloadConfig, connections []Ends) (*Workload, error) {
	if cfg.ReceiveDepth == 0 {
		cfg.ReceiveDepth = defaultReceiveDepth
	}
	if cfg.ReceiveDepth < 0 {
		return nil, fmt.Errorf("workload: receive depth %d is negative", cfg.ReceiveDepth)
	}
	w := &Workload{cfg: cfg, byEnd: make([][2]*stream, len(connections))}
	for i, ends := range connections {
		for _, side := range []Side{Requester, Responder} {
			traffic := cfg.traffic(i, side)
			if side == Responder && traffic.Messages == 0 {
				continue
			}
			if err := traffic.validate(); err != nil {
				return nil, fmt.Errorf("workload: %s of connection %d: %w", side, i+1, err)
			}
			s := newStream(traffic, i, side, ends)
			w.streams = append(w.streams, s)
			w.byEnd[i][side] = s
		}
	}
	return w, nil
}

func newStream(t Traffic, connection int, side Side, ends Ends) *stream {
	s := &stream{traffic: t, connection: connection, side: side, from: ends[side], to: ends[side.Peer()]}
	s.messages = make([]MessageResult, 0, t.Messages)
	for m := range t.Schedule {
		s.messages = append(s.messages, MessageResult{Verb: m.Verb, Length: m.Length})
		if m.Verb.ConsumesReceive() {
			s.consumers++
		}
	}
	return s
}

// Start posts the first receive requests and messages.
func (w *Workload) Start(now clock.Time) error {
	for _, s := range w.streams {
		if s.to.QP == nil {
			continue
		}
		for range min(w.cfg.ReceiveDepth, s.consumers) {
			if err := w.postReceive(now, s); err != nil {
				return err
			}
		}
	}
	w.round = 1
	return w.postAll(now)
}

// Completion takes a completion that the endpoint at side reported for a connection, counted from 0. It then posts the
// next requests.
func (w *Workload) Completion(now clock.Time, connection int, side Side, c Completion) error {
	if c.Receive {
		s, err := w.stream(connection, side.Peer())
		if err != nil || c.Status != Success || s.receives+s.reposting >= s.consumers {
			return err
		}
		return w.received(now, s)
	}
	s, err := w.stream(connection, side)
	if err != nil {
		return err
	}
	if c.ID >= uint64(s.posted) || s.messages[c.ID].Status != StatusNone {
		return fmt.Errorf("workload: connection %d, %s: completion of message %d, which is not outstanding", connection+1,
			side, c.ID)
	}
	m := &s.messages[c.ID]
	m.Completed, m.Status = now, c.Status
	s.completed++
	s.failed = s.failed || c.Status != Success
	if w.cfg.BarrierSync {
		return w.barrier(now)
	}
	return w.post(now, s)
}

func (w *Workload) stream(connection int, side Side) (*stream, error) {
	if connection < 0 || connection >= len(w.byEnd) || w.byEnd[connection][side] == nil {
		return nil, fmt.Errorf("workload: completion for the %s of connection %d of %d, which posts nothing", side,
			connection+1, len(w.byEnd))
	}
	return w.byEnd[connection][side], nil
}

// barrier starts the next round if all streams have completed the current one. A failed stream has no outstanding
// messages.
func (w *Workload) barrier(now clock.Time) error {
	for _, s := range w.streams {
		if s.completed < s.posted { // streams of another machine post nothing here
			return nil
		}
	}
	w.round++
	return w.postAll(now)
}

func (w *Workload) postAll(now clock.Time) error {
	for _, s := range w.streams {
		if err := w.post(now, s); err != nil {
			return err
		}
	}
	return nil
}

// post posts as many messages of s as tx-depth and barrier allow.
func (w *Workload) post(now clock.Time, s *stream) error {
	if s.from.QP == nil {
		return nil
	}
	limit := len(s.messages)
	if w.cfg.BarrierSync {
		limit = min(limit, w.round*s.traffic.TxDepth)
	}
	for !s.failed && s.posted < limit && s.posted-s.completed < s.traffic.TxDepth {
		m := &s.messages[s.posted]
		m.Posted = now
		id := s.posted
		s.posted++
		if err := s.from.QP.PostSend(now, s.request(id, m)); err != nil {
			return fmt.Errorf("workload: connection %d, %s, message %d: %w", s.connection+1, s.side, id+1, err)
		}
	}
	return nil
}

// request returns the work request of the next message. All messages of a stream use the same remote memory.
func (s *stream) request(id int, m *MessageResult) WorkRequest {
	wr := atomicOperands(id)
	wr.ID, wr.Verb, wr.Length, wr.Imm = uint64(id), m.Verb, m.Length, uint32(id)
	wr.RemoteAddr, wr.RKey = s.to.Region.Base, TurnedRKey(s.to.Region.RKey, s.turns)
	if wr.Verb == SendInvalidate {
		wr.Invalidate = wr.RKey
		s.turns++
	}
	if s.traffic.StaleRKey {
		wr.RKey = s.to.Region.RKey
	}
	return wr
}

func (w *Workload) postReceive(now clock.Time, s *stream) error {
	rr := ReceiveRequest{ID: uint64(s.receives), Length: s.traffic.MessageSize}
	s.receives++
	if err := s.to.QP.PostRecv(now, rr); err != nil {
		return fmt.Errorf("workload: connection %d: %w", s.connection+1, err)
	}
	return nil
}

// Done reports whether all posted messages are complete and no more will be posted.
func (w *Workload) Done() bool {
	for _, s := range w.streams {
		if s.from.QP != nil && (s.completed < s.posted || !s.failed && s.posted < len(s.messages)) {
			return false
		}
	}
	return true
}
