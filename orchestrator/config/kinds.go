package config

import (
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"candela.dev/candela/packet"
	"gopkg.in/yaml.v3"
)

func stringNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	n.SetString(s)
	return n
}

// because appends the reason for a bound, if there is one.
func because(bound, why string) string {
	if why == "" {
		return bound
	}
	return bound + ": " + why
}

func scalarNode(tag, s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s}
}

// integer is a whole number in [min, max], kept in any Go integer.
type integer struct {
	min, max int64
	unit     string // for people
	why      string // the reason for the bounds
	// code returns the code for a time in picoseconds, if the number is a code for a time.
	code func(ps *big.Rat) string
}

func (k integer) allowed() string {
	return "a whole number " + k.bounds() + unitNote(k.unit, k.max)
}

// bounds omits an upper bound that is only a limit of representation.
func (k integer) bounds() string {
	if k.max >= maxRelPSN {
		return fmt.Sprintf("from %d on", k.min)
	}
	return fmt.Sprintf("from %d to %d", k.min, k.max)
}

var plainInteger = regexp.MustCompile(`^([-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+)$`)

func (k integer) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if ps := timeOf(n); ps != nil && k.code != nil {
		d.problem(n, path, "is "+show(n), k.code(ps)+"; it takes "+k.allowed())
		return
	}
	n, ok := d.withUnit(n, path, k.unit, k.allowed())
	if !ok {
		return
	}
	switch {
	case n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float") && plainInteger.MatchString(n.Value):
	case meant(n) != "":
		d.problem(n, path, "is "+show(n), "write it as "+meant(n)+"; it takes "+k.allowed())
		return
	case n.Kind == yaml.ScalarNode && n.Tag == "!!int":
		d.problem(n, path, "is "+printable(n.Value)+", which is ambiguous", "write it as a plain decimal number")
		return
	default:
		d.wrongType(n, path, k.allowed())
		return
	}
	v, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil || v < k.min || v > k.max {
		d.problem(n, path, printable(n.Value)+" is out of range", because("it takes a whole number "+k.bounds(), k.why))
		return
	}
	setInt(dst, v)
}

func setInt(dst any, v int64) {
	switch e := reflect.ValueOf(dst).Elem(); {
	case e.CanInt():
		e.SetInt(v)
	default:
		e.SetUint(uint64(v))
	}
}

func getInt(src any) int64 {
	e := reflect.ValueOf(src).Elem()
	if e.CanInt() {
		return e.Int()
	}
	return int64(e.Uint())
}

func (k integer) encode(src any) *yaml.Node {
	return scalarNode("!!int", strconv.FormatInt(getInt(src), 10))
}

func (k integer) jsonSchema() map[string]any {
	return numberSchema(map[string]any{"type": "integer", "minimum": k.min, "maximum": k.max}, k.unit)
}

// choice is an integer out of a short list.
type choice struct {
	values []int
	why    string
	unit   string // for people; empty: none
}

func (k choice) allowed() string {
	names := make([]string, len(k.values))
	for i, v := range k.values {
		names[i] = itoa(v)
	}
	return oneOf(names)
}

func (k choice) decode(d *decoder, n *yaml.Node, path string, dst any) {
	n, ok := d.withUnit(n, path, k.unit, k.allowed())
	if !ok {
		return
	}
	for _, v := range k.values {
		if n.Kind == yaml.ScalarNode && n.Tag == "!!int" && n.Value == itoa(v) {
			setInt(dst, int64(v))
			return
		}
	}
	if text := meant(n); text != "" {
		d.problem(n, path, "is "+show(n), "write it as "+text+"; it takes "+k.allowed())
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!int" {
		d.problem(n, path, printable(n.Value)+" is not one of "+k.allowed(), k.why)
		return
	}
	d.wrongType(n, path, k.allowed())
}

func (k choice) encode(src any) *yaml.Node { return integer{}.encode(src) }

func (k choice) jsonSchema() map[string]any {
	numbers := map[string]any{"enum": k.values}
	if unitOf(k.unit).of == noDimension {
		return numbers
	}
	return map[string]any{"oneOf": []any{numbers, map[string]any{"type": "string", "pattern": unitPattern}}}
}

// quantity is a decimal number of a unit, stored as a whole number of a smaller unit: 0.5 us as 500000 ps.
type quantity struct {
	unit     string
	scale    int64 // smaller units in one unit
	min, max int64 // in units
	why      string
}

func (k quantity) allowed() string {
	return fmt.Sprintf("a number from %d to %d", k.min, k.max) + unitNote(k.unit, k.max)
}

var plainDecimal = regexp.MustCompile(`^[-+]?[0-9]{1,19}(\.[0-9]{1,12})?$`)

func (k quantity) decode(d *decoder, n *yaml.Node, path string, dst any) {
	n, fits := d.withUnit(n, path, k.unit, k.allowed())
	switch {
	case !fits:
		return
	case meant(n) != "" && !plainDecimal.MatchString(n.Value):
		d.problem(n, path, "is "+show(n), "write it as "+meant(n)+"; it takes "+k.allowed())
		return
	case n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float":
		d.wrongType(n, path, k.allowed())
		return
	}
	v, ok := new(big.Rat), plainDecimal.MatchString(n.Value)
	if ok {
		_, ok = v.SetString(n.Value)
	}
	if !ok {
		d.problem(n, path, "is "+printable(n.Value), "it takes "+k.allowed()+", written as a plain decimal number")
		return
	}
	if v.Cmp(big.NewRat(k.min, 1)) < 0 || v.Cmp(big.NewRat(k.max, 1)) > 0 {
		d.problem(n, path, n.Value+" is out of range", because("it takes "+k.allowed(), k.why))
		return
	}
	v.Mul(v, big.NewRat(k.scale, 1))
	if !v.IsInt() {
		d.problem(n, path, n.Value+" "+k.unit+" is too fine", fmt.Sprintf("the smallest step is 1/%d %s", k.scale, k.unit))
		return
	}
	setInt(dst, v.Num().Int64())
}

func (k quantity) encode(src any) *yaml.Node {
	v := big.NewRat(getInt(src), k.scale)
	if v.IsInt() {
		return scalarNode("!!int", v.Num().String())
	}
	return scalarNode("!!float", strings.TrimRight(v.FloatString(12), "0"))
}

func (k quantity) jsonSchema() map[string]any {
	return numberSchema(map[string]any{"type": "number", "minimum": k.min, "maximum": k.max}, k.unit)
}

// boolean is true or false. YAML 1.1's yes and on are refused because they are strings in YAML 1.2.
type boolean struct{}

func (boolean) allowed() string { return "true or false" }

func (k boolean) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		d.wrongType(n, path, k.allowed())
		return
	}
	*dst.(*bool) = strings.EqualFold(n.Value, "true")
}

func (boolean) encode(src any) *yaml.Node {
	return scalarNode("!!bool", strconv.FormatBool(*src.(*bool)))
}

func (boolean) jsonSchema() map[string]any { return map[string]any{"type": "boolean"} }

// text is a string of a certain form.
type text struct {
	form *pattern
	what string
}

func (k text) allowed() string { return k.what }

func (k text) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.wrongType(n, path, k.what)
		return
	}
	if !k.form.MatchString(n.Value) {
		d.problem(n, path, "is "+strconv.Quote(printable(n.Value)), "it takes "+k.what)
		return
	}
	*dst.(*string) = n.Value
}

func (text) encode(src any) *yaml.Node { return stringNode(*src.(*string)) }

func (k text) jsonSchema() map[string]any {
	return map[string]any{"type": "string", "pattern": k.form.String()}
}

// enum is one of a few words, stored as a T.
type enum[T interface {
	comparable
	fmt.Stringer
}] struct {
	values  []T
	refused map[string]string // words that people try, each with the reason for the refusal
}

func (k enum[T]) names() []string {
	names := make([]string, len(k.values))
	for i, v := range k.values {
		names[i] = v.String()
	}
	return names
}

func (k enum[T]) allowed() string { return oneOf(k.names()) }

func (k enum[T]) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.wrongType(n, path, k.allowed())
		return
	}
	for _, v := range k.values {
		if n.Value == v.String() {
			*dst.(*T) = v
			return
		}
	}
	if why, ok := k.refused[n.Value]; ok {
		d.problem(n, path, strconv.Quote(n.Value)+" is not supported here", why)
		return
	}
	d.problem(n, path, "is "+show(n)+didYouMean(n.Value, k.names()), "it takes "+k.allowed())
}

func (k enum[T]) encode(src any) *yaml.Node { return stringNode((*src.(*T)).String()) }

func (k enum[T]) jsonSchema() map[string]any { return map[string]any{"enum": k.names()} }

type prefix struct{}

func (prefix) allowed() string {
	return "an IP address with its prefix length, such as 10.0.0.2/24 or fd00::2/64"
}

func (k prefix) decode(d *decoder, n *yaml.Node, path string, dst any) {
	p, err := netip.ParsePrefix(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.wrongType(n, path, k.allowed())
		return
	}
	if why := notHost(p); why != "" {
		d.problem(n, path, n.Value+" "+why, "it takes "+k.allowed())
		return
	}
	*dst.(*netip.Prefix) = p
}

// notHost returns why p cannot be the address of a host, or "".
func notHost(p netip.Prefix) string {
	a := p.Addr()
	switch {
	case a.Is4In6():
		return "is an IPv4 address in IPv6 clothes"
	case a.IsUnspecified(), a.IsMulticast(), a.IsLoopback(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is not the address of a host"
	case a.Is4() && p.Bits() < 31 && a == p.Masked().Addr():
		return "is the address of the subnet itself"
	case a.Is4() && p.Bits() < 31 && a == broadcast(p):
		return "is the broadcast address of its subnet"
	}
	return ""
}

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}

func (prefix) encode(src any) *yaml.Node { return stringNode(src.(*netip.Prefix).String()) }

func (prefix) jsonSchema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^[0-9a-fA-F.:]+/[0-9]{1,3}$`}
}

type mac struct{}

func (mac) allowed() string { return "an Ethernet address such as 02:00:00:00:00:01" }

var macForm = regexp.MustCompile(`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`)

func (k mac) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || !macForm.MatchString(n.Value) {
		d.wrongType(n, path, k.allowed())
		return
	}
	v, _ := strconv.ParseUint(strings.ReplaceAll(n.Value, ":", ""), 16, 48) // cannot fail: macForm matched
	m := packet.MACFromUint48(v)
	if m.IsGroup() || v == 0 {
		d.problem(n, path, n.Value+" is not the address of a NIC", "it takes a unicast address")
		return
	}
	*dst.(*packet.MAC) = m
}

func (mac) encode(src any) *yaml.Node { return stringNode(src.(*packet.MAC).String()) }

func (mac) jsonSchema() map[string]any {
	return map[string]any{"type": "string", "pattern": macForm.String()}
}
