package gbn_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Traces of the table tests are written in a small notation. The traffic is a list of messages, "write*10 read*3
// write-only": verb and number of packets of 1024 bytes. PSNs are relative and 1-based. Each line is a packet or a
// range of packets:
//
//	> 1-10          requests 1 to 10, as the traffic defines them
//	> 5 drop        an event: drop, corrupt, ecn, delay
//	> 5 op=WRITE_LAST len=3 pad=1 va=9 dma=7     changes to the packet
//	< ack 10        responses; msn=3 overrides the number of messages complete up to there
//	< nak 5 | < rnr 5 | < nak-inv 5 | < atomic 3
//	< resp 3-5      READ responses; they start with FIRST where a request started
//	@ 50ms          lets time pass; otherwise a microsecond passes between packets
//
// A leading "~" reverses the connection: its responder is the requester then.
type scene struct {
	traffic  string
	trace    string
	ipsn     packet.PSN
	cfg      gbn.Config
	kind     trace.Kind
	midway   bool     // the connections are inferred, and the trace does not begin with sequence number 1
	inferred bool     // the connections are inferred
	want     []string // rules, in order of their packets; notes included
	complete bool     // the capture is declared complete
}

type message struct {
	verb   string
	first  int64
	psns   int64
	length int64
}

const mtu = 1024

type writer struct {
	t        *testing.T
	messages []message
	ipsn     packet.PSN
	nowNS    int64
	before   uint64 // ID of the packet before the first
	records  []trace.Record
	starts   map[int64]bool // PSNs at which a READ was requested
}

func parseTraffic(t *testing.T, traffic string) []message {
	t.Helper()
	var out []message
	next := int64(1)
	for _, word := range strings.Fields(traffic) {
		verb, count, _ := strings.Cut(word, "*")
		n := int64(1)
		if count != "" {
			n = number(t, count)
		}
		out = append(out, message{verb: verb, first: next, psns: n, length: n * mtu})
		next += n
	}
	return out
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		t.Fatalf("notation: %v", err)
	}
	return n
}

// at returns the message that psn belongs to and how many messages are complete through it.
func (w *writer) at(psn int64) (m message, done int) {
	for i, m := range w.messages {
		if psn < m.first+m.psns {
			if psn == m.first+m.psns-1 {
				return m, i + 1
			}
			return m, i
		}
	}
	return message{verb: "write", first: psn, psns: 1, length: mtu}, len(w.messages)
}

var opcodes = func() map[string]packet.Opcode {
	m := map[string]packet.Opcode{}
	for o := range 256 {
		m[packet.Opcode(o).String()] = packet.Opcode(o)
	}
	return m
}()

// part returns the opcode name suffix of a packet at psn of m that starts at start.
func part(psn, start, end int64) string {
	switch {
	case psn == start && psn == end:
		return "_ONLY"
	case psn == start:
		return "_FIRST"
	case psn == end:
		return "_LAST"
	}
	return "_MIDDLE"
}

func (w *writer) request(psn int64) trace.Record {
	m, _ := w.at(psn)
	r := trace.Record{PayloadLen: mtu}
	end := m.first + m.psns - 1
	switch m.verb {
	case "read":
		r.Opcode, r.PayloadLen, r.Flags = packet.ReadRequest, 0, trace.AckReq|trace.HasRETH
		r.VA, r.DMALen = uint64(0x1000+(psn-m.first)*mtu), uint32(m.length-(psn-m.first)*mtu)
		w.starts[psn] = true
	case "atomic":
		r.Opcode, r.PayloadLen, r.Flags = packet.FetchAdd, 0, trace.AckReq
	default:
		r.Opcode = opcodes[strings.ToUpper(m.verb)+part(psn, m.first, end)]
		if psn == end {
			r.Flags |= trace.AckReq
		}
		if m.verb == "write" && psn == m.first {
			r.Flags |= trace.HasRETH
			r.VA, r.DMALen = 0x1000, uint32(m.length)
		}
	}
	return r
}

func (w *writer) response(kind string, psn int64) trace.Record {
	m, done := w.at(psn)
	_, before := w.at(psn - 1)
	r := trace.Record{Opcode: packet.Acknowledge, Flags: trace.HasAETH, MSN: uint32(done),
		Syndrome: packet.SyndromeAckNoCredit}
	switch kind {
	case "ack":
	case "nak":
		r.Syndrome, r.MSN = packet.SyndromeNakSequence, uint32(before)
	case "rnr":
		r.Syndrome, r.MSN = packet.SyndromeRNR|12, uint32(before)
	case "nak-inv":
		r.Syndrome, r.MSN = packet.SyndromeNakInvalid, uint32(before)
	case "nak-acc":
		r.Syndrome, r.MSN = packet.SyndromeNakAccess, uint32(before)
	case "atomic":
		r.Opcode = packet.AtomicAcknowledge
	case "resp":
		start := psn
		for !w.starts[start] && start > m.first {
			start--
		}
		r.Opcode = opcodes["READ_RESPONSE"+part(psn, start, m.first+m.psns-1)]
		r.PayloadLen = mtu
		if r.Opcode == packet.ReadResponseMiddle {
			r.Flags = 0
		}
		_, done = w.at(m.first + m.psns - 1)
		r.MSN = uint32(done)
	default:
		w.t.Fatalf("notation: response %q", kind)
	}
	return r
}

func (w *writer) line(line string) {
	fields := strings.Fields(line)
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return
	}
	if fields[0] == "@" {
		w.pass(fields[1])
		return
	}
	reverse := strings.HasPrefix(fields[0], "~")
	forward := strings.HasSuffix(fields[0], ">")
	fields = fields[1:]
	kind := ""
	if !forward {
		kind, fields = fields[0], fields[1:]
	}
	from, to, ranged := strings.Cut(fields[0], "-")
	lo := number(w.t, from)
	hi := lo
	if ranged {
		hi = number(w.t, to)
	}
	for psn := lo; psn <= hi; psn++ {
		r := trace.Record{}
		if forward {
			r = w.request(psn)
		} else {
			r = w.response(kind, psn)
		}
		r.Flow = trace.NewFlowID(1, forward == reverse)
		r.PSN = w.ipsn.Add(int(psn - 1))
		r.Flags |= trace.Sent | trace.Passed
		for _, change := range fields[1:] {
			w.change(&r, change)
		}
		w.nowNS += 1000
		r.ID, r.TimeNS = w.before+uint64(len(w.records)+1), w.nowNS
		w.records = append(w.records, r)
		if m, _ := w.at(psn); forward && m.verb == "read" {
			psn = m.first + m.psns - 1
		}
	}
}

func (w *writer) pass(d string) {
	for unit, ns := range map[string]int64{"ms": 1e6, "us": 1e3} {
		if n, ok := strings.CutSuffix(d, unit); ok {
			w.nowNS += number(w.t, n) * ns
		}
	}
}

func (w *writer) change(r *trace.Record, change string) {
	key, value, _ := strings.Cut(change, "=")
	switch key {
	case "msn":
		r.MSN = uint32(number(w.t, value))
	case "op":
		op, ok := opcodes[value]
		if !ok {
			w.t.Fatalf("notation: opcode %q", value)
		}
		r.Opcode = op
	case "len":
		r.PayloadLen = uint16(number(w.t, value))
		r.PadCount = uint8(-int(r.PayloadLen) & 3)
	case "pad":
		r.PadCount = uint8(number(w.t, value))
	case "va":
		r.VA = uint64(number(w.t, value))
	case "rkey":
		r.RKey = uint32(number(w.t, value))
	case "dma":
		r.DMALen = uint32(number(w.t, value))
	case "syndrome":
		r.Syndrome = packet.Syndrome(number(w.t, value))
	case "stray":
		r.Flow = trace.NoFlow
	case "sent":
		r.Flags &^= trace.Passed
	case "passed":
		r.Flags &^= trace.Sent
	case "pkey":
		r.PKey = uint16(number(w.t, value))
	case "qp":
		r.DestQP = packet.QPN(number(w.t, value))
	case "solicited":
		r.Flags |= trace.Solicited
	case "foreign":
		r.Flags |= trace.ForeignRKey
	case "badicrc":
		r.ICRC = packet.ICRCInvalid
	case "back":
		r.PSN = r.PSN.Add(-int(number(w.t, value)))
	case "unknown":
		r.Opcode = 0x1f
	default:
		event, ok := trace.ParseEventType(key)
		if !ok {
			w.t.Fatalf("notation: %q", change)
		}
		r.Event = event
	}
}

// connections returns n connections whose requests start at ipsn.
func connections(t testing.TB, n int, ipsn packet.PSN, inferred bool) *trace.Connections {
	t.Helper()
	var list []trace.Connection
	for i := range n {
		list = append(list, trace.Connection{
			Index: i + 1, Verb: "write", MTU: mtu,
			Requester: trace.Side{IP: netip.MustParseAddr("10.0.0.1"), QPN: packet.QPN(16 + i), IPSN: ipsn},
			Responder: trace.Side{IP: netip.MustParseAddr("10.0.0.2"), QPN: packet.QPN(16 + i), IPSN: ipsn},
		})
	}
	c, err := trace.NewConnections(list)
	if err != nil {
		t.Fatal(err)
	}
	c.Inferred = inferred
	return c
}

func (s *scene) records(t *testing.T) []trace.Record {
	t.Helper()
	w := &writer{t: t, messages: parseTraffic(t, s.traffic), ipsn: s.ipsn, starts: map[int64]bool{}}
	if s.midway {
		w.before = 100
	}
	for line := range strings.Lines(s.trace) {
		for part := range strings.SplitSeq(line, ";") {
			w.line(part)
		}
	}
	return w.records
}

func (s *scene) run(t *testing.T) analyzers.Result {
	t.Helper()
	meta := trace.Meta{Kind: s.kind, Connections: connections(t, 1, s.ipsn, s.midway || s.inferred)}
	return analyse(t, trace.CheckedRecords(meta, s.records(t)), s.cfg)
}

func analyse(t testing.TB, c *trace.Checked, cfg gbn.Config) analyzers.Result {
	t.Helper()
	a := gbn.New(c.Meta(), cfg)
	err := c.ForEach(context.Background(), func(r *trace.Record) error {
		a.Packet(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := a.Finish()
	causetest.Declared(t, gbn.Causes(), r.Findings)
	return r
}

// rules lists the rules of findings, in the order of the packets that prove them.
func rules(r analyzers.Result) []string {
	fs := slices.Clone(r.Findings)
	slices.SortStableFunc(fs, func(a, b analyzers.Finding) int {
		return int(firstPacket(a)) - int(firstPacket(b))
	})
	var out []string
	for _, f := range fs {
		out = append(out, strings.TrimPrefix(f.Rule, "gbn."))
	}
	return out
}

func firstPacket(f analyzers.Finding) uint64 {
	if len(f.Packets) == 0 {
		return 1 << 40
	}
	return f.Packets[0]
}

func dump(fs []analyzers.Finding) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "  %s %s packets %v psn %d\n    expected %s\n    actual   %s\n", f.Severity, f.Rule, f.Packets, f.PSN,
			f.Expected, f.Actual)
	}
	return b.String()
}

func check(t *testing.T, scenes map[string]scene) {
	t.Helper()
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) {
			for _, ipsn := range []packet.PSN{s.ipsn, 0xfffffb} { // once more across the wrap
				s.ipsn = ipsn
				res := s.run(t)
				if got := rules(res); !slices.Equal(got, s.want) {
					t.Errorf("ipsn %d: rules %v, want %v\n%s", ipsn, got, s.want, dump(res.Findings))
				}
			}
		})
	}
}
