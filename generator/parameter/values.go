package parameter

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/clock"
)

// Values holds a value for each parameter of a table. The getters panic on a name that the table lacks or of another
// kind, because that is a bug in the model.
type Values struct {
	table Table
	cells []cell
}

// cell is one value, in the smallest unit of its parameter.
type cell struct {
	set   bool
	n     int64
	ints  []int64 // of Ranges: first and last of each
	text  string  // of File
	items []Values
}

// Values returns the defaults, overridden by settings of the form name=text.
func (t Table) Values(settings ...string) (Values, error) {
	v := t.Defaults()
	for _, s := range settings {
		name, text, ok := strings.Cut(s, "=")
		if !ok {
			return Values{}, fmt.Errorf("setting %q: want name=value", s)
		}
		if err := v.Set(name, text); err != nil {
			return Values{}, err
		}
	}
	return v, nil
}

// Defaults returns every parameter at its default. Parameters without a default are not set.
func (t Table) Defaults() Values {
	v := Values{table: t, cells: make([]cell, len(t))}
	for i := range t {
		p := &t[i]
		if p.Kind == List || p.Kind == Integers || p.Kind == Ranges || p.Required || p.Optional {
			continue
		}
		if p.Kind == File {
			v.cells[i] = cell{set: true, text: p.Default}
			continue
		}
		n, err := p.Parse(p.Default)
		if err != nil {
			panic(fmt.Sprintf("parameter: default of %s: %v", p.Name, err)) // a test of the model calls Check
		}
		v.cells[i] = cell{set: true, n: n}
	}
	return v
}

// Table returns the table of the values.
func (v Values) Table() Table { return v.table }

// Set parses the text of a parameter's value. Integers are separated by commas.
func (v Values) Set(name, text string) error {
	i := v.table.Find(name)
	if i < 0 {
		return fmt.Errorf("there is no parameter %q (there are: %s)", name, strings.Join(v.table.Names(), ", "))
	}
	p := &v.table[i]
	if p.Kind == File {
		v.SetFile(name, text)
		return nil
	}
	words := []string{text}
	if p.Kind == Integers {
		words = strings.Split(text, ",")
	}
	var numbers []int64
	for _, w := range words {
		n, err := p.Parse(strings.TrimSpace(w))
		if err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
		numbers = append(numbers, n)
	}
	if p.Kind == Integers {
		v.SetIntegers(name, numbers)
	} else {
		v.SetStep(name, numbers[0])
	}
	return nil
}

// SetStep sets a parameter in its smallest unit. The caller has checked the bounds.
func (v Values) SetStep(name string, n int64) {
	v.cells[v.index(name)] = cell{set: true, n: n}
}

// SetIntegers sets a list of integers.
func (v Values) SetIntegers(name string, list []int64) {
	v.cells[v.index(name, Integers)] = cell{set: true, ints: list}
}

// SetFile sets the name of a file, or a word.
func (v Values) SetFile(name, text string) {
	v.cells[v.index(name, File)] = cell{set: true, text: text}
}

// SetRanges sets a set of integers, given as first and last of each range.
func (v Values) SetRanges(name string, list [][2]int64) {
	c := cell{set: true}
	for _, r := range list {
		c.ints = append(c.ints, r[0], r[1])
	}
	v.cells[v.index(name, Ranges)] = c
}

// SetList sets a list of mappings. Each item has values of the parameter's Items.
func (v Values) SetList(name string, items []Values) {
	v.cells[v.index(name, List)] = cell{set: true, items: items}
}

// Clone returns an independent copy.
func (v Values) Clone() Values { return Values{v.table, slices.Clone(v.cells)} }

func (v Values) index(name string, kinds ...Kind) int {
	i := v.table.Find(name)
	if i < 0 || len(kinds) > 0 && !slices.Contains(kinds, v.table[i].Kind) {
		panic(fmt.Sprintf("parameter: the table has no %s of kind %v", name, kinds))
	}
	return i
}

// Has reports whether a parameter has a value, default or set.
func (v Values) Has(name string) bool { return v.cells[v.index(name)].set }

// Step returns a value in its smallest unit.
func (v Values) Step(name string) int64 { return v.cells[v.index(name)].n }

// Int returns an integer.
func (v Values) Int(name string) int { return int(v.cells[v.index(name, Integer)].n) }

// Number returns a decimal number.
func (v Values) Number(name string) float64 {
	return float64(v.cells[v.index(name, Number)].n) / numberScale
}

// Bool returns a boolean.
func (v Values) Bool(name string) bool { return v.cells[v.index(name, Boolean)].n != 0 }

// Word returns a word, "" if it is not set.
func (v Values) Word(name string) string {
	i := v.index(name, Word)
	if !v.cells[i].set {
		return ""
	}
	return v.table[i].Words[v.cells[i].n]
}

// File returns the name of a file, or a word.
func (v Values) File(name string) string { return v.cells[v.index(name, File)].text }

// Duration returns a duration.
func (v Values) Duration(name string) clock.Duration {
	return clock.Duration(v.cells[v.index(name, Duration)].n)
}

// Rate returns a bit rate.
func (v Values) Rate(name string) clock.BitRate {
	return clock.BitRate(v.cells[v.index(name, Rate)].n)
}

// Integers returns a list of integers.
func (v Values) Integers(name string) []int64 { return v.cells[v.index(name, Integers)].ints }

// Spans returns the first and last number of each range of a set, in the order of the file.
func (v Values) Spans(name string) [][2]int64 {
	var list [][2]int64
	for pair := range slices.Chunk(v.cells[v.index(name, Ranges)].ints, 2) {
		list = append(list, [2]int64{pair[0], pair[1]})
	}
	return list
}

// Ranges returns the numbers of a set, in the order of the file, each once.
func (v Values) Ranges(name string) []int {
	var all []int
	seen := make(map[int64]bool)
	for _, span := range v.Spans(name) {
		for n := span[0]; n <= span[1]; n++ {
			if !seen[n] {
				all = append(all, int(n))
			}
			seen[n] = true
		}
	}
	return all
}

// List returns a list of mappings.
func (v Values) List(name string) []Values { return v.cells[v.index(name, List)].items }

// Setting is a parameter with its value as text.
type Setting struct{ Name, Value, Unit string }

// Settings lists every value that is set, in the order of the table. Items of lists are named name[0].inner.
func (v Values) Settings() []Setting {
	var list []Setting
	for i := range v.table {
		p, c := &v.table[i], &v.cells[i]
		switch {
		case !c.set:
		case p.Kind == List:
			for j, item := range c.items {
				for _, s := range item.Settings() {
					s.Name = fmt.Sprintf("%s[%d].%s", p.Name, j, s.Name)
					list = append(list, s)
				}
			}
		case p.Kind == Ranges:
			var words []string
			for _, span := range v.Spans(p.Name) {
				words = append(words, fmt.Sprintf("%d..%d", span[0], span[1]))
			}
			list = append(list, Setting{p.Name, strings.Join(words, ", "), p.Unit})
		case p.Kind == Integers:
			words := make([]string, len(c.ints))
			for j, n := range c.ints {
				words[j] = p.Text(n)
			}
			list = append(list, Setting{p.Name, strings.Join(words, ", "), p.Unit})
		case p.Kind == File:
			list = append(list, Setting{p.Name, c.text, ""})
		default:
			list = append(list, Setting{p.Name, p.Text(c.n), p.Unit})
		}
	}
	return list
}

// Nothing returns values of which none is set, for changes.
func (t Table) Nothing() Values { return Values{table: t, cells: make([]cell, len(t))} }

// Merge returns a copy of v with the values that other, of the same table, has set.
func (v Values) Merge(other Values) Values {
	merged := v.Clone()
	for i := range other.cells {
		if other.cells[i].set {
			merged.cells[i] = other.cells[i]
		}
	}
	return merged
}

// IsZero reports whether v has no table.
func (v Values) IsZero() bool { return v.table == nil }
