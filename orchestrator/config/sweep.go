package config

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Limits of a sweep. A thousand points run for minutes; the other limits bound the time of checking hostile files.
const (
	maxPoints      = 1000
	maxSweepValues = 1 << 21 // YAML values read, counted once per point
	maxSweepEvents = 1 << 18 // single events of all points
)

// Point is a point of a sweep, with the values that distinguish it.
type Point struct {
	Index    int // from 1; the last key of the sweep varies fastest
	Of       int // points of the sweep
	BaseSeed uint64
	Values   []Assigned // in the order of the file
}

// Assigned returns the values of a point; nil if the test does not belong to a sweep.
func (p *Point) Assigned() []Assigned {
	if p == nil {
		return nil
	}
	return p.Values
}

// Assigned is a value that a sweep assigns to one path, or the same value for several paths.
type Assigned struct {
	Path  string `json:"path"` // as the sweep writes it
	Value string `json:"value"`
}

// String prints the values for people: "psn=5 message-size=10240".
func (p *Point) String() string {
	names := p.Names()
	words := make([]string, len(p.Values))
	for i, v := range p.Values {
		words[i] = names[i] + "=" + v.Value
	}
	return strings.Join(words, " ")
}

// Names returns a short name for each value: the shortest end of its path that is unique in the sweep.
func (p *Point) Names() []string {
	paths := make([]string, len(p.Values))
	for i, v := range p.Values {
		paths[i], _, _ = strings.Cut(v.Path, ",")
	}
	names := make([]string, len(paths))
	for i := range paths {
		for words := 1; ; words++ {
			name := tail(paths[i], words)
			clash := slices.ContainsFunc(paths,
				func(other string) bool { return other != paths[i] && tail(other, words) == name })
			if names[i] = name; !clash || name == paths[i] {
				break
			}
		}
	}
	return names
}

// tail returns the last components of a path; words is their number.
func tail(path string, words int) string {
	at := len(path)
	for ; words > 0 && at >= 0; words-- {
		at = strings.LastIndexByte(path[:at], '.')
	}
	return path[at+1:]
}

// has reports whether the sweep assigns a value to path.
func (p *Point) has(path string) bool {
	return slices.ContainsFunc(p.Values, func(v Assigned) bool { return slices.Contains(splitPaths(v.Path), path) })
}

// seed returns the seed of the point. It depends only on the sweep's seed and the point's values, so adding a point
// does not change the others.
func (p *Point) seed(base uint64) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], base)
	h.Write(b[:])
	for _, v := range p.Values {
		h.Write([]byte(v.Path + "=" + v.Value + "\n"))
	}
	return h.Sum64() >> 11 // 53 bits, which JSON tools represent exactly
}

// Title returns the name of the test and, for a point of a sweep, its values.
func (t *Test) Title() string {
	if t.Point == nil {
		return t.Name
	}
	return t.Name + " [" + t.Point.String() + "]"
}

// WithBaseSeed returns a copy of t with another seed. A point of a sweep derives its own seed from it, unless the sweep
// varies seeds.
func (t *Test) WithBaseSeed(seed uint64) *Test {
	c := *t
	c.Seed, c.Point = t.Point.reseeded(t.Seed, seed)
	return &c
}

// reseeded returns the seed and the point for another base seed. In a sweep over seeds the point keeps its own seed.
// For a nil point the seed is base.
func (p *Point) reseeded(own, base uint64) (uint64, *Point) {
	if p == nil {
		return base, nil
	}
	c := *p
	c.BaseSeed = base
	if c.has("seed") {
		return own, &c
	}
	return c.seed(base), &c
}

// LoadAll is [Load] for files that may contain a sweep. It returns the test of each point, in order.
func LoadAll(file string, o Options) ([]*Test, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test: %w", err)
	}
	return ParseAll(file, data, o)
}

// ParseAll is [Parse] for files that may contain a sweep. Every point is checked as a separate test, and problems name
// the points at which they occur.
func ParseAll(file string, data []byte, o Options) ([]*Test, error) {
	d := newDecoder(file, o)
	root := d.parseDocument(data)
	spec := sweepOf(root)
	if spec == nil {
		t, err := Parse(file, data, o)
		if err != nil {
			return nil, err
		}
		return []*Test{t}, nil
	}
	s := sweep{d: d, root: without(root, "sweep")}
	s.read(spec)
	if len(d.problems) > 0 {
		return nil, withRest(&s, nicTest)
	}
	return s.tests()
}

// sweepOf returns the value of the document's key sweep, or nil.
func sweepOf(root *yaml.Node) *yaml.Node {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}
	if _, value := lookup(root, "sweep"); value != nil {
		return value
	}
	return nil
}

// lookup finds a key of a mapping; i is the index of its value.
func lookup(n *yaml.Node, key string) (i int, value *yaml.Node) {
	for i := 1; i < len(n.Content); i += 2 {
		if n.Content[i-1].Kind == yaml.ScalarNode && n.Content[i-1].Value == key {
			return i, n.Content[i]
		}
	}
	return 0, nil
}

// without returns a copy of a mapping without the first pair with a key. A second pair remains and is refused later.
func without(n *yaml.Node, key string) *yaml.Node {
	c := *n
	i, _ := lookup(n, key)
	c.Content = slices.Concat(n.Content[:i-1], n.Content[i+1:])
	return &c
}
