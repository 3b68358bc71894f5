package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"candela.dev/candela/packet"
)

// Side is one end of a connection. Packets to it have its QPN as destination, and its requests start at its IPSN.
type Side struct {
	IP   netip.Addr `json:"ip"`
	QPN  packet.QPN `json:"qpn"`  // 0: not known (QP 0 never carries RC)
	IPSN packet.PSN `json:"ipsn"` // initial PSN of the requests that this side sends
}

// Connection is one RC connection. Requester is the side that the test calls so; with bidirectional traffic both send
// requests.
type Connection struct {
	Index     int      `json:"index"` // from 1
	Verb      string   `json:"verb,omitempty"`
	Verbs     []string `json:"verbs,omitempty"` // instead of Verb when there are several
	MTU       int      `json:"mtu"`             // path MTU: bytes of payload of a full packet
	Requester Side     `json:"requester"`
	Responder Side     `json:"responder"`
	Settings

	// Exchanged says that queue pairs, initial PSNs, MTU and settings of an inferred connection come from connection
	// manager messages in the trace: they are as certain as those of a document.
	Exchanged bool `json:"-"`
}

// Settings are those of the sides of a connection; nil: unknown.
type Settings struct {
	Timeout  *int `json:"timeout,omitempty"`   // exponent t of the local ACK timeout 4.096 us * 2^t; 0: no timer
	Retry    *int `json:"retry,omitempty"`     // retry_cnt
	RNRRetry *int `json:"rnr_retry,omitempty"` // rnr_retry, whose 7 means no limit

	// What both sides' packets carry.
	DSCP    *int `json:"dscp,omitempty"`     // of all but CNPs
	CNPDSCP *int `json:"cnp_dscp,omitempty"` // of CNPs
	ECN     *int `json:"ecn,omitempty"`      // of data packets: 0 not ECN-capable, 1 ECT(1), 2 ECT(0)
	MigReq  *int `json:"mig_req,omitempty"`
}

// Certain reports whether the numbers of a connection are more than a guess from the first packets.
func (c *Connections) Certain(flow FlowID) bool {
	conn, ok := c.Get(flow)
	return ok && (!c.Inferred || conn.Exchanged)
}

// Connections is the set of connections of a trace, with a fast way from addresses to flows. It does not change once
// made, so any number of goroutines may use it.
type Connections struct {
	// Inferred says that the connections come from the packets, not from a file: initial PSNs may be those of the first
	// packets captured.
	Inferred bool

	all   []Connection
	flows flowTable
	uses  map[int][]use // of inferred connections whose queue pairs were used again
}

const (
	maxUint24 = 1<<24 - 1
	mtuList   = "256, 512, 1024, 2048, 4096"
)

// mtus are the path MTUs that InfiniBand knows (IBTA volume 1, table 15 of 9.5).
var mtus = [...]int{256, 512, 1024, 2048, 4096}

// verbNames are the words for verbs in configurations and connection files.
var verbNames = [...]string{"write", "write-imm", "send", "send-imm", "read", "compare-swap", "fetch-add",
	"send-invalidate"}

// NewConnections validates list and indexes it. The indices must be 1…n in any order, the addresses of a connection of
// one IP version, and every directed flow (source, destination, destination QPN) unique. All problems are reported at
// once.
func NewConnections(list []Connection) (*Connections, error) {
	all := slices.Clone(list)
	var errs []error
	for i := range all {
		c := &all[i]
		c.Requester.IP, c.Responder.IP = c.Requester.IP.Unmap(), c.Responder.IP.Unmap()
		for _, p := range c.problems(len(all)) {
			errs = append(errs, fmt.Errorf("connections[%d]%s", i, p))
		}
	}
	if len(errs) == 0 {
		slices.SortStableFunc(all, func(a, b Connection) int { return a.Index - b.Index })
		errs = indexProblems(all)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	c := &Connections{all: all, flows: newFlowTable(2 * len(all))}
	for i := range all {
		errs = append(errs, c.addFlows(&all[i])...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// problems lists the problems of c; each text starts with the path of the field inside the connection.
func (c *Connection) problems(n int) []string {
	var ps []string
	if c.Index < 1 || c.Index > n {
		ps = append(ps, fmt.Sprintf(".index: %d is out of range (1 to %d, the number of connections)", c.Index, n))
	}
	if !slices.Contains(mtus[:], c.MTU) {
		ps = append(ps, fmt.Sprintf(".mtu: %d is not a path MTU (%s)", c.MTU, mtuList))
	}
	ps = append(ps, c.Settings.problems()...)
	ps = append(ps, c.verbProblems()...)
	ps = append(ps, c.Requester.problems(".requester")...)
	ps = append(ps, c.Responder.problems(".responder")...)
	if a, b := c.Requester.IP, c.Responder.IP; a.IsValid() && b.IsValid() && a.Is4() != b.Is4() {
		ps = append(ps, fmt.Sprintf(": requester %v and responder %v are of different IP versions", a, b))
	}
	return ps
}

// Ranges of settings.
const (
	maxTimeout = 31
	maxRetry   = 7
	maxDSCP    = 63
)

func (s *Settings) problems() (ps []string) {
	for _, v := range []struct {
		key   string
		value *int
		most  int
	}{
		{"timeout", s.Timeout, maxTimeout}, {"retry", s.Retry, maxRetry}, {"rnr_retry", s.RNRRetry, maxRetry},
		{"dscp", s.DSCP, maxDSCP}, {"cnp_dscp", s.CNPDSCP, maxDSCP}, {"ecn", s.ECN, int(packet.ECT0)},
		{"mig_req", s.MigReq, 1},
	} {
		if v.value != nil && (*v.value < 0 || *v.value > v.most) {
			ps = append(ps, fmt.Sprintf(".%s: %d is out of range (0 to %d)", v.key, *v.value, v.most))
		}
	}
	return ps
}

func (c *Connection) verbProblems() []string {
	var ps []string
	if c.Verb != "" && len(c.Verbs) > 0 {
		ps = append(ps, `: "verb" and "verbs" exclude each other`)
	}
	check := func(path, verb string) {
		if !slices.Contains(verbNames[:], verb) {
			ps = append(ps, fmt.Sprintf("%s: %q is not a verb (%s)", path, verb, strings.Join(verbNames[:], ", ")))
		}
	}
	if c.Verb != "" {
		check(".verb", c.Verb)
	}
	for i, v := range c.Verbs {
		check(fmt.Sprintf(".verbs[%d]", i), v)
	}
	return ps
}

func (s *Side) problems(path string) []string {
	var ps []string
	switch {
	case !s.IP.IsValid():
		ps = append(ps, path+".ip: missing or not an IP address")
	case s.IP.Zone() != "":
		ps = append(ps, fmt.Sprintf("%s.ip: %v has a zone, which packets do not carry", path, s.IP))
	case s.IP.IsUnspecified() || s.IP.IsMulticast():
		ps = append(ps, fmt.Sprintf("%s.ip: %v is not the address of one host", path, s.IP))
	}
	if s.QPN > maxUint24 {
		ps = append(ps, fmt.Sprintf("%s.qpn: %d is out of range (0 to %d, 0: not known)", path, uint32(s.QPN), maxUint24))
	}
	if s.IPSN > maxUint24 {
		ps = append(ps, fmt.Sprintf("%s.ipsn: %d is out of range (0 to %d)", path, uint32(s.IPSN), maxUint24))
	}
	return ps
}

// indexProblems checks that sorted indices have no duplicate; problems checks their range.
func indexProblems(sorted []Connection) []error {
	var errs []error
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Index == sorted[i-1].Index {
			errs = append(errs, fmt.Errorf("connections: index %d appears twice", sorted[i].Index))
		}
	}
	return errs
}

// addFlows indexes both directions of conn. A side whose QPN is not known gets no flow towards it.
func (c *Connections) addFlows(conn *Connection) []error {
	var errs []error
	add := func(from, to *Side, flow FlowID) {
		if to.QPN == 0 {
			return
		}
		if other := c.flows.insert(makeFlowKey(from.IP, to.IP, to.QPN), flow); other != NoFlow {
			errs = append(errs, fmt.Errorf("connection %d: packets from %v to %v, QPN %d, already belong to connection %d",
				conn.Index, from.IP, to.IP, uint32(to.QPN), other.Connection()))
		}
	}
	add(&conn.Requester, &conn.Responder, NewFlowID(conn.Index, false))
	add(&conn.Responder, &conn.Requester, NewFlowID(conn.Index, true))
	return errs
}

// All returns the connections ordered by index: connection c is element c−1. The slice belongs to c.
func (c *Connections) All() []Connection {
	if c == nil {
		return nil
	}
	return c.all
}

// Len returns the number of connections.
func (c *Connections) Len() int { return len(c.All()) }

// Get returns the connection that flow belongs to, or false for NoFlow and flows beyond the last connection.
func (c *Connections) Get(flow FlowID) (*Connection, bool) {
	n := flow.Connection()
	if n < 1 || n > c.Len() {
		return nil, false
	}
	return &c.all[n-1], true
}

// Flow returns the flow of packets from src to dst with destination QP dstQPN, or NoFlow. It does not allocate.
func (c *Connections) Flow(src, dst netip.Addr, dstQPN packet.QPN) FlowID {
	if c == nil {
		return NoFlow
	}
	key := makeFlowKey(src.Unmap(), dst.Unmap(), dstQPN)
	return c.flows.find(&key)
}

// InitialPSN returns the PSN at which a space of a flow starts: requests at the sender's IPSN, responses at the
// receiver's, whose requests they answer. It is 0 for an unknown flow.
func (c *Connections) InitialPSN(flow FlowID, space packet.Space) packet.PSN {
	conn, ok := c.Get(flow)
	if !ok {
		return 0
	}
	if flow.Reverse() == (space == packet.Requests) {
		return conn.Responder.IPSN
	}
	return conn.Requester.IPSN
}

// RelPSN returns the 1-based place of psn in its space, as configurations count: the initial PSN is 1. The distance is
// a signed 24-bit number, so places more than 2²³ from the start are wrong; use [Connections.RelPSNNear] for longer
// streams.
func (c *Connections) RelPSN(flow FlowID, space packet.Space, psn packet.PSN) int64 {
	return int64(psn.Sub(c.InitialPSN(flow, space))) + 1
}

// RelPSNNear is RelPSN across any number of wraps: it returns the place nearest to near, that of a recent packet in the
// same space.
func (c *Connections) RelPSNNear(flow FlowID, space packet.Space, psn packet.PSN, near int64) int64 {
	at := packet.NewPSN(int64(c.InitialPSN(flow, space)) + near - 1)
	return near + int64(psn.Sub(at))
}
