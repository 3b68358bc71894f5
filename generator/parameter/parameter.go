// Package parameter has the settings of models as data: name, unit, default, bounds and meaning. The strict parser of
// test files, the JSON Schema, the reference and environment.json are generated from these tables, so they always agree
// with the model.
package parameter

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
)

// Kind is the type of a parameter's value.
type Kind uint8

// Kinds.
const (
	Unset    Kind = iota
	Integer       // an integer; Unit is for documentation
	Number        // a decimal number with up to six fractional digits
	Boolean       // true or false
	Word          // one of Words
	Duration      // a duration; Unit is ns, us or ms
	Rate          // a bit rate; Unit is Mbps or Gbps
	Integers      // a list of integers, each from Min to Max
	List          // a list of mappings with the parameters Items
	Ranges        // a set of integers, each from Min to Max, written as numbers and ranges such as 5..9
	File          // the name of a file, or one of Words, which are none
)

// String returns the name of the kind in the reference.
func (k Kind) String() string {
	names := [...]string{"unset", "integer", "number", "boolean", "word", "duration", "rate", "integers", "list", "ranges",
		"file"}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Parameter is one setting of a model. Names end in the unit, as in test files: threshold-packets, t0-us.
type Parameter struct {
	Name     string
	Kind     Kind
	Unit     string // for documentation; of Duration and Rate also the scale
	Default  string // as in a test file; of a list always empty
	Required bool   // there is no default
	Optional bool   // may be absent, see [Values.Has]
	Min, Max int64  // in Unit; Max 0 of a numeric kind: the greatest representable value
	Words    []string
	Items    Table // of a List
	Doc      string
}

// Scale returns the number of smallest units, in which values are stored, per Unit.
func (p *Parameter) Scale() int64 {
	switch p.Kind {
	case Number:
		return numberScale
	case Duration:
		switch p.Unit {
		case "ns":
			return int64(clock.Nanosecond)
		case "ms":
			return int64(clock.Millisecond)
		}
		return int64(clock.Microsecond)
	case Rate:
		if p.Unit == "Mbps" {
			return 1_000_000
		}
		return int64(clock.Gbps)
	case Unset, Integer, Boolean, Word, Integers, List, Ranges, File:
	}
	return 1
}

const numberScale = 1_000_000

// Upper returns the greatest value in Unit, also if Max is 0.
func (p *Parameter) Upper() int64 {
	if p.Max != 0 || p.Min < 0 {
		return p.Max
	}
	return (1 << 53) / p.Scale()
}

// Table has all parameters of a model, in the order of the reference.
type Table []Parameter

// Find returns the index of a parameter, −1 if there is none.
func (t Table) Find(name string) int {
	return slices.IndexFunc(t, func(p Parameter) bool { return p.Name == name })
}

// Names lists the parameters.
func (t Table) Names() []string {
	names := make([]string, len(t))
	for i := range t {
		names[i] = t[i].Name
	}
	return names
}

// Check reports errors in the table itself: a duplicate name or an invalid default. Tests of models call it.
func (t Table) Check() error {
	for i := range t {
		p := &t[i]
		if t.Find(p.Name) != i {
			return fmt.Errorf("parameter %s stands twice in the table", p.Name)
		}
		if err := p.check(); err != nil {
			return fmt.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return nil
}

func (p *Parameter) check() error {
	switch {
	case !nameForm.MatchString(p.Name):
		return fmt.Errorf("names are lower-case letters, digits and hyphens")
	case p.Doc == "":
		return fmt.Errorf("it has no documentation")
	case p.Kind == Unset:
		return fmt.Errorf("it has no kind")
	case p.Kind == List:
		return p.Items.Check()
	case p.Kind == Integers || p.Kind == Ranges || p.Required || p.Optional:
		return nil
	case p.Kind == File:
		if !slices.Contains(p.Words, p.Default) {
			return fmt.Errorf("the default %q is none of its words", p.Default)
		}
		return nil
	}
	_, err := p.Parse(p.Default)
	return err
}

var (
	nameForm    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	decimalForm = regexp.MustCompile(`^[-+]?[0-9]{1,19}(\.[0-9]{1,12})?$`)
)

// Parse returns the value of text in the smallest unit; for a word its index in Words. Lists have no text form.
func (p *Parameter) Parse(text string) (int64, error) {
	switch p.Kind {
	case Boolean:
		switch text {
		case "true":
			return 1, nil
		case "false":
			return 0, nil
		}
		return 0, fmt.Errorf("%q is neither true nor false", text)
	case Word:
		if i := slices.Index(p.Words, text); i >= 0 {
			return int64(i), nil
		}
		return 0, fmt.Errorf("%q is none of %s", text, strings.Join(p.Words, ", "))
	case Integer, Number, Duration, Rate, Integers:
		return p.parseNumber(text)
	case Unset, List, Ranges, File:
	}
	return 0, fmt.Errorf("a %s can't be given as text", p.Kind)
}

func (p *Parameter) parseNumber(text string) (int64, error) {
	v, ok := new(big.Rat), decimalForm.MatchString(text)
	if ok {
		_, ok = v.SetString(text)
	}
	if !ok {
		return 0, fmt.Errorf("%q is no plain decimal number", text)
	}
	if v.Cmp(big.NewRat(p.Min, 1)) < 0 || v.Cmp(big.NewRat(p.Upper(), 1)) > 0 {
		return 0, fmt.Errorf("%s is not from %d to %d", text, p.Min, p.Upper())
	}
	if v.Mul(v, big.NewRat(p.Scale(), 1)); !v.IsInt() {
		return 0, fmt.Errorf("%s is too fine: the smallest step is 1/%d %s", text, p.Scale(), p.Unit)
	}
	return v.Num().Int64(), nil
}

// Text is the inverse of [Parameter.Parse].
func (p *Parameter) Text(v int64) string {
	switch p.Kind {
	case Boolean:
		return strconv.FormatBool(v != 0)
	case Word:
		if v >= 0 && int(v) < len(p.Words) {
			return p.Words[v]
		}
	case Number, Duration, Rate:
		if r := big.NewRat(v, p.Scale()); !r.IsInt() {
			return strings.TrimRight(r.FloatString(12), "0")
		}
		return strconv.FormatInt(v/p.Scale(), 10)
	case Unset, Integer, Integers, List, Ranges, File:
	}
	return strconv.FormatInt(v, 10)
}
