package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// explainMessages bounds the messages printed of one schedule.
const explainMessages = 12

// Explain prints the test for the user: connections, schedules of messages, the packet of each event, derived times,
// and warnings. It returns only errors of w.
func (p *Plan) Explain(w io.Writer) error {
	var b strings.Builder
	t := p.Test
	if t.Point != nil {
		fmt.Fprintf(&b, "POINT %d of %d\n", t.Point.Index, t.Point.Of)
	}
	fmt.Fprintf(&b, "%s  (testbed %s, seed %d, config %.12s)\n", t.Title(), t.Testbed.Name, t.Seed, t.Hash())
	p.explainConnections(&b)
	p.explainSchedules(&b)
	p.explainEvents(&b)
	p.explainTimes(&b)
	if expect := t.Expect.YAML(); expect != nil {
		fmt.Fprintf(&b, "\nEXPECTED, and of other analyzers no violation\n  %s\n",
			strings.ReplaceAll(strings.TrimSpace(string(expect)), "\n", "\n  "))
	}
	if len(p.Warnings) > 0 {
		b.WriteString("\nWARNINGS\n")
	}
	for _, warning := range p.Warnings {
		b.WriteString("  " + strings.ReplaceAll(warning.String(), "\n", "\n  ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes rows in aligned columns, indented by two.
func table(b *strings.Builder, title string, rows [][]string) {
	fmt.Fprintf(b, "\n%s\n", title)
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(tw, "  %s\n", strings.Join(row, "\t")) // writes to a strings.Builder do not fail
	}
	_ = tw.Flush()
}

func (p *Plan) explainConnections(b *strings.Builder) {
	const most = 16
	rows := [][]string{{"qpn", "requester", "responder", "initial psn"}}
	for i, c := range p.Connections {
		if i == most {
			rows = append(rows, []string{fmt.Sprintf("… %d more", len(p.Connections)-most)})
			break
		}
		rows = append(rows, []string{fmt.Sprint(c.Index), c.IPs[config.Requester].String(), c.IPs[config.Responder].String(),
			psnText(c.InitialPSN)})
	}
	table(b, "CONNECTIONS", rows)
}

func psnText(psns [2]*packet.PSN) string {
	text := func(psn *packet.PSN) string {
		if psn == nil {
			return "random"
		}
		return psn.String()
	}
	if a, r := text(psns[config.Requester]), text(psns[config.Responder]); a != r {
		return a + ", responder " + r
	}
	return text(psns[config.Requester])
}

func (p *Plan) explainSchedules(b *strings.Builder) {
	type group struct {
		traffic [2]generator.Traffic
		of      []int
	}
	var groups []group
	for _, c := range p.Connections {
		same := func(g group) bool { return slices.Equal(g.traffic[0].Verbs, c.Traffic[0].Verbs) }
		if i := slices.IndexFunc(groups, same); i >= 0 {
			groups[i].of = append(groups[i].of, c.Index)
			continue
		}
		groups = append(groups, group{c.Traffic, []int{c.Index}})
	}
	for _, g := range groups {
		for _, s := range []config.Side{config.Requester, config.Responder} {
			if tr := g.traffic[s]; tr.Messages > 0 {
				table(b, fmt.Sprintf("SCHEDULE of qpn %s, requests of the %v", ranges(g.of), s), scheduleRows(tr, s))
			}
		}
	}
}

// ranges formats sorted numbers as in "1-3, 7".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		parts = append(parts, span(int64(numbers[i]), int64(numbers[j])))
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

func span(first, last int64) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

func scheduleRows(tr generator.Traffic, s config.Side) [][]string {
	rows := [][]string{{"message", "verb", "bytes", "psn", "data packets"}}
	for m := range tr.Schedule {
		if m.Index == explainMessages && tr.Messages > explainMessages+1 {
			rows = append(rows, []string{fmt.Sprintf("… %d more, up to psn %d", tr.Messages-m.Index, tr.PSNs())})
			break
		}
		from := s
		what := "request"
		if m.Verb == generator.Read {
			from, what = s.Peer(), "response"
		}
		rows = append(rows, []string{fmt.Sprint(m.Index + 1), m.Verb.String(), fmt.Sprint(m.Length),
			span(m.FirstPSN, m.FirstPSN+int64(m.PSNs)-1),
			fmt.Sprintf("%s from %v to %v", plural(m.PSNs, what), from, from.Peer())})
	}
	return rows
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *Plan) explainEvents(b *strings.Builder) {
	if len(p.Intents) == 0 {
		b.WriteString("\nEVENTS\n  none\n")
		return
	}
	rows := [][]string{{"place", "qpn", "psn", "when", "action", "packet"}}
	for i := range p.Intents {
		rows = append(rows, p.eventRow(&p.Intents[i]))
	}
	table(b, "EVENTS", rows)
}

func (p *Plan) eventRow(in *injector.Intent) []string {
	place, _, _ := strings.Cut(in.Where, ": ")
	psn := "-"
	if in.RelPSN > 0 {
		psn = fmt.Sprint(in.RelPSN)
	}
	return []string{place, fmt.Sprint(in.Flow.Connection()), psn, when(in), actionText(in.Action), p.packetText(in)}
}

// when describes the transmission or arrival that an intent matches.
func when(in *injector.Intent) string {
	what := "iter"
	switch {
	case in.Class != packet.ClassData, in.Scope == injector.IterPacket:
		what = "arrival"
	case in.Scope == injector.IterMessage:
		what = "iter of message"
	}
	if in.Nth == injector.Any {
		return "any " + what
	}
	return fmt.Sprintf("%s %d", what, in.Nth)
}

func actionText(a injector.Action) string {
	row := a.Row()
	if a.Type == trace.EventTrim {
		return trimText(a)
	}
	if row.Text == "" {
		return row.Word
	}
	words := make([]any, len(row.Params))
	for i := range row.Params {
		words[i] = paramText(&row.Params[i], a.Params[i])
	}
	return fmt.Sprintf(row.Text, words...)
}

func paramText(p *trace.ActionParam, v uint64) string {
	switch {
	case p.Print == trace.AsDuration:
		return (clock.Duration(v) * clock.Nanosecond).Text()
	case p.Print == trace.AsField:
		return packet.RewriteField(v).String()
	case p.Print == trace.AsHex:
		return fmt.Sprintf("0x%02x", v)
	case p.Noun != "":
		return plural(int(v), p.Noun)
	}
	return fmt.Sprint(v)
}

func trimText(a injector.Action) string {
	s := fmt.Sprintf("%v to %d B", a.Type, a.Params[0])
	if injector.TrimFlags(a.Params[2])&injector.TrimSetDSCP != 0 {
		s += fmt.Sprintf(", dscp %d", a.Params[1])
	}
	return s
}

func (p *Plan) packetText(in *injector.Intent) string {
	sender := config.Requester
	if in.Flow.Reverse() {
		sender = config.Responder
	}
	direction := fmt.Sprintf(", %v to %v", sender, sender.Peer())
	if in.Class == packet.ClassData {
		e := &p.Test.Traffic.DataEvents[in.Index]
		t, _ := p.target(e.QPN, e.From, e.PSN)
		return fmt.Sprintf("%s, %s, %d B%s", t.name(), t.where(), t.payload(), direction)
	}
	e := &p.Test.Traffic.ControlEvents[in.Index]
	name := strings.ToUpper(strings.ReplaceAll(in.Class.String(), "-", " "))
	if e.PSN == nil {
		return name + direction
	}
	t, _ := p.target(e.QPN, e.From, *e.PSN)
	return fmt.Sprintf("%s for %s%s", name, t.where(), direction)
}

func (p *Plan) explainTimes(b *strings.Builder) {
	timeout := "off"
	if p.AckTimeout > 0 {
		timeout = p.AckTimeout.Text() + " at least"
	}
	table(b, "TOTALS", [][]string{
		{"data packets", fmt.Sprintf("%d, if nothing is repeated", p.DataPackets)},
		{"local ACK timeout", timeout},
		{"the traffic is over after", p.Quiesce.Text() + " of silence"},
		{"deadline", p.Deadline.Text()},
	})
}
