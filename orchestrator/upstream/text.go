package upstream

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/trace"
)

// width is that of lines: what replies quote stays below 80 columns.
const width = 75

type writer struct {
	run        *Run
	finding    *report.Finding
	options    Options
	device     device
	packets    *chosen
	unredone   []uint64 // packets whose change on the way is not in the capture
	extended   string   // extended header that was printed last
	hasProgram bool
	noProgram  string // why there is no program

	b bytes.Buffer
}

// cut breaks text into what fits into n columns and the rest, at a space if there is one.
func cut(text string, n int) (first, rest string) {
	if utf8.RuneCountInString(text) <= n {
		return text, ""
	}
	at, columns := 0, 0
	for i, r := range text {
		if columns > n {
			break
		}
		if r == ' ' {
			at = i
		}
		columns++
	}
	if at == 0 { // a word that is too long stays whole: a path, a key
		if at = strings.IndexByte(text, ' '); at < 0 {
			return text, ""
		}
	}
	return text[:at], strings.TrimLeft(text[at:], " ")
}

// wrapped writes text with its first line after first, further lines after next.
func (w *writer) wrapped(first, next, text string) {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }),
		" ")
	for line := ""; text != ""; first = next {
		line, text = cut(text, width-utf8.RuneCountInString(first))
		w.b.WriteString(strings.TrimRight(first+line, " ") + "\n")
	}
}

func (w *writer) paragraph(format string, args ...any) {
	w.wrapped("", "", fmt.Sprintf(format, args...))
	w.b.WriteByte('\n')
}

func (w *writer) item(format string, args ...any) {
	w.wrapped("- ", "  ", fmt.Sprintf(format, args...))
}

func (w *writer) heading(text string) {
	fmt.Fprintf(&w.b, "%s\n%s\n\n", text, strings.Repeat("-", utf8.RuneCountInString(text)))
}

// raw quotes lines of the user or of a file, indented; control characters of untrusted files are left out.
func (w *writer) raw(indent, text string) {
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.Map(func(r rune) rune {
			if r == '\t' || !unicode.IsControl(r) {
				return r
			}
			return -1
		}, line)
		w.b.WriteString(strings.TrimRight(indent+line, " ") + "\n")
	}
	w.b.WriteByte('\n')
}

func (w *writer) text() []byte {
	f := w.finding
	w.wrapped("Subject: ", "  ", "[BUG] "+w.device.subsystem()+": "+w.subject())
	w.b.WriteByte('\n')
	w.paragraph("%s", f.Summary())
	w.wrapped("Expected: ", "          ", f.Expected)
	w.wrapped("Seen:     ", "          ", f.Actual)
	w.b.WriteByte('\n')
	if f.Severity != analyzers.Violation {
		w.paragraph("This is a %s, not a violation: the rule or these packets leave room for it.", f.Severity)
	}
	w.clause()
	w.environment()
	w.trace()
	w.test()
	w.reproducer()
	w.ruledOut()
	w.counters()
	if w.options.Source != "" {
		w.heading("Where it comes from")
		w.raw("", w.options.Source)
	}
	if w.options.PriorArt != "" {
		w.heading("Prior art")
		w.raw("", w.options.PriorArt)
	}
	return w.b.Bytes()
}

// subject is what happened, without the number of a connection.
func (w *writer) subject() string {
	if w.options.Subject != "" {
		return w.options.Subject
	}
	text := strings.TrimPrefix(w.finding.Summary(), analyzers.AsShown)
	if w.finding.Connection > 0 {
		text = strings.ReplaceAll(text, fmt.Sprintf(" of qpn %d", w.finding.Connection), "")
	}
	text = strings.TrimSuffix(text, ".")
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToLower(first)) + text[size:]
}

func (w *writer) clause() {
	w.heading("Clause")
	f := w.finding
	w.paragraph("%s. In our words: %s (rule %s of Candela)", f.Citation(), f.Message, f.Rule)
}

// tedious are properties of an environment that say nothing about a device.
var tedious = []string{"boot", "clock-source", "clock-ratio", "memory-mib", "image", "weight", "cores"}

func (w *writer) environment() {
	w.heading("Environment")
	for i := range w.run.Environment.Components {
		c := &w.run.Environment.Components[i]
		if c.Kind == "dumper" {
			continue
		}
		name := c.Name
		if c == w.device.host {
			name += " (the device in question)"
		}
		w.item("%s: %s", name, properties(c))
	}
	for _, c := range w.run.Checked.Meta().Connections.All() {
		if c.Index == w.finding.Connection {
			w.item("connection %d: requester %v QPN %d, first PSN %d; responder %v QPN %d, first PSN %d; path MTU %d", c.Index,
				c.Requester.IP, c.Requester.QPN, c.Requester.IPSN, c.Responder.IP, c.Responder.QPN, c.Responder.IPSN, c.MTU)
		}
	}
	w.b.WriteByte('\n')
}

func properties(c *testbeds.Component) string {
	var list []string
	for _, p := range c.Properties {
		if !slices.Contains(tedious, p.Name) && p.Value != "" {
			list = append(list, p.Name+" "+p.Value)
		}
	}
	if len(list) == 0 {
		return "nothing recorded"
	}
	return strings.Join(list, "; ")
}

func (w *writer) trace() {
	w.heading("Packets")
	w.paragraph("As the switch between the hosts saw them, before it dropped or changed any. Columns: number in the "+
		"trace, time at the switch, direction (-> from the requester), PSN, and in parentheses the PSN counted from 1, "+
		"which is the psn of the sentences; iter counts transmissions. %s", w.marks())
	origin := w.packets.list[0].TimeNS
	for i := range w.packets.list {
		s := &w.packets.list[i]
		if s.skipped > 0 {
			fmt.Fprintf(&w.b, "       (%s of this connection)\n", plural(s.skipped, "packet"))
		}
		for _, line := range w.lines(s, origin) {
			w.b.WriteString(" " + line + "\n")
		}
	}
	w.b.WriteByte('\n')
	w.wrapped("", "", w.extent())
	w.b.WriteByte('\n')
}

func (w *writer) marks() string {
	if slices.ContainsFunc(w.packets.list, func(s shown) bool { return s.proof }) {
		return "A star marks the packets that prove it."
	}
	return ""
}

// extent says how the packets relate to the trace and to the capture.
func (w *writer) extent() string {
	c := w.packets
	text := fmt.Sprintf("The trace has %s", plural(int(c.total), "packet"))
	if c.others > 0 {
		text += fmt.Sprintf(", %d of them of other connections", c.others)
	}
	text += fmt.Sprintf("; of this connection %d precede and %d follow those above. ", c.before, c.after)
	view := "as they left their senders"
	if w.received() {
		view = "as they left the switch: dropped ones are missing, changes are made"
	}
	text += fmt.Sprintf("%s has the packets above for tcpdump or Wireshark, %s.", PacketsFile, view)
	if len(w.unredone) > 0 {
		text += fmt.Sprintf(" The changes to %s are not in it.", numbers(w.unredone))
	}
	return text + " Ethernet addresses and TTL are invented."
}

func numbers(ids []uint64) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = fmt.Sprintf("#%d", id)
	}
	return strings.Join(list, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (w *writer) test() {
	w.heading("Test")
	t := w.run.Test
	events := len(t.Traffic.DataEvents) + len(t.Traffic.ControlEvents)
	what := "No event: the switch forwards everything."
	if events > 0 {
		what = "The switch carries out " + plural(events, "event") + "."
	}
	w.paragraph("%s. Seed %d, testbed %s. %s", attributes(t), w.run.Report.Seed, w.run.Report.Testbed, what)
	w.raw("    ", broken(string(w.options.Test), width-4))
}

// attributes describes the traffic in the words of verbs.
func attributes(t *config.Test) string {
	tr := &t.Traffic
	verbs := make([]string, len(tr.Verbs))
	for i, v := range tr.Verbs {
		verbs[i] = v.String()
	}
	text := fmt.Sprintf("%s of %s of %d bytes (%s), %d outstanding, path MTU %d; timeout %d, retry_cnt %d, rnr_retry %d",
		plural(tr.Connections, "RC queue pair"), plural(tr.Messages, "message"), tr.MessageSize, strings.Join(verbs, ", "),
		tr.TxDepth, tr.MTU, tr.AckTimeout, tr.RetryCount, tr.RNRRetry)
	if slices.ContainsFunc(tr.Verbs, consumes) {
		text += fmt.Sprintf(", min_rnr_timer %d; %s posted, each again %v after its use", tr.MinRNRTimer,
			plural(tr.RxDepth, "receive"), tr.RxRepostDelay)
	}
	return text
}

// broken breaks flow mappings of YAML that are longer than n columns.
func broken(text string, n int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " -"))+1)
		for utf8.RuneCountInString(line) > n && strings.Contains(line, "{") {
			at := strings.LastIndex(line[:n], ", ")
			if at < len(indent) {
				break
			}
			b.WriteString(line[:at+1] + "\n")
			line = indent + line[at+2:]
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (w *writer) reproducer() {
	w.heading("Without Candela")
	if !w.hasProgram {
		w.paragraph("A program at the hosts is not enough: %s. %s has what the device received and sent.", w.noProgram,
			PacketsFile)
		return
	}
	how := "makes the same requests with the same attributes of the queue pairs."
	if unanswered(w.run.Test, w.finding) {
		how = fmt.Sprintf("makes the same request of a queue pair that does not answer, in place of a switch that drops it: "+
			"it should complete with IBV_WC_RETRY_EXC_ERR after %d transmissions.", w.run.Test.Traffic.RetryCount+1)
	}
	w.paragraph("%s (libibverbs, two hosts) %s Its head says how to build and run it. It prints the completions and "+
		"the hardware counters that changed; tcpdump -w FILE udp port 4791 on either host records the packets.",
		ProgramFile, how)
}

func (w *writer) ruledOut() {
	w.heading("Ruled out")
	w.losses()
	w.injector()
	wrong, unchecked := w.packets.damaged()
	switch {
	case wrong > 0:
		w.item("Damage is not ruled out: %s above with a wrong ICRC.", plural(wrong, "packet"))
	case unchecked > 0:
		w.item("Damage: the ICRC of %s above could not be checked.", plural(unchecked, "packet"))
	default:
		w.item("Damage: each packet above carries a valid ICRC.")
	}
	w.peer()
	for _, c := range w.run.Report.Connections {
		if c.Index == w.finding.Connection {
			w.item("Outcome of connection %d: %s.", c.Index, c.Outcome)
		}
	}
	for _, note := range w.run.Report.Notes {
		w.item("Note: %s.", strings.TrimSuffix(note, "."))
	}
	w.b.WriteByte('\n')
}

// losses says what the checks of integrity found.
func (w *writer) losses() {
	for i := range w.run.Integrity.Conditions {
		c := &w.run.Integrity.Conditions[i]
		switch c.Status {
		case trace.StatusOK:
			w.item("Capture, %s: %s.", c.Name, c.Message)
		case trace.StatusViolated:
			w.item("Capture, %s, is NOT in order: %s.", c.Name, c.Message)
		default:
			w.item("Capture, %s: not checked (%s).", c.Name, c.Message)
		}
	}
}

// injector says what the switch did to packets.
func (w *writer) injector() {
	c := w.packets
	switch {
	case c.touched == 0:
		w.item("Injector: it changed and dropped nothing.")
	case c.touches():
		w.item("Injector: it touched %s of the trace, marked with brackets above where they are shown; the rule takes that "+
			"into account.", plural(int(c.touched), "packet"))
	default:
		w.item("Injector: it touched %s of the trace, none of those above.", plural(int(c.touched), "packet"))
	}
	for i := range w.run.Report.Events {
		e := &w.run.Report.Events[i]
		if e.Hits == 0 {
			w.item("Event %s did not occur: %s.", e.What, e.Why)
		}
	}
}

// peer says whether the other host broke rules.
func (w *writer) peer() {
	other := map[string]string{"requester": "responder", "responder": "requester"}[w.device.role]
	if other == "" {
		return
	}
	if n := w.counted(other); n > 0 {
		w.item("Peer: the %s broke rules, too (%s in this run).", other, plural(n, "violation"))
		return
	}
	w.item("Peer: the %s broke no rule in this run.", other)
}

// counters lists what the device itself counted.
func (w *writer) counters() {
	for i := range w.run.Counters.Hosts {
		h := &w.run.Counters.Hosts[i]
		if h.Name != w.device.role {
			continue
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(h.Finish)) {
			if n, ok := h.Delta(name); ok && n != 0 && !strings.HasPrefix(name, "candela") {
				list = append(list, fmt.Sprintf("%s %d", name, n))
			}
		}
		if len(list) == 0 {
			continue
		}
		w.heading("Counters of the device")
		w.paragraph("Differences over the run: %s.", strings.Join(list, ", "))
	}
}
