package tna

import (
	"fmt"
	"strconv"
	"strings"
)

// expr is an expression.
type expr struct {
	op   string // "num", "name", "call", "list", "slice", "cast", "any", "not", …, or a binary operator
	text string // of names, with dots; of calls, the method
	args []*expr
	num  value
	hi   int // of slices and casts
	lo   int
	at   string
}

// stmt is a statement.
type stmt struct {
	kind      string // "if", "block", "set", "call", "var", "transition"
	cond, lhs *expr
	rhs       *expr
	body      []*stmt
	other     *stmt
	name      string
	width     int
	cases     []selectCase
	at        string
}

// selectCase is a case of a select, or an entry of a table.
type selectCase struct {
	keys  []*expr
	state string
	call  *expr
}

type field struct {
	name, typ string
	width     int
}

type action struct {
	name, control string // in the sources and in the contract
	params        []field
	body          []*stmt
}

type table struct {
	name, control string
	keys          []*expr
	kinds         []string
	actions       []string
	defaultAction *expr
	entries       []selectCase
	counter       string
}

// instance is an extern object.
type instance struct {
	name, typ string
	types     []string
	args      []*expr
	apply     []*stmt // of register actions
	params    []string
	control   string // name in the contract
	unit      *unit  // of a control in a control
}

// unit is a parser or a control.
type unit struct {
	name      string
	params    []field
	actions   map[string]*action
	tables    map[string]*table
	instances map[string]*instance
	states    map[string][]*stmt
	apply     []*stmt
}

// program is what the sources declare.
type program struct {
	consts  map[string]value
	structs map[string][]field
	headers map[string]bool
	units   map[string]*unit
	types   map[string]int // widths of the architecture's types
}

type reader struct {
	ts []token
	i  int
	p  *program
}

func (r *reader) peek() string {
	if r.i < len(r.ts) {
		return r.ts[r.i].text
	}
	return ""
}

func (r *reader) ahead(n int) string {
	if r.i+n < len(r.ts) {
		return r.ts[r.i+n].text
	}
	return ""
}

func (r *reader) at() string { return r.ts[min(r.i, len(r.ts)-1)].at }

func (r *reader) next() string {
	t := r.peek()
	r.i++
	return t
}

// fault ends the reading; parse recovers it.
func (r *reader) fault(format string, args ...any) {
	panic(fault(r.at() + ": " + fmt.Sprintf(format, args...)))
}

type fault string

func (r *reader) expect(t string) {
	if got := r.next(); got != t {
		r.i--
		r.fault("%q, want %q", got, t)
	}
}

func (r *reader) accept(t string) bool {
	if r.peek() == t {
		r.i++
		return true
	}
	return false
}

// parse reads a program.
func parse(ts []token, types map[string]int) (p *program, err error) {
	defer func() {
		if f, ok := recover().(fault); ok {
			err = fmt.Errorf("%s", string(f))
		}
	}()
	r := &reader{ts: ts, p: &program{map[string]value{"PORT_METADATA_SIZE": {}}, intrinsics(), map[string]bool{},
		map[string]*unit{}, types}}
	for r.i < len(ts) {
		r.declaration()
	}
	return r.p, nil
}

func (r *reader) declaration() {
	switch r.peek() {
	case "const":
		r.constant()
	case "header", "struct":
		header := r.next() == "header"
		name := r.next()
		r.p.headers[name] = header
		r.expect("{")
		var fields []field
		for !r.accept("}") {
			r.annotations()
			typ, width := r.typ()
			fields = append(fields, field{r.next(), typ, width})
			r.expect(";")
		}
		r.p.structs[name] = fields
	case "parser", "control":
		r.unit()
	case "bit": // a function
		r.typ()
		r.i++
		r.parameters()
		r.block()
	default: // Pipeline(…) pipe; Switch(pipe) main;
		for r.next() != ";" {
		}
	}
}

func (r *reader) constant() {
	r.expect("const")
	_, width := r.typ()
	name := r.next()
	r.expect("=")
	v := r.expression().num
	r.expect(";")
	r.p.consts[name] = value{v.hi, v.lo, width}.cut()
}

// typ reads a type; it returns its name and, of bits, the width.
func (r *reader) typ() (string, int) {
	name := r.next()
	if name == "bit" {
		r.expect("<")
		n, err := strconv.Atoi(r.next())
		if err != nil {
			r.fault("a width is a number")
		}
		r.expect(">")
		return "bit", n
	}
	return name, r.p.types[name]
}

func (r *reader) annotations() (name string) {
	for r.accept("@") {
		word := r.next()
		if !r.accept("(") {
			continue
		}
		if word == "name" {
			name = strings.TrimPrefix(strings.Trim(r.peek(), `"`), ".")
		}
		for r.next() != ")" {
		}
	}
	return name
}

func (r *reader) parameters() (out []field) {
	r.expect("(")
	for !r.accept(")") {
		if d := r.peek(); d == "in" || d == "out" || d == "inout" {
			r.i++
		}
		typ, width := r.typ()
		out = append(out, field{r.next(), typ, width})
		r.accept(",")
	}
	return out
}

func (r *reader) unit() {
	r.i++ // parser or control
	u := &unit{name: r.next(), actions: map[string]*action{}, tables: map[string]*table{},
		instances: map[string]*instance{}, states: map[string][]*stmt{}}
	u.params = r.parameters()
	r.expect("{")
	for !r.accept("}") {
		control := r.annotations()
		switch r.peek() {
		case "state":
			r.i++
			name := r.next()
			u.states[name] = r.block()
		case "action":
			r.i++
			name := r.next()
			params := r.parameters()
			u.actions[name] = &action{name: name, control: control, params: params, body: r.block()}
		case "table":
			t := r.table()
			t.control = control
			u.tables[t.name] = t
		case "apply":
			r.i++
			u.apply = r.block()
		default:
			in := r.instance()
			in.control = control
			u.instances[in.name] = in
		}
	}
	r.p.units[u.name] = u
}

func (r *reader) instance() *instance {
	in := &instance{}
	if in.typ, _ = r.typ(); r.p.units[in.typ] != nil {
		in.unit = r.p.units[in.typ]
	}
	if r.accept("<") {
		for !r.accept(">") {
			typ, width := r.typ()
			if typ == "bit" {
				typ = strconv.Itoa(width)
			}
			in.types = append(in.types, typ)
			r.accept(",")
		}
	}
	r.expect("(")
	for !r.accept(")") {
		in.args = append(in.args, r.expression())
		r.accept(",")
	}
	in.name = r.next()
	if r.accept("=") {
		r.expect("{")
		r.expect("void")
		r.expect("apply")
		for _, f := range r.parameters() {
			in.params = append(in.params, f.name)
		}
		in.apply = r.block()
		r.expect("}")
	}
	r.expect(";")
	return in
}

func (r *reader) table() *table {
	r.expect("table")
	t := &table{name: r.next()}
	r.expect("{")
	for !r.accept("}") {
		r.accept("const")
		switch property := r.next(); property {
		case "key":
			r.expect("=")
			r.expect("{")
			for !r.accept("}") {
				t.keys = append(t.keys, r.expression())
				r.expect(":")
				t.kinds = append(t.kinds, r.next())
				r.annotations()
				r.expect(";")
			}
		case "actions":
			r.expect("=")
			r.expect("{")
			for !r.accept("}") {
				r.annotations()
				t.actions = append(t.actions, r.next())
				r.expect(";")
			}
		case "default_action":
			r.expect("=")
			t.defaultAction = r.expression()
			r.expect(";")
		case "entries":
			r.expect("=")
			r.expect("{")
			for !r.accept("}") {
				c := selectCase{keys: r.keyset()}
				r.expect(":")
				c.call = r.expression()
				r.expect(";")
				t.entries = append(t.entries, c)
			}
		case "counters", "size":
			r.expect("=")
			e := r.expression()
			if property == "counters" {
				t.counter = e.text
			}
			r.expect(";")
		default:
			r.fault("table property %q is not known", property)
		}
	}
	return t
}

// keyset reads the keys of an entry or a case: one, or several in parentheses.
func (r *reader) keyset() []*expr {
	if r.peek() != "(" {
		return []*expr{r.keyOf()}
	}
	start := r.i
	r.i++
	keys := []*expr{r.keyOf()}
	for r.accept(",") {
		keys = append(keys, r.keyOf())
	}
	r.expect(")")
	if len(keys) == 1 && r.peek() != ":" { // a parenthesis of an expression
		r.i = start
		return []*expr{r.keyOf()}
	}
	return keys
}

func (r *reader) keyOf() *expr {
	at := r.at()
	if r.accept("_") || r.accept("default") {
		return &expr{op: "any", at: at}
	}
	e := r.expression()
	for _, op := range []string{"&&&", ".."} {
		if r.accept(op) {
			return &expr{op: op, args: []*expr{e, r.expression()}, at: at}
		}
	}
	return e
}

func (r *reader) block() []*stmt {
	r.expect("{")
	var out []*stmt
	for !r.accept("}") {
		if s := r.statement(); s != nil {
			out = append(out, s)
		}
	}
	return out
}

func (r *reader) statement() *stmt {
	at := r.at()
	switch {
	case r.accept(";"):
		return nil
	case r.peek() == "{":
		return &stmt{kind: "block", body: r.block(), at: at}
	case r.accept("if"):
		s := &stmt{kind: "if", at: at}
		r.expect("(")
		s.cond = r.expression()
		r.expect(")")
		s.body = []*stmt{r.statement()}
		if r.accept("else") {
			s.other = r.statement()
		}
		return s
	case r.accept("transition"):
		s := &stmt{kind: "transition", at: at}
		if !r.accept("select") {
			s.name = r.next()
			r.expect(";")
			return s
		}
		r.expect("(")
		s.rhs = &expr{op: "list", at: at}
		for !r.accept(")") {
			s.rhs.args = append(s.rhs.args, r.expression())
			r.accept(",")
		}
		r.expect("{")
		for !r.accept("}") {
			c := selectCase{keys: r.keyset()}
			r.expect(":")
			c.state = r.next()
			r.expect(";")
			s.cases = append(s.cases, c)
		}
		return s
	}
	if r.accept("return") {
		r.expression()
		r.expect(";")
		return nil
	}
	if r.peek() == "bit" {
		s := &stmt{kind: "var", at: at}
		_, s.width = r.typ()
		s.name = r.next()
		if r.accept("=") {
			s.rhs = r.expression()
		}
		r.expect(";")
		return s
	}
	e := r.expression()
	if r.accept("=") {
		s := &stmt{kind: "set", lhs: e, rhs: r.expression(), at: at}
		r.expect(";")
		return s
	}
	r.expect(";")
	return &stmt{kind: "call", rhs: e, at: at}
}

// levels are the binary operators, the loosest first.
var levels = [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<"},
	{"+", "-", "|+|", "|-|", "++"}, {"*"}}

func (r *reader) expression() *expr {
	e := r.binary(0)
	if at := r.at(); r.accept("?") {
		yes := r.expression()
		r.expect(":")
		e = &expr{op: "?", args: []*expr{e, yes, r.expression()}, at: at}
	}
	return e
}

func (r *reader) binary(level int) *expr {
	if level == len(levels) {
		return r.unary()
	}
	e := r.binary(level + 1)
	for {
		at := r.at()
		op := r.peek()
		if levels[level][0] == "<<" && op == ">" && r.ahead(1) == ">" {
			r.i++
			op = ">>"
		} else if indexOf(levels[level], op) < 0 {
			break
		}
		r.i++
		e = r.fold(&expr{op: op, args: []*expr{e, r.binary(level + 1)}, at: at})
	}
	return e
}

// fold computes what is constant.
func (r *reader) fold(e *expr) *expr {
	for _, a := range e.args {
		if a.op != "num" {
			return e
		}
	}
	v, ok := compute(e.op, e.args[0].num, e.args[1].num)
	if !ok {
		return e
	}
	return &expr{op: "num", num: v, at: e.at}
}

func (r *reader) unary() *expr {
	at := r.at()
	switch {
	case r.accept("!"):
		return &expr{op: "!", args: []*expr{r.unary()}, at: at}
	case r.accept("~"):
		return &expr{op: "~", args: []*expr{r.unary()}, at: at}
	case r.peek() == "(" && (r.ahead(1) == "bit" || r.p.types[r.ahead(1)] > 0) && r.ahead(2) != ".":
		r.i++
		_, width := r.typ()
		r.expect(")")
		e := r.unary()
		if e.op == "num" {
			return &expr{op: "num", num: value{e.num.hi, e.num.lo, width}.cut(), at: at}
		}
		return &expr{op: "cast", args: []*expr{e}, hi: width, at: at}
	}
	return r.postfix(r.primary())
}

func (r *reader) primary() *expr {
	at := r.at()
	switch t := r.next(); {
	case t == "(":
		e := r.expression()
		r.expect(")")
		return e
	case t == "{":
		e := &expr{op: "list", at: at}
		for !r.accept("}") {
			e.args = append(e.args, r.expression())
			r.accept(",")
		}
		return e
	case t[0] >= '0' && t[0] <= '9':
		return &expr{op: "num", num: r.number(t), at: at}
	case t == "true", t == "false":
		v := value{width: 1}
		if t == "true" {
			v.lo = 1
		}
		return &expr{op: "num", num: v, at: at}
	case tokens.MatchString(t) && (t[0] == '_' || t[0] >= 'A'):
		if v, ok := r.p.consts[t]; ok {
			return &expr{op: "num", num: v, at: at}
		}
		return &expr{op: "name", text: t, at: at}
	default:
		r.i--
		r.fault("%q begins no expression", t)
		return nil
	}
}

func (r *reader) number(t string) value {
	width := 0
	if i := strings.IndexAny(t, "ws"); i > 0 {
		width, _ = strconv.Atoi(t[:i])
		t = t[i+1:]
	}
	n, err := strconv.ParseUint(t, 0, 64)
	if err != nil {
		r.fault("%v", err)
	}
	return value{0, n, width}
}

func (r *reader) postfix(e *expr) *expr {
	for {
		at := r.at()
		switch {
		case r.accept("."):
			name := r.next()
			if e.op == "name" && !(r.peek() == "(" || r.peek() == "<" && indexOf([]string{"lookahead", "emit"}, name) >= 0) {
				e = &expr{op: "name", text: e.text + "." + name, at: at}
				continue
			}
			call := &expr{op: "method", text: name, args: []*expr{e}, at: at}
			e = call
		case r.peek() == "<" && e.op == "method" && indexOf([]string{"lookahead", "emit"}, e.text) >= 0:
			r.i++
			e.args = append(e.args, &expr{op: "name", text: r.next()})
			r.expect(">")
		case r.accept("("):
			call := &expr{op: "call", text: e.text, at: at}
			if e.op == "method" {
				call.op, call.args = "invoke", e.args
			}
			for !r.accept(")") {
				call.args = append(call.args, r.expression())
				r.accept(",")
			}
			e = call
		case r.accept("["):
			hi := r.expression()
			r.expect(":")
			lo := r.expression()
			r.expect("]")
			e = &expr{op: "slice", args: []*expr{e}, hi: int(hi.num.lo), lo: int(lo.num.lo), at: at}
		default:
			return e
		}
	}
}
