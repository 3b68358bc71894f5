package aqm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// QueuingSchema names the format of a parsed text of `show queuing interface` as JSON.
const QueuingSchema = "candela.queuing/v1"

// Queuing is what `show queuing interface` shows of interfaces.
type Queuing struct {
	Schema     string      `json:"schema"`
	Interfaces []Interface `json:"interfaces"`
}

// Interface is an interface in it.
type Interface struct {
	Name   string       `json:"name"`             // such as Ethernet1/1
	Policy string       `json:"policy,omitempty"` // Interface or System: where the queuing policy is attached
	Queues []QueueShape `json:"queues,omitempty"` // of the table of shapes, in the order of the text
	Groups []ShownGroup `json:"groups"`
	Line   int          `json:"-"`
}

// QueueShape is a line of the table of shapes; "-" is kept. Bandwidth is in percent; what (D) of a limit means is not
// explained.
type QueueShape struct {
	Group     int    `json:"group"`
	Bandwidth string `json:"bandwidth"`
	Priority  string `json:"priority"`
	Min       string `json:"min"`
	Max       string `json:"max"`
	Units     string `json:"units"`
	Limit     string `json:"limit"`
}

// ShownGroup is the counters of a QoS group.
type ShownGroup struct {
	Name    string       `json:"name"`   // such as QOS GROUP 0
	Number  int          `json:"number"` // −1: it has none, such as CONTROL QOS GROUP
	Columns []string     `json:"columns"`
	Rows    []CounterRow `json:"rows"`
	Line    int          `json:"-"`
}

// CounterRow is a counter by column.
type CounterRow struct {
	Name   string   `json:"name"`
	Values []uint64 `json:"values"`
	Line   int      `json:"-"`
}

// Names of rows that have a meaning here; others are kept and not judged.
const (
	RowTxPackets    = "Tx Pkts"
	RowTxBytes      = "Tx Byts"
	RowEarlyPackets = "WRED/AFD Drop Pkts"
	RowEarlyBytes   = "WRED/AFD Drop Byts"
	RowDepth        = "Q Depth Byts"
	RowDropped      = "WD & Tail Drop Pkts"
)

// Row returns a counter by its name; nil: the text has none.
func (g *ShownGroup) Row(name string) *CounterRow {
	i := slices.IndexFunc(g.Rows, func(r CounterRow) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &g.Rows[i]
}

// Sum returns the sum of a counter's columns; false: the text has none.
func (g *ShownGroup) Sum(name string) (sum uint64, ok bool) {
	r := g.Row(name)
	if r == nil {
		return 0, false
	}
	for _, v := range r.Values {
		sum += v
	}
	return sum, true
}

// Interface returns an interface by its name; nil: the text has none.
func (q *Queuing) Interface(name string) *Interface {
	i := slices.IndexFunc(q.Interfaces, func(f Interface) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &q.Interfaces[i]
}

// Group returns a group by its name; nil: there is none.
func (f *Interface) Group(name string) *ShownGroup {
	i := slices.IndexFunc(f.Groups, func(g ShownGroup) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Groups[i]
}

// maxQueuing bounds a text: a chassis of 1152 interfaces with 10 groups has 12 MB.
const maxQueuing = 64 << 20

// ReadQueuing reads a text of `show queuing interface` with any number of interfaces; file is its name in errors, each
// of which names line and column. Prompts, other commands' output and tables of ingress queues are skipped. Spaces and
// line breaks are of no account, so that a text that was pasted into one line is read, too.
func ReadQueuing(file string, in io.Reader) (*Queuing, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxQueuing+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case len(text) > maxQueuing:
		return nil, fmt.Errorf("%s: longer than %d MB, want the output of `show queuing interface`", file, maxQueuing>>20)
	}
	return ParseQueuing(file, text)
}

// ParseQueuing is ReadQueuing of a text in memory.
func ParseQueuing(file string, text []byte) (*Queuing, error) {
	p := &queuingParser{file: file, words: splitQueuing(text)}
	q := &Queuing{Schema: QueuingSchema}
	for {
		p.skipTo("Egress", "Queuing", "for")
		if p.done() {
			break
		}
		f, err := p.readInterface()
		if err != nil {
			return nil, err
		}
		if old := q.Interface(f.Name); old != nil {
			return nil, p.failAt(f.Line, 1, "%s is already on line %d, want each interface once: one output in a file",
				f.Name, old.Line)
		}
		q.Interfaces = append(q.Interfaces, *f)
	}
	if len(q.Interfaces) == 0 {
		return nil, p.failAt(1, 1, "no interface, want \"Egress Queuing for NAME\" as `show queuing interface` prints it")
	}
	return q, nil
}

// word is a word, a bar, or a rule such as +----+.
type word struct {
	text         string
	line, column int
}

func (w *word) rule() bool {
	return len(w.text) > 2 && strings.Trim(w.text, "+-=") == "" || w.text == "+"
}

// splitQueuing splits a text into words; columns count characters from 1.
func splitQueuing(text []byte) (words []word) {
	line, column := 1, 1
	start := -1
	var at word
	end := func(i int) {
		if start >= 0 {
			at.text = string(text[start:i])
			words = append(words, at)
			start = -1
		}
	}
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		switch c {
		case ' ', '\t', '\r', '\n', '\u00a0', '\ufeff':
			end(i)
		case '|':
			end(i)
			words = append(words, word{"|", line, column})
		default:
			if start < 0 {
				start, at = i, word{"", line, column}
			}
		}
		i += size
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	end(len(text))
	return words
}

type queuingParser struct {
	file  string
	words []word
	at    int
}

func (p *queuingParser) done() bool { return p.at >= len(p.words) }

// look returns the word so many words ahead.
func (p *queuingParser) look(ahead int) *word {
	if p.at+ahead < len(p.words) {
		return &p.words[p.at+ahead]
	}
	last := word{line: 1}
	if n := len(p.words); n > 0 {
		last = p.words[n-1]
	}
	return &word{"", last.line, last.column + utf8.RuneCountInString(last.text)}
}

func (p *queuingParser) is(texts ...string) bool {
	for i, t := range texts {
		if p.look(i).text != t {
			return false
		}
	}
	return true
}

func (p *queuingParser) skipTo(texts ...string) {
	for !p.done() && !p.is(texts...) {
		p.at++
	}
}

func (p *queuingParser) failAt(line, column int, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %s", p.file, line, column, fmt.Sprintf(format, args...))
}

// fail returns an error at the next word.
func (p *queuingParser) fail(format string, args ...any) error {
	w := p.look(0)
	return p.failAt(w.line, w.column, format, args...)
}

// found says what the next word is.
func (p *queuingParser) found() string {
	if p.done() {
		return "the text ends here"
	}
	return strconv.Quote(p.look(0).text)
}

func (p *queuingParser) readInterface() (*Interface, error) {
	f := &Interface{Line: p.look(0).line}
	p.at += 3
	if w := p.look(0); p.done() || w.rule() || w.text == "|" || strings.HasPrefix(w.text, "[") {
		return nil, p.fail("%s, want the name of an interface", p.found())
	}
	f.Name = p.look(0).text
	p.at++
	if w := p.look(0); len(w.text) > 2 && w.text[0] == '[' && w.text[len(w.text)-1] == ']' {
		f.Policy = w.text[1 : len(w.text)-1]
		p.at++
	}
	if err := p.readShapes(f); err != nil {
		return nil, err
	}
	for !p.done() && !p.is("Egress", "Queuing", "for") && !p.is("Ingress", "Queuing", "for") {
		if !p.is("|") || p.at+1 == len(p.words) {
			p.at++
			continue
		}
		if err := p.readGroup(f); err != nil {
			return nil, err
		}
	}
	if len(f.Groups) == 0 && len(f.Queues) == 0 {
		return nil, p.failAt(f.Line, 1, "%s has neither a table of queues nor counters of a QoS group", f.Name)
	}
	return f, nil
}

// readShapes reads the table of shapes, if there is one.
func (p *queuingParser) readShapes(f *Interface) error {
	start := p.at
	for p.look(0).rule() {
		p.at++
	}
	if !p.is("QoS-Group#") {
		p.at = start
		return nil
	}
	for !p.done() && !p.look(0).rule() {
		if p.is("|") || p.is("Egress", "Queuing") {
			return p.fail("%s in the heading of the table of queues, want a line of dashes below it", p.found())
		}
		p.at++
	}
	for p.look(0).rule() {
		p.at++
	}
	for {
		w := p.look(0)
		n, err := strconv.Atoi(w.text)
		if err != nil {
			return nil // the table is over
		}
		if n < 0 || slices.ContainsFunc(f.Queues, func(s QueueShape) bool { return s.Group == n }) {
			return p.fail("QoS group %d, want each group once, from 0", n)
		}
		var cells [6]string
		for i := range cells {
			p.at++
			if w := p.look(0); p.done() || w.rule() || w.text == "|" {
				return p.fail("%s, want %s of QoS group %d", p.found(), shapeColumns[i], n)
			}
			cells[i] = p.look(0).text
		}
		p.at++
		f.Queues = append(f.Queues, QueueShape{n, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
}

var shapeColumns = [...]string{"Bandwidth%", "PrioLevel", "Min", "Max", "Units", "QLimit"}

// cell is what is between two bars.
type cell struct {
	text         string
	line, column int
}

// cells reads the cells up to the next rule, which it skips.
func (p *queuingParser) cells() (list []cell, err error) {
	now := cell{}
	for ; !p.look(0).rule(); p.at++ {
		switch w := p.look(0); {
		case p.done():
			return nil, p.fail("the text ends within a table, want a line such as +----+ after it")
		case w.text == "|":
			list = append(list, now)
			now = cell{line: w.line, column: w.column + 1}
		case now.text == "":
			now = cell{w.text, w.line, w.column}
		default:
			now.text += " " + w.text
		}
	}
	if now.text != "" {
		return nil, p.failAt(now.line, now.column, "%q is not between bars, want | after each value", now.text)
	}
	for !p.done() && p.look(0).rule() {
		p.at++
	}
	return slices.DeleteFunc(list, func(c cell) bool { return c.text == "" }), nil
}

// readGroup reads the title and the counters of a QoS group.
func (p *queuingParser) readGroup(f *Interface) error {
	title, err := p.cells()
	if err != nil {
		return err
	}
	if len(title) == 0 {
		return nil
	}
	g := ShownGroup{Name: title[0].text, Number: -1, Line: title[0].line}
	at := func(c cell, format string, args ...any) error { return p.failAt(c.line, c.column, format, args...) }
	kind, number, numbered := strings.Cut(g.Name, "QOS GROUP")
	switch n, err := strconv.Atoi(strings.TrimSpace(number)); {
	case len(title) > 1 || !numbered:
		return at(title[0], "%q, want QOS GROUP and its number as the title of a table", g.Name)
	case err == nil && n >= 0:
		g.Number = n
	case number != "" || kind == "":
		return at(title[0], "%q, want a number from 0 after QOS GROUP", g.Name)
	}
	if old := f.Group(g.Name); old != nil {
		return at(title[0], "%s of %s is already on line %d", g.Name, f.Name, old.Line)
	}
	body, err := p.cells()
	if err != nil {
		return err
	}
	if len(body) > 0 && body[0].text == "Unicast" {
		for _, c := range body {
			g.Columns = append(g.Columns, c.text)
		}
		if body, err = p.cells(); err != nil {
			return err
		}
	} else {
		g.Columns = []string{"Unicast"} // newer releases with one column name none
	}
	if g.Rows, err = readRows(body, len(g.Columns), at); err != nil {
		return err
	}
	if len(g.Rows) == 0 {
		return at(title[0], "%s of %s has no counters", g.Name, f.Name)
	}
	f.Groups = append(f.Groups, g)
	return nil
}

// readRows takes cells as names, each followed by its values.
func readRows(body []cell, columns int, fail func(cell, string, ...any) error) (rows []CounterRow, err error) {
	for i := 0; i < len(body); i += 1 + columns {
		c := body[i]
		r := CounterRow{Name: c.text, Line: c.line}
		if _, err := strconv.ParseInt(c.text, 10, 64); err == nil {
			return nil, fail(c, "%s, want the name of a counter: each counter has %d values", c.text, columns)
		}
		if slices.ContainsFunc(rows, func(o CounterRow) bool { return o.Name == r.Name }) {
			return nil, fail(c, "%s is in the table twice", r.Name)
		}
		for j := 1; j <= columns; j++ {
			if i+j >= len(body) {
				return nil, fail(c, "%s has %d values, want %d", r.Name, j-1, columns)
			}
			v := body[i+j]
			n, err := strconv.ParseUint(v.text, 10, 64)
			if err != nil {
				why := "want a whole number from 0"
				if errors.Is(err, strconv.ErrRange) {
					why = "want a number of at most 64 bits"
				}
				return nil, fail(v, "%q as value %d of %s, %s", v.text, j, r.Name, why)
			}
			r.Values = append(r.Values, n)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// WriteTo writes the text in the layout of `show queuing interface`.
func (q *Queuing) WriteTo(to io.Writer) (int64, error) {
	w := &countingWriter{to: to}
	b := bufio.NewWriter(w)
	for i := range q.Interfaces {
		q.Interfaces[i].write(b)
	}
	err := b.Flush()
	return w.n, err
}

type countingWriter struct {
	to io.Writer
	n  int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.n += int64(n)
	return n, err
}

const (
	shapeRule = "------------------------------------------------------------------------------\n"
	groupRule = "+-------------------------------------------------------------+\n"
)

func (f *Interface) write(w io.Writer) {
	policy := ""
	if f.Policy != "" {
		policy = " [" + f.Policy + "]"
	}
	fmt.Fprintf(w, "\nEgress Queuing for %s%s\n", f.Name, policy)
	if len(f.Queues) > 0 {
		fmt.Fprint(w, shapeRule,
			"QoS-Group# Bandwidth% PrioLevel                Shape                   QLimit\n",
			"                                   Min          Max        Units\n", shapeRule)
	}
	for _, s := range f.Queues {
		fmt.Fprintf(w, "%7d %13s %9s %11s %12s %5s %15s\n", s.Group, s.Bandwidth, s.Priority, s.Min, s.Max, s.Units, s.Limit)
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		if i == 0 {
			fmt.Fprint(w, groupRule)
		}
		fmt.Fprintf(w, "|%30s%-31s|\n%s|%26s |", "", g.Name, groupRule, "")
		for j, c := range g.Columns {
			if j == 0 {
				c = "  " + c
			}
			fmt.Fprintf(w, "%-16s|", c)
		}
		fmt.Fprint(w, "\n", groupRule)
		for _, r := range g.Rows {
			fmt.Fprintf(w, "|%26s |", r.Name)
			for _, v := range r.Values {
				fmt.Fprintf(w, "%16d|", v)
			}
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, groupRule)
	}
}
