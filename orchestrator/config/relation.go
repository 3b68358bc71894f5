package config

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Relation is a comparison of two sums of counters. A name with * is the sum of all counters that match.
type Relation struct {
	Left, Right []Term
	Op          string // ==, !=, <=, >=, < or >
}

// Term is one part of a sum: a counter, or a whole number if Name is empty.
type Term struct {
	Negative bool
	Name     string
	Number   int64
}

// relationOps are the comparisons, longer ones first, as shorter ones may be their prefixes.
var relationOps = []string{"==", "!=", "<=", ">=", "<", ">"}

var (
	termForm   = newPattern(`^[A-Za-z*][A-Za-z0-9_.*-]{0,127}$`)
	numberWord = regexp.MustCompile(`^[0-9]{1,18}$`)
)

const maxTerms = 64

// ParseRelation parses a statement such as "sw0.tx-trim-packets + sw0.dropped-trim-packets == sw0.trim-packets". Words
// are separated by spaces.
func ParseRelation(text string) (Relation, error) {
	var r Relation
	side := &r.Left
	negative, want := false, true // want: a term comes next
	for _, word := range strings.Fields(text) {
		switch {
		case want && (word == "-" || word == "+"):
			return r, fmt.Errorf("want a counter instead of %q", word)
		case word == "+", word == "-":
			negative, want = word == "-", true
		case isOp(word):
			if want || r.Op != "" {
				return r, fmt.Errorf("%q is not possible there", word)
			}
			r.Op, side, negative, want = word, &r.Right, false, true
		case !want:
			return r, fmt.Errorf("+ or - is missing before %q", printable(word))
		default:
			t, err := parseTerm(word)
			if err != nil {
				return r, err
			}
			t.Negative = negative
			*side, want = append(*side, t), false
		}
	}
	switch {
	case r.Op == "":
		return r, fmt.Errorf("a comparison is missing (%s)", strings.Join(relationOps, " "))
	case want:
		return r, fmt.Errorf("the last counter is missing")
	case len(r.Left)+len(r.Right) > maxTerms:
		return r, fmt.Errorf("more than %d counters", maxTerms)
	}
	return r, nil
}

func isOp(word string) bool {
	for _, op := range relationOps {
		if word == op {
			return true
		}
	}
	return false
}

func parseTerm(word string) (Term, error) {
	if numberWord.MatchString(word) {
		var t Term
		_, err := fmt.Sscan(word, &t.Number)
		return t, err
	}
	if !termForm.MatchString(word) {
		return Term{}, fmt.Errorf("%q is neither a counter nor a whole number", printable(word))
	}
	return Term{Name: word}, nil
}

// String returns r in the form that ParseRelation reads.
func (r Relation) String() string { return sumText(r.Left) + " " + r.Op + " " + sumText(r.Right) }

func sumText(terms []Term) string {
	var b strings.Builder
	for i, t := range terms {
		switch {
		case t.Negative:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" + ")
		}
		if t.Name == "" {
			fmt.Fprint(&b, t.Number)
		} else {
			b.WriteString(t.Name)
		}
	}
	return b.String()
}

// Value returns the value of a sum; unknown lists the names that match no counter.
func Value(terms []Term, counters map[string]int64) (sum int64, unknown []string) {
	for _, t := range terms {
		v, ok := t.Number, true
		if t.Name != "" {
			v, ok = CounterValue(t.Name, counters)
		}
		if !ok {
			unknown = append(unknown, t.Name)
		}
		if t.Negative {
			v = -v
		}
		sum += v
	}
	return sum, unknown
}

// CounterValue returns a counter or, for a name with *, the sum of all that match; ok is false if none matches.
func CounterValue(name string, counters map[string]int64) (sum int64, ok bool) {
	if !strings.Contains(name, "*") {
		sum, ok = counters[name]
		return sum, ok
	}
	for have, n := range counters {
		if match, _ := path.Match(name, have); match { // termForm excludes malformed patterns
			sum, ok = sum+n, true
		}
	}
	return sum, ok
}

// Holds compares the two sums.
func (r Relation) Holds(left, right int64) bool {
	switch r.Op {
	case "==":
		return left == right
	case "!=":
		return left != right
	case "<=":
		return left <= right
	case ">=":
		return left >= right
	case "<":
		return left < right
	case ">":
		return left > right
	}
	return false
}

// relationKind is a relation in a test file.
type relationKind struct{}

func (relationKind) allowed() string {
	return "sums of counters and numbers on both sides of ==, !=, <=, >=, < or >, words separated by spaces"
}

func (k relationKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		d.wrongType(n, path, k.allowed())
		return
	}
	r, err := ParseRelation(n.Value)
	if err != nil {
		d.problem(n, path, show(n)+": "+err.Error(), "it takes "+k.allowed())
		return
	}
	*dst.(*Relation) = r
}

func (relationKind) encode(src any) *yaml.Node { return stringNode(src.(*Relation).String()) }

func (relationKind) jsonSchema() map[string]any { return map[string]any{"type": "string"} }
