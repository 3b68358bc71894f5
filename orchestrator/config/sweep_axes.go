package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// sweep is a sweep that is being decoded.
type sweep struct {
	d    *decoder
	root *yaml.Node // the document without the sweep
	axes []axis
}

type axis struct {
	key    *yaml.Node
	paths  []string
	values [][]*yaml.Node // for each value, a node for each path
	alike  bool           // all paths get the same value
}

const sweepForm = "it takes a list, a range such as 1..9, or {from: 10, to: 200, step: 10}"

// pathForm matches a configuration path. Keys of expectations may contain a space.
var pathForm = regexp.MustCompile(
	`^[A-Za-z][A-Za-z0-9_ -]*(\[[0-9]{1,6}\])?(\.[A-Za-z][A-Za-z0-9_ -]*(\[[0-9]{1,6}\])?)*$`)

func splitPaths(key string) []string {
	paths := strings.Split(key, ",")
	for i := range paths {
		paths[i] = strings.TrimSpace(paths[i])
	}
	return paths
}

// read decodes the mapping of the sweep.
func (s *sweep) read(spec *yaml.Node) {
	const path = "sweep"
	if spec = s.d.enter(spec, path); spec == nil {
		return
	}
	if spec.Kind != yaml.MappingNode || len(spec.Content) == 0 {
		s.d.wrongType(spec, path, "a mapping from configuration paths to the values that they take")
		return
	}
	taken := make(map[string]bool)
	for key, value := range s.d.pairs(spec, path) {
		a := axis{key: key, paths: splitPaths(key.Value)}
		if !s.checkPaths(&a, taken) {
			continue
		}
		at := path + "." + printable(key.Value)
		if value = s.d.enter(value, at); value != nil {
			s.values(&a, value, at)
			s.axes = append(s.axes, a)
		}
	}
	s.checkSize(spec)
}

// checkPaths refuses paths that cannot be varied. taken has the paths so far and all their parents.
func (s *sweep) checkPaths(a *axis, taken map[string]bool) bool {
	for _, p := range a.paths {
		at := "sweep." + printable(a.key.Value)
		switch {
		case !pathForm.MatchString(p):
			s.d.problem(a.key, at, strconv.Quote(printable(p))+" is not a configuration path",
				"paths look like traffic.data-pkt-events[0].psn; commas join several")
		case p == "name" || p == "sweep" || strings.HasPrefix(p, "sweep."):
			s.d.problem(a.key, at, p+" cannot vary", "all points of a sweep belong to one test")
		case s.overlaps(p, taken):
			s.d.problem(a.key, at, p+" varies twice", "itself, or as part of another path")
		default:
			continue
		}
		return false
	}
	for _, p := range a.paths {
		for ; p != ""; p = parentPath(p) {
			taken[p] = true
		}
	}
	return true
}

// overlaps reports whether another key has taken p, its parent or its child.
func (s *sweep) overlaps(p string, taken map[string]bool) bool {
	if taken[p] {
		return true
	}
	for _, a := range s.axes {
		for _, other := range a.paths {
			if strings.HasPrefix(p, other+".") || strings.HasPrefix(p, other+"[") {
				return true
			}
		}
	}
	return false
}

// checkSize bounds the number of points and the work of reading them.
func (s *sweep) checkSize(spec *yaml.Node) {
	points, values := 1, nodes(s.root, maxSweepValues)
	for _, a := range s.axes {
		if points *= max(1, len(a.values)); points > maxPoints {
			s.d.problem(spec, "sweep", fmt.Sprintf("has more than %d points", maxPoints),
				"the points are all combinations of the values; vary fewer at a time")
			return
		}
	}
	if points*values > maxSweepValues {
		s.d.problem(spec, "sweep", fmt.Sprintf("%d points of a file with %d values are too many", points, values),
			fmt.Sprintf("the product of both can be at most %d", maxSweepValues))
	}
}

// nodes counts the values below n, up to a limit. An alias counts as one.
func nodes(n *yaml.Node, limit int) int {
	count := 1
	for _, c := range n.Content {
		if count < limit {
			count += nodes(c, limit-count)
		}
	}
	return count
}

// values decodes the values of an axis: a list or a range.
func (s *sweep) values(a *axis, n *yaml.Node, path string) {
	a.alike = true
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			itemPath := path + "[" + itoa(i) + "]"
			if item = s.d.enter(item, itemPath); item != nil {
				s.item(a, item, itemPath)
			}
		}
		if len(n.Content) == 0 {
			s.d.problem(n, path, "has no values", sweepForm)
		}
	case yaml.MappingNode:
		s.steps(a, n, path)
	default:
		if !s.span(a, n, path) {
			s.d.wrongType(n, path, strings.TrimPrefix(sweepForm, "it takes "))
		}
	}
	s.checkDistinct(a, path)
}

// item decodes an item of a list: a value, a range, or a list with a value for each path.
func (s *sweep) item(a *axis, n *yaml.Node, path string) {
	switch {
	case n.Kind == yaml.SequenceNode && len(a.paths) > 1 && len(n.Content) == len(a.paths):
		tuple := make([]*yaml.Node, len(a.paths))
		for i, v := range n.Content {
			itemPath := path + "[" + itoa(i) + "]"
			if tuple[i] = s.d.enter(v, itemPath); tuple[i] == nil || !s.scalar(tuple[i], itemPath) {
				return
			}
		}
		a.alike = false
		a.values = append(a.values, tuple)
	case n.Kind == yaml.SequenceNode && len(a.paths) > 1:
		s.d.problem(n, path, fmt.Sprintf("has %d values for %d paths", len(n.Content), len(a.paths)),
			"it takes one for each path, or a single one for all")
	case s.span(a, n, path):
	case s.scalar(n, path):
		s.add(a, n)
	}
}

func (s *sweep) scalar(n *yaml.Node, path string) bool {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return true
	}
	s.d.wrongType(n, path, "single values")
	return false
}

// add appends a value for all paths.
func (s *sweep) add(a *axis, n *yaml.Node) {
	same := make([]*yaml.Node, len(a.paths))
	for i := range same {
		same[i] = n
	}
	a.values = append(a.values, same)
}

var spanForm = regexp.MustCompile(`^([0-9]{1,18})\.\.([0-9]{1,18})$`)

// span decodes a range; a quoted one is a plain value. ok is false if n is not a range.
func (s *sweep) span(a *axis, n *yaml.Node, path string) (ok bool) {
	match := spanForm.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 || match == nil {
		return false
	}
	first, _ := strconv.ParseInt(match[1], 10, 64) // at most 18 digits
	last, _ := strconv.ParseInt(match[2], 10, 64)
	if first > last {
		s.d.problem(n, path, n.Value+" is empty", "write a range from the smaller to the larger number")
		return true
	}
	s.count(a, n, first, last, 1)
	return true
}

// count adds the numbers from first to last. It stops after maxPoints, as checkSize then refuses the sweep.
func (s *sweep) count(a *axis, at *yaml.Node, first, last, step int64) {
	for v := first; v <= last && len(a.values) <= maxPoints; v += step {
		n := scalarNode("!!int", strconv.FormatInt(v, 10))
		n.Line, n.Column = at.Line, at.Column
		s.add(a, n)
	}
}

// steps is the mapping form of a range.
type steps struct{ from, to, step int64 }

func stepsSchema() *object {
	n := integer{min: 0, max: maxRelPSN}
	return &object{
		title: "range", doc: "Whole numbers from one to another.",
		fields: []field{
			{key: "from", doc: "First value.", kind: n, required: true, at: at(func(s *steps) *int64 { return &s.from })},
			{key: "to", doc: "No value is greater.", kind: n, required: true, at: at(func(s *steps) *int64 { return &s.to })},
			{key: "step", doc: "Distance of the values.", kind: integer{min: 1, max: maxRelPSN}, def: "1",
				at: at(func(s *steps) *int64 { return &s.step })},
		},
	}
}

func (s *sweep) steps(a *axis, n *yaml.Node, path string) {
	var v steps
	stepsSchema().decode(s.d, n, path, &v)
	if s.d.touched[path] {
		return
	}
	if v.from > v.to {
		s.d.problem(n, path, fmt.Sprintf("from %d is greater than to %d", v.from, v.to), "")
		return
	}
	s.count(a, n, v.from, v.to, v.step)
}

// checkDistinct refuses repeated values, which would run the same test twice.
func (s *sweep) checkDistinct(a *axis, path string) {
	seen := make(map[string]bool, len(a.values))
	for _, v := range a.values {
		text := ""
		for _, n := range v {
			text += n.Value + "\n"
		}
		if seen[text] {
			s.d.problem(v[0], path, strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))+" is given twice", "")
			return
		}
		seen[text] = true
	}
}

// sweepKind declares the key for editors and the reference. [ParseAll] removes the sweep before decoding; where only a
// single test is possible, decode refuses it.
type sweepKind struct{}

func (sweepKind) allowed() string {
	return "a mapping from configuration paths to a list, a range such as 1..9, or {from, to, step}"
}

func (k sweepKind) decode(d *decoder, n *yaml.Node, path string, _ any) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, k.allowed())
		return
	}
	d.problem(n, path, "gives several tests; this command takes a single one",
		"candela run and candela config check take files with a sweep")
}

func (sweepKind) encode(any) *yaml.Node { return nil }

func (sweepKind) jsonSchema() map[string]any {
	scalar := map[string]any{"type": []string{"string", "number", "boolean"}}
	items := map[string]any{"oneOf": []any{scalar, map[string]any{"type": "array", "items": scalar}}}
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"oneOf": []any{
		map[string]any{"type": "array", "minItems": 1, "items": items},
		map[string]any{"type": "string", "pattern": spanForm.String()}, stepsSchema().jsonSchema(),
	}}}
}
