package oracle

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Parse reads a trace, one packet a line; # starts a comment.
//
//	[TIME] DIRECTION WHAT PSN[+COUNT] [FLAG…]
//
// TIME is in microseconds; without it packets are 1 us apart. DIRECTION is > from the first host to the second or <
// back; requests that go < are those of the second host, which have PSNs of their own. WHAT is an opcode in lower case
// with hyphens (write-first, read-request, read-response-only, …), or ack, nak, nak-inv, nak-acc, nak-op, rnr or
// atomic-ack. PSN is relative, from 0. COUNT is the number of packets that a READ or the first packet of a WRITE
// announces; 1 for an ONLY, 0 if it has no bytes. Flags: short=N (bytes that the last of these lacks), lacks=N (bytes
// that the payload of this packet lacks of the path MTU), ar (acknowledge request), msn=N, va=N (address; of an atomic
// ACK the value), code=N (RNR timer), drop (lost at the injector), sent or passed (seen only before or only after it).
// A line that starts with ! sets the view: plain, complete, closed, mid, retry=N, rnr-retry=N, T=US, H=US, U=US
// (timeout, bound of host delay, uncertainty of the clock of the second tap).
func Parse(text string) (*Trace, error) {
	t := &Trace{View: View{Retry: -1, RNRRetry: -1}}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		var err error
		if fields[0] == "!" {
			err = t.View.parse(fields[1:])
		} else {
			var p Packet
			p, err = parsePacket(fields, int64(len(t.Packets))*1000)
			t.Packets = append(t.Packets, p)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	t.matchTaps()
	return t, nil
}

func (v *View) parse(words []string) error {
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		var n float64
		var err error
		if value != "" {
			n, err = strconv.ParseFloat(value, 64)
		}
		switch name {
		case "plain":
			v.Plain = true
		case "complete":
			v.Complete = true
		case "closed":
			v.Closed = true
		case "mid":
			v.MidStream = true
		case "retry":
			v.Retry = int(n)
		case "rnr-retry":
			v.RNRRetry = int(n)
		case "T":
			v.TimeoutNS = nanoseconds(n)
		case "U":
			v.ClockNS = nanoseconds(n)
		case "H":
			v.HostDelayNS = nanoseconds(n)
		default:
			return fmt.Errorf("%q is not a property of a view", w)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", w, err)
		}
	}
	return nil
}

func nanoseconds(us float64) int64 { return int64(math.Round(us * 1000)) }

// String returns the view in the notation that Parse reads.
func (v View) String() string {
	words := []string{"!"}
	flag := func(on bool, word string) {
		if on {
			words = append(words, word)
		}
	}
	flag(v.Plain, "plain")
	flag(v.Complete, "complete")
	flag(v.Closed, "closed")
	flag(v.MidStream, "mid")
	flag(v.Retry >= 0, fmt.Sprintf("retry=%d", v.Retry))
	flag(v.RNRRetry >= 0, fmt.Sprintf("rnr-retry=%d", v.RNRRetry))
	flag(v.TimeoutNS > 0, fmt.Sprintf("T=%v", float64(v.TimeoutNS)/1000))
	flag(v.HostDelayNS > 0, fmt.Sprintf("H=%v", float64(v.HostDelayNS)/1000))
	flag(v.ClockNS > 0, fmt.Sprintf("U=%v", float64(v.ClockNS)/1000))
	return strings.Join(words, " ")
}

var acknowledges = map[string]packet.Syndrome{
	"ack": packet.SyndromeAckNoCredit, "nak": packet.SyndromeNakSequence, "nak-inv": packet.SyndromeNakInvalid,
	"nak-acc": packet.SyndromeNakAccess, "nak-op": packet.SyndromeNakOperation, "rnr": packet.SyndromeRNR | 1,
}

func word(op packet.Opcode) string {
	if op == packet.AtomicAcknowledge {
		return "atomic-ack"
	}
	return strings.ReplaceAll(strings.ToLower(op.String()), "_", "-")
}

var opcodesByWord = func() map[string]packet.Opcode {
	m := map[string]packet.Opcode{}
	for op := range 256 {
		if o := packet.Opcode(op); o.Known() {
			m[word(o)] = o
		}
	}
	return m
}()

func parsePacket(fields []string, timeNS int64) (Packet, error) {
	p := Packet{TimeNS: timeNS, Seen: trace.Sent | trace.Passed}
	if us, err := strconv.ParseFloat(fields[0], 64); err == nil {
		p.TimeNS, fields = nanoseconds(us), fields[1:]
	}
	if len(fields) < 3 || fields[0] != ">" && fields[0] != "<" {
		return p, fmt.Errorf("want [TIME] DIRECTION WHAT PSN, have %q", fields)
	}
	p.Back = fields[0] == "<"
	if s, ok := acknowledges[fields[1]]; ok {
		p.Op, p.Syndrome = packet.Acknowledge, s
	} else if p.Op, ok = opcodesByWord[fields[1]]; !ok {
		return p, fmt.Errorf("%q is not a packet", fields[1])
	}
	if p.Op.Headers()&packet.HasAETH != 0 && p.Op != packet.Acknowledge {
		p.Syndrome = packet.SyndromeAckNoCredit
	}
	psn, count, counted := strings.Cut(fields[2], "+")
	var err error
	if p.PSN, err = strconv.Atoi(psn); err != nil {
		return p, err
	}
	if p.Op.Headers()&packet.HasRETH != 0 {
		p.Count, p.VA = 1, Address(p.PSN)
	}
	if counted {
		if p.Count, err = strconv.Atoi(count); err != nil {
			return p, err
		}
	}
	return p, p.parseFlags(fields[3:])
}

// Address is the default address of the data of a READ or WRITE that starts at psn.
func Address(psn int) uint64 { return uint64(int64(baseAddress) + int64(psn)*MTU) }

func (p *Packet) parseFlags(flags []string) error {
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		n, err := strconv.ParseInt(value, 0, 64)
		if value == "" {
			n, err = 0, nil
		}
		switch name {
		case "ar":
			p.AckReq = true
		case "msn":
			p.MSN = int(n)
		case "va":
			p.VA = uint64(n)
		case "short":
			p.Short = int(n)
		case "lacks":
			p.Lacks = int(n)
		case "code":
			p.Syndrome = packet.SyndromeRNR | packet.Syndrome(n)
		case "drop":
			p.Lost = true
		case "sent":
			p.Seen = trace.Sent
		case "passed":
			p.Seen = trace.Passed
		default:
			return fmt.Errorf("%q is not a flag", f)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", f, err)
		}
	}
	return nil
}

// String returns the trace in the notation that Parse reads.
func (t *Trace) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, t.View)
	for i := range t.Packets {
		fmt.Fprintln(&b, t.Packets[i].String())
	}
	return b.String()
}

// String returns the packet in the notation that Parse reads.
func (p *Packet) String() string {
	direction := ">"
	if p.Back {
		direction = "<"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%.3f %s %s %d", float64(p.TimeNS)/1000, direction, p.Word(), p.PSN)
	headers := p.Op.Headers()
	if headers&packet.HasRETH != 0 {
		fmt.Fprintf(&b, "+%d", p.Count)
		if p.VA != Address(p.PSN) {
			fmt.Fprintf(&b, " va=%#x", p.VA)
		}
	}
	if p.Short != 0 {
		fmt.Fprintf(&b, " short=%d", p.Short)
	}
	if p.Lacks != 0 {
		fmt.Fprintf(&b, " lacks=%d", p.Lacks)
	}
	if headers&packet.HasAETH != 0 {
		fmt.Fprintf(&b, " msn=%d", p.MSN)
	}
	if headers&packet.HasAtomicAckETH != 0 {
		fmt.Fprintf(&b, " va=%d", p.VA)
	}
	if p.Syndrome.IsRNR() && p.Op == packet.Acknowledge && p.Syndrome.TimerCode() != 1 {
		fmt.Fprintf(&b, " code=%d", p.Syndrome.TimerCode())
	}
	if p.AckReq {
		b.WriteString(" ar")
	}
	if p.Lost {
		b.WriteString(" drop")
	}
	switch p.Seen {
	case trace.Sent:
		b.WriteString(" sent")
	case trace.Passed:
		b.WriteString(" passed")
	default: // of a single tap or a mirror
	}
	return b.String()
}

// Word returns what the packet is, in the notation that Parse reads.
func (p *Packet) Word() string {
	if p.Op == packet.Acknowledge {
		for name, s := range acknowledges {
			if packet.Classify(p.Op, s) == packet.Classify(p.Op, p.Syndrome) {
				return name
			}
		}
	}
	return word(p.Op)
}
