package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A check decodes and checks the test in a document that has the values of one point.
type check[T any] func(d *decoder, root *yaml.Node) (T, error)

// withRest returns the problems of the sweep and those of its first point.
func withRest[T any](s *sweep, test check[T]) error {
	s.axes = slices.DeleteFunc(s.axes, func(a axis) bool { return len(a.values) == 0 })
	var rest *Error
	if _, err := test(s.document(&Point{Index: 1, Of: 1})); errors.As(err, &rest) {
		return newError(append(s.d.problems, rest.Problems...), s.d.omitted+rest.Omitted)
	}
	return s.d.err()
}

// pointsOf checks every point. finish assigns its point to each test.
func pointsOf[T any](s *sweep, test check[T], finish func(T, *Point) (T, error)) ([]T, error) {
	total := 1
	for _, a := range s.axes {
		total *= len(a.values)
	}
	tests, faults := make([]T, 0, total), newFaults(total)
	for i := range total {
		p := &Point{Index: i + 1, Of: total}
		t, err := test(s.document(p))
		var invalid *Error
		switch {
		case errors.As(err, &invalid):
			faults.add(p, invalid)
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if t, err = finish(t, p); err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return tests, nil
}

func nicTest(d *decoder, root *yaml.Node) (*Test, error) { return d.test(root) }

func (s *sweep) tests() ([]*Test, error) {
	events := 0
	return pointsOf(s, nicTest, func(t *Test, p *Point) (*Test, error) {
		t.Point, p.BaseSeed = p, t.Seed
		if events += len(t.Traffic.DataEvents) + len(t.Traffic.ControlEvents); events > maxSweepEvents {
			s.d.problem(s.axes[0].key, "sweep", fmt.Sprintf("all points together have more than %d events", maxSweepEvents), "")
			return nil, s.d.err()
		}
		return t.WithBaseSeed(t.Seed), nil
	})
}

// document returns the document for point p, and sets p.Values.
func (s *sweep) document(p *Point) (*decoder, *yaml.Node) {
	d, root, turn := newDecoder(s.d.file, s.d.options), s.root, p.Index-1
	chosen := make([][]*yaml.Node, len(s.axes))
	for i, a := range slices.Backward(s.axes) {
		chosen[i], turn = a.values[turn%len(a.values)], turn/len(a.values)
	}
	for i, a := range s.axes {
		for j, path := range a.paths {
			next, why := replace(root, segments(path), chosen[i][j], a.key)
			if why != "" {
				d.problem(a.key, "sweep."+printable(a.key.Value), path+" cannot be set", why)
				continue
			}
			root = next
			if !a.alike {
				p.Values = append(p.Values, Assigned{path, chosen[i][j].Value})
			}
		}
		if a.alike {
			p.Values = append(p.Values, Assigned{strings.Join(a.paths, ", "), chosen[i][0].Value})
		}
	}
	return d, root
}

// segment is a component of a path: a key or, if key is empty, an index in a list.
type segment struct {
	key  string
	item int
}

func segments(path string) []segment {
	var list []segment
	for word := range strings.SplitSeq(path, ".") {
		key, item, indexed := strings.Cut(word, "[")
		list = append(list, segment{key: key})
		if indexed {
			i, _ := strconv.Atoi(strings.TrimSuffix(item, "]")) // cannot fail: at most six digits
			list = append(list, segment{item: i})
		}
	}
	return list
}

// replace returns a copy of n with v as the value at path. Nodes off the path are shared, and missing mappings are
// created. why is the reason if the path cannot be set.
func replace(n *yaml.Node, path []segment, v, at *yaml.Node) (out *yaml.Node, why string) {
	if len(path) == 0 {
		return v, ""
	}
	c := resolved(n, v)
	if path[0].key == "" {
		if c.Kind != yaml.SequenceNode || path[0].item >= len(c.Content) {
			return nil, fmt.Sprintf("there is no item [%d]", path[0].item)
		}
		return into(c, path[0].item, path, v, at)
	}
	if c.Kind != yaml.MappingNode {
		return nil, fmt.Sprintf("the value around %s is not a mapping", path[0].key)
	}
	i, found := lookup(c, path[0].key)
	if found == nil {
		key := stringNode(path[0].key)
		key.Line, key.Column = at.Line, at.Column
		c.Content = append(slices.Clip(c.Content), key, nil)
		i = len(c.Content) - 1
	}
	return into(c, i, path, v, at)
}

// into replaces c.Content[i], which may be nil.
func into(c *yaml.Node, i int, path []segment, v, at *yaml.Node) (*yaml.Node, string) {
	child := c.Content[i]
	if child == nil {
		child = scalarNode("!!null", "")
	}
	next, why := replace(child, path[1:], v, at)
	if why != "" {
		return nil, why
	}
	c.Content = slices.Clone(c.Content)
	c.Content[i] = next
	return c, ""
}

// resolved returns a copy of n or, for an alias, of its target. A null becomes an empty mapping at the position of v.
func resolved(n, v *yaml.Node) *yaml.Node {
	c := *n
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		c = *n.Alias
		c.Line, c.Column, c.Anchor = n.Line, n.Column, ""
	}
	if c.Kind == yaml.ScalarNode && c.Tag == "!!null" {
		c = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: v.Line, Column: v.Column}
	}
	return &c
}

// faults collects the problems of all points, each once, with the points at which it occurs.
type faults struct {
	points  int
	list    []Problem
	count   map[Problem]int
	first   map[Problem]*Point
	omitted int
}

func newFaults(points int) *faults {
	return &faults{points: points, count: make(map[Problem]int), first: make(map[Problem]*Point)}
}

func (f *faults) add(p *Point, e *Error) {
	f.omitted = max(f.omitted, e.Omitted)
	for _, problem := range e.Problems {
		if f.count[problem]++; f.count[problem] > 1 {
			continue
		}
		if len(f.list) == maxCollected {
			f.omitted++
			continue
		}
		f.first[problem] = p
		f.list = append(f.list, problem)
	}
}

func (f *faults) err() error {
	for i, problem := range f.list {
		p := f.first[problem]
		where := fmt.Sprintf("at point %d of %d: %s", p.Index, p.Of, p)
		switch n := f.count[problem]; {
		case n == f.points:
			continue // it does not depend on the sweep
		case n > 1:
			where = fmt.Sprintf("at %d of %d points, the first is %d: %s", n, p.Of, p.Index, p)
		}
		f.list[i].Why = strings.TrimPrefix(problem.Why+"\n"+where, "\n")
	}
	return newError(f.list, f.omitted)
}
