package config

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"candela.dev/candela/packet"
	"gopkg.in/yaml.v3"
)

// dimension is the quantity that a unit measures.
type dimension uint8

const (
	noDimension dimension = iota
	size
	span
	bitRate
)

// String returns the dimension with its article.
func (d dimension) String() string {
	return [...]string{"a number without unit", "a size", "a time", "a bit rate"}[d]
}

// unit is a suffix of a number; factor is in bytes, picoseconds or bits per second.
type unit struct {
	of     dimension
	factor int64
}

// units are the suffixes of numbers for which the schema names a unit. Sizes are powers of 1024, as in perftest's
// ib_write_bw -s 64K and ucx_perftest. Rates are powers of 1000, as all link rates.
var units = map[string]unit{
	"B": {size, 1}, "byte": {size, 1}, "bytes": {size, 1},
	"K": {size, 1 << 10}, "k": {size, 1 << 10}, "KB": {size, 1 << 10}, "kB": {size, 1 << 10}, "KiB": {size, 1 << 10},
	"M": {size, 1 << 20}, "m": {size, 1 << 20}, "MB": {size, 1 << 20}, "MiB": {size, 1 << 20},
	"G": {size, 1 << 30}, "g": {size, 1 << 30}, "GB": {size, 1 << 30}, "GiB": {size, 1 << 30},

	"ps": {span, 1}, "ns": {span, 1e3}, "us": {span, 1e6}, "µs": {span, 1e6}, "μs": {span, 1e6},
	"ms": {span, 1e9}, "s": {span, 1e12}, "sec": {span, 1e12}, "min": {span, 60e12},

	"bps": {bitRate, 1}, "bit/s": {bitRate, 1},
	"Kbps": {bitRate, 1e3}, "kbps": {bitRate, 1e3}, "Kb/s": {bitRate, 1e3}, "Kbit/s": {bitRate, 1e3},
	"Mbps": {bitRate, 1e6}, "Mb/s": {bitRate, 1e6}, "Mbit/s": {bitRate, 1e6}, "Mbit": {bitRate, 1e6},
	"Gbps": {bitRate, 1e9}, "Gb/s": {bitRate, 1e9}, "Gbit/s": {bitRate, 1e9},
	"Gbit": {bitRate, 1e9}, "gbps": {bitRate, 1e9},
	"Tbps": {bitRate, 1e12}, "Tb/s": {bitRate, 1e12}, "Tbit/s": {bitRate, 1e12},
}

// unitOf returns the unit that the schema names for a value, or a zero unit if the name is unknown.
func unitOf(name string) unit { return units[name] }

// measure matches a number with a suffix. It does not check the suffix.
var measure = regexp.MustCompile(`^([-+]?[0-9]{1,19}(?:\.[0-9]{1,12})?) ?([A-Za-zµμ][A-Za-zµμ/]{0,15})$`)

// unitPattern is the JSON Schema form of measure.
const unitPattern = `^[-+]?[0-9]{1,19}(\.[0-9]{1,12})? ?[A-Za-zµμ][A-Za-zµμ/]{0,15}$`

// withUnit converts a number with a suffix to a number in the schema's unit: 64KB of bytes is 65536. It returns n
// itself if n has no suffix. If the suffix does not fit, it reports a problem and returns false.
func (d *decoder) withUnit(n *yaml.Node, path, name, allowed string) (*yaml.Node, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return n, true
	}
	match := measure.FindStringSubmatch(n.Value)
	if match == nil {
		return n, true
	}
	value, _ := new(big.Rat).SetString(match[1]) // cannot fail: measure matches only decimal numbers
	want, suffix := unitOf(name), match[2]
	given, known := units[suffix]
	if want.of == bitRate && known && given.of == size && len(suffix) == 1 {
		given, known = units[strings.ToUpper(suffix)+"bps"] // 40G is a rate where a rate is expected
	}
	if !known || given.of != want.of || want.of == noDimension {
		d.problem(n, path, "is "+show(n), unitRemedy(value, suffix, name, want)+"it takes "+allowed)
		return nil, false
	}
	value.Mul(value, big.NewRat(given.factor, want.factor))
	c := *n
	c.Style, c.Tag, c.Value = 0, "!!float", strings.TrimRight(strings.TrimRight(value.FloatString(12), "0"), ".")
	if value.IsInt() {
		c.Tag, c.Value = "!!int", value.Num().String()
	}
	return &c, true
}

// near are suffixes that people write but that mean something else or are ambiguous, with the likely intended ones.
var near = map[string][]string{
	"kb": {"KB"}, "Kb": {"KB"}, "mb": {"MB"}, "Mb": {"MB"}, "gb": {"GB"}, "Gb": {"GB", "Gbps"}, "kib": {"KiB"},
	"KBytes": {"KB"}, "kbytes": {"KB"}, "MBytes": {"MB"}, "kilobytes": {"KB"}, "megabytes": {"MB"},
	"usec": {"us"}, "usecs": {"us"}, "msec": {"ms"}, "msecs": {"ms"}, "nsec": {"ns"}, "seconds": {"s"}, "second": {"s"},
	"minutes": {"min"}, "US": {"us"}, "MS": {"ms"}, "NS": {"ns"}, "S": {"s"}, "m": {"ms", "min"},
	"GBps": {"Gbps"}, "GB/s": {"Gb/s"}, "MBps": {"Mbps"}, "MB/s": {"Mb/s"}, "Gig": {"Gbps"}, "G": {"Gbps"},
	"GBPS": {"Gbps"}, "Gbs": {"Gbps"}, "mbps": {"Mbps"}, "gbit": {"Gbit"}, "g": {"Gbps"},
}

// unitRemedy returns the corrected numbers for a value with a wrong suffix, one for each likely reading; "" if there is
// none.
func unitRemedy(value *big.Rat, suffix, name string, want unit) string {
	if want.of == noDimension {
		if units[suffix].of == noDimension {
			return ""
		}
		return fmt.Sprintf("%s is %s and this is not; ", suffix, units[suffix].of)
	}
	var readings []string
	for _, s := range near[suffix] {
		if u := units[s]; u.of == want.of {
			number := new(big.Rat).Mul(value, big.NewRat(u.factor, want.factor))
			readings = append(readings, fmt.Sprintf("for %s%s write %s", plain(value), s, plain(number)))
		}
	}
	if bits := strings.Replace(suffix, "B", "b", 1); bits != suffix && want.of == bitRate {
		if u, ok := units[bits]; ok {
			number := new(big.Rat).Mul(value, big.NewRat(8*u.factor, want.factor))
			readings = append(readings, fmt.Sprintf("for %s %s, of bytes, write %s", plain(value), suffix, plain(number)))
		}
	}
	switch given, known := units[suffix]; {
	case len(readings) > 0:
		return strings.Join(readings, ", ") + "; "
	case known && given.of != want.of:
		return fmt.Sprintf("%s is %s and this is %s in %s; ", suffix, given.of, want.of, name)
	}
	return fmt.Sprintf("%s is not a unit that is known here; ", suffix)
}

// plain prints a number without trailing zeros.
func plain(v *big.Rat) string {
	if v.IsInt() {
		return v.Num().String()
	}
	return strings.TrimRight(v.FloatString(12), "0")
}

// unitNote returns the text that follows the bounds of a number with a unit in messages and the reference.
func unitNote(name string, max int64) string {
	examples := map[string]string{"ns": "5us", "us": "2ms", "ms": "2s", "MiB": "1GiB"}
	example := examples[name]
	switch of := unitOf(name).of; {
	case name == "":
		return ""
	case of == noDimension:
		return " (" + name + ")"
	case example != "":
	case of == bitRate:
		example = "40Gbps"
	case max < 64<<10:
		example = "1KB"
	default:
		example = "64KB"
	}
	return fmt.Sprintf(" (%s, or with a unit: %s)", name, example)
}

// numberSchema extends a JSON Schema of numbers to accept numbers with a unit.
func numberSchema(s map[string]any, name string) map[string]any {
	if unitOf(name).of != noDimension {
		s["type"], s["pattern"] = []string{s["type"].(string), "string"}, unitPattern
	}
	return s
}

var (
	groupedNumber  = regexp.MustCompile(`^[0-9]{1,3}([,_ '][0-9]{3})+$`)
	exponentNumber = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?[eE]\+?[0-9]{1,2}$`)
	quotedNumber   = regexp.MustCompile(`^[0-9]{1,19}(\.[0-9]{1,12})?$`)
)

// meant returns the plain number for n in a form that is refused because languages read it differently or as text:
// 65_536, 65,536, 1e6, "10". It returns "" for other forms.
func meant(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	text := n.Value
	switch {
	case groupedNumber.MatchString(text):
		return strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, text)
	case exponentNumber.MatchString(text):
		if v, ok := new(big.Rat).SetString(text); ok {
			return plain(v)
		}
	case n.Tag == "!!str" && quotedNumber.MatchString(text):
		return text + " without quotes"
	}
	return ""
}

// timeOf returns a time with a unit in picoseconds, nil if n is not one.
func timeOf(n *yaml.Node) *big.Rat {
	match := measure.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || match == nil {
		return nil
	}
	u := units[match[2]]
	if list := near[match[2]]; u.of != span && len(list) > 0 {
		u = units[list[0]]
	}
	if u.of != span {
		return nil
	}
	v, _ := new(big.Rat).SetString(match[1]) // cannot fail: measure matches only decimal numbers
	return v.Mul(v, big.NewRat(u.factor, 1))
}

// timeoutCode returns the exponents of the local ACK timeout closest to a time.
func timeoutCode(ps *big.Rat) string {
	ns := new(big.Rat).Quo(ps, big.NewRat(1000, 1))
	t := 1
	for t < longestTimeout && ns.Cmp(big.NewRat(4096<<t, 1)) > 0 {
		t++
	}
	if t > 1 && ns.Cmp(big.NewRat(4096<<(t-1)*102/100, 1)) <= 0 {
		t-- // 67.2 ms means the 67.1 ms of exponent 14
	}
	if ns.Cmp(big.NewRat(4096<<t*98/100, 1)) >= 0 || t == 1 {
		return fmt.Sprintf("write %d, which is %s", t, exponent(t))
	}
	return fmt.Sprintf("write %d, which is %s, or %d, which is %s", t, exponent(t), t-1, exponent(t-1))
}

// rnrCode returns the code of the shortest RNR timer that is at least a time.
func rnrCode(ps *big.Rat) string {
	ns, _ := new(big.Rat).Quo(ps, big.NewRat(1000, 1)).Float64()
	code := rnrTimerOf(int64(ns))
	return fmt.Sprintf("write %d, which is %.4g ms", code, float64(packet.RNRTimer(uint8(code)))/1e6)
}
