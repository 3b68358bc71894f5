package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// mostPackets bounds the packets of a report.
const mostPackets = 64

// shown is a packet of the report.
type shown struct {
	trace.Record
	rel, iter int64
	proof     bool // the finding names it
	skipped   int  // packets of the connection before it that are left out
}

// chosen are the packets of a report.
type chosen struct {
	list    []shown
	total   int64 // packets of the trace
	touched int64 // of them, by the injector
	others  int64 // of the trace, that are of other connections
	before  int   // packets of the connection before the first
	after   int   // and after the last
}

// number tells the two numberings of a connection apart: that of the requester's requests and that of the responder's.
type number struct {
	back bool
	psn  packet.PSN
}

func numberOf(r *trace.Record) number {
	return number{r.Flow.Reverse() != (r.Opcode.Space() == packet.Responses), r.PSN}
}

// choose returns the packets that show a finding: those that it names, earlier ones with their PSNs, the beginnings of
// their messages, and neighbours. With a range it returns those of the connection that are in it.
func choose(ctx context.Context, c *trace.Checked, f *report.Finding, first, last uint64) (*chosen, error) {
	numbers, wanted := map[number]bool{}, map[uint64]bool{}
	for i := range f.Window {
		wanted[f.Window[i].ID] = true
	}
	for _, id := range f.Packets {
		wanted[id] = true
	}
	err := c.ForEach(ctx, func(r *trace.Record) error {
		if slices.Contains(f.Packets, r.ID) {
			numbers[numberOf(r)] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	end := slices.Max(append([]uint64{0}, f.Packets...))
	iter := trace.NewIterTracker(c.Meta().Connections)
	var all []shown // of the connection
	list := &chosen{}
	messages := map[trace.FlowID]uint64{} // the packets that began the messages of a flow
	err = c.ForEach(ctx, func(r *trace.Record) error {
		round, rel := iter.Observe(r)
		list.total++
		if r.Event != trace.EventNone {
			list.touched++
		}
		if f.Connection != 0 && r.Flow.Connection() != f.Connection {
			list.others++
			return nil
		}
		if begins(r.Opcode) {
			messages[r.Flow] = r.ID
		}
		if r.ID <= end && numbers[numberOf(r)] {
			wanted[r.ID] = true
		}
		if wanted[r.ID] && r.Opcode.Space() == packet.Requests && messages[r.Flow] != 0 {
			wanted[messages[r.Flow]] = true
		}
		all = append(all, shown{Record: *r, rel: rel, iter: round, proof: slices.Contains(f.Packets, r.ID)})
		if len(all) > keptPackets { // what shows the finding is near it
			all = slices.Delete(all, 0, len(all)-keptPackets)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list.keep(all, func(s *shown) bool {
		if last != 0 {
			return s.ID >= first && s.ID <= last
		}
		return wanted[s.ID]
	})
	return list, nil
}

// keptPackets bounds the memory of a choice: the last packets of a connection.
const keptPackets = 1 << 20

// begins reports whether a request is the first packet of its message.
func begins(o packet.Opcode) bool {
	switch o {
	case packet.SendMiddle, packet.SendLast, packet.SendLastImm, packet.SendLastInv, packet.WriteMiddle, packet.WriteLast,
		packet.WriteLastImm:
		return false
	default:
		return o.Space() == packet.Requests
	}
}

func (c *chosen) keep(all []shown, wanted func(*shown) bool) {
	for i := range all {
		s := &all[i]
		switch {
		case wanted(s):
			if s.skipped = c.after; len(c.list) == 0 {
				s.skipped, c.before = 0, c.after
			}
			c.list, c.after = append(c.list, *s), 0
		default:
			c.after++
		}
	}
	if over := len(c.list) - mostPackets; over > 0 {
		c.before += over
		c.list = c.list[over:]
	}
}

// touches reports whether the injector changed or dropped one of the packets.
func (c *chosen) touches() bool {
	return slices.ContainsFunc(c.list, func(s shown) bool { return s.Event != trace.EventNone })
}

// damaged reports whether a packet has a wrong invariant CRC, and whether all were checked.
func (c *chosen) damaged() (wrong, unchecked int) {
	for i := range c.list {
		switch c.list[i].ICRC {
		case packet.ICRCInvalid:
			wrong++
		case packet.ICRCValid:
		default:
			unchecked++
		}
	}
	return wrong, unchecked
}

// received reports whether the capture shows the packets as the host under suspicion received them: what it sent is not
// changed on the way to the switch, what it received is what the injector passed on.
func (w *writer) received() bool { return w.device.role == "responder" }

// capture returns the packets as a plain pcap.
func (w *writer) capture(ctx context.Context) ([]byte, error) {
	wanted := map[uint64]*shown{}
	for i := range w.packets.list {
		wanted[w.packets.list[i].ID] = &w.packets.list[i]
	}
	var out bytes.Buffer
	pcap := trace.NewPcapWriter(&out, PacketsFile, 0)
	dec := trace.NewDecoder(trace.FormatMirror, w.run.Checked.Meta().Connections, false)
	var r trace.Record
	err := w.run.Trace.ForEachFrame(ctx, func(f *trace.Frame) error {
		if err := dec.Decode(f, &r); errors.Is(err, trace.ErrNotRoCE) {
			return nil
		} else if err != nil {
			return err
		}
		s := wanted[r.ID]
		if s == nil || w.received() && r.Event.Loses() {
			return nil
		}
		data, err := w.frame(s, slices.Clone(f.Data))
		if err != nil {
			return err
		}
		frame, err := pcap.Reserve(f.TimeNS, len(data), max(f.OrigLen, len(data)))
		if err != nil {
			return err
		}
		copy(frame, data)
		return nil
	})
	err = errors.Join(err, pcap.Flush())
	return out.Bytes(), err
}

// frame undoes the mirror encoding, and redoes what the injector did if the capture is that of the receiver.
func (w *writer) frame(s *shown, data []byte) ([]byte, error) {
	r := s.Record
	if !w.received() || r.Event == trace.EventRewrite {
		r.Event = trace.EventNone
	}
	if err := trace.RestoreFrame(data, trace.FormatMirror, trace.ViewAfter, &r); err != nil {
		w.unredone = append(w.unredone, s.ID)
		r.Event = trace.EventNone
		if err := trace.RestoreFrame(data, trace.FormatMirror, trace.ViewAfter, &r); err != nil {
			return nil, err
		}
	}
	if !w.received() || s.Event != trace.EventRewrite {
		return data, nil
	}
	field, value, ok := rewriteOf(w.run.Test, s)
	if ok {
		var p packet.Packet
		if err := p.Parse(data); err == nil && p.Rewrite(field, value) {
			return p.AppendTo(nil), nil
		}
	}
	w.unredone = append(w.unredone, s.ID)
	return data, nil
}

// rewriteOf returns what the test has the injector write into a packet; ok is false if more than one event may have.
func rewriteOf(t *config.Test, s *shown) (field packet.RewriteField, value uint64, ok bool) {
	n := 0
	take := func(params config.Params) {
		n++
		for _, p := range params {
			switch p.Key {
			case "field":
				field = packet.RewriteField(p.Value)
			case "value":
				value = uint64(p.Value)
			}
		}
	}
	for i := range t.Traffic.DataEvents {
		e := &t.Traffic.DataEvents[i]
		if e.Type == trace.EventRewrite && e.QPN == s.Flow.Connection() && e.PSN == s.rel {
			take(e.Params)
		}
	}
	for i := range t.Traffic.ControlEvents {
		if e := &t.Traffic.ControlEvents[i]; e.Type == trace.EventRewrite && e.QPN == s.Flow.Connection() &&
			s.Class() != packet.ClassData {
			take(e.Params)
		}
	}
	// A rewritten PSN is relative in a test.
	return field, value, n == 1 && field != packet.RewriteNone && field != packet.RewritePSN
}

// lines decodes a packet. The RETH of a retransmission is left out if it is that of the packet before.
func (w *writer) lines(s *shown, originNS int64) []string {
	mark, arrow := " ", "->"
	if s.proof {
		mark = "*"
	}
	if s.Flow.Reverse() {
		arrow = "<-"
	}
	head := fmt.Sprintf("%s#%-4d %10.3f ms %s %08d ", mark, s.ID, float64(s.TimeNS-originNS)/1e6, arrow, uint32(s.PSN))
	if s.rel > 0 {
		head = fmt.Sprintf("%s%-5s ", head, fmt.Sprintf("(%d)", s.rel))
	}
	words := []string{s.Opcode.String()}
	if s.Has(trace.HasAETH) {
		words = append(words, s.Syndrome.String(), fmt.Sprintf("MSN %d", s.MSN))
	}
	if s.PayloadLen > 0 {
		words = append(words, fmt.Sprintf("%d bytes", s.PayloadLen))
	}
	if s.Has(trace.AckReq) {
		words = append(words, "AckReq")
	}
	if s.ICRC == packet.ICRCInvalid {
		words = append(words, "wrong ICRC")
	}
	var list []string
	text := strings.Join(words, ", ")
	for indent := strings.Repeat(" ", len(head)); text != ""; head = indent {
		var line string
		line, text = cut(text, width-1-len(head))
		list = append(list, head+line)
	}
	extended := ""
	switch {
	case s.Has(trace.HasRETH):
		extended = fmt.Sprintf("RETH: VA 0x%x, R_Key 0x%x, DMA length %d", s.VA, s.RKey, s.DMALen)
	case s.Opcode == packet.CmpSwap || s.Opcode == packet.FetchAdd:
		extended = fmt.Sprintf("AtomicETH: VA 0x%x, R_Key 0x%x", s.VA, s.RKey)
	}
	const indent = "       "
	if extended != "" && w.extended != extended+head {
		list = append(list, indent+extended)
	}
	if extended != "" {
		w.extended = extended + head
	}
	if s.Event == trace.EventNone {
		return list
	}
	event := "[switch: " + s.Event.String() + "]"
	if field, value, ok := rewriteOf(w.run.Test, s); ok && s.Event == trace.EventRewrite {
		return append(list, fmt.Sprintf("%s[switch: %s becomes %d, ICRC updated]", indent, field, value))
	}
	return append(list, indent+event)
}
