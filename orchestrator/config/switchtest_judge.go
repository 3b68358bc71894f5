package config

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Judging says how much of a run is kept and judged. The zero value is none: judge: off.
type Judging struct {
	Flows int64 // of a million flows so many, drawn by the seed, are judged at their hosts
	Ports Ports // that the judges of switches see
}

// WholeFlows is Judging.Flows if every flow is judged.
const WholeFlows = 1_000_000

// Ports is a choice of the ports of switches.
type Ports struct {
	All   bool
	Count int      // drawn by the seed, whole switches first
	List  []string // leaf-0.port-3, or leaf-0 for all ports of it
}

// Full reports whether everything is judged.
func (j *Judging) Full() bool { return j.Flows == WholeFlows && j.Ports.All }

// Off reports whether nothing is judged but expectations, counters and conservation.
func (j *Judging) Off() bool { return j.Flows == 0 && !j.Ports.Some() }

// String returns the choice in the words of the configuration.
func (j *Judging) String() string {
	if n := (judging{judgeKind().object}).encode(&j); n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return fmt.Sprintf("%g %% of the flows, ports %s", float64(j.Flows)*100/WholeFlows, j.Ports.text())
}

func (p *Ports) text() string {
	switch {
	case p.All:
		return "all"
	case len(p.List) > 0:
		return strings.Join(p.List, ", ")
	}
	return strconv.Itoa(p.Count)
}

// Some reports whether there are any ports.
func (p *Ports) Some() bool { return p.All || p.Count > 0 || len(p.List) > 0 }

// Limits of what is judged.
const (
	fullFlows    = maxFlows // up to which everything is judged unless the test says otherwise
	sampledFlows = 4096     // that are judged of more
	sampledPorts = 16
)

// JudgedInFull returns a copy of t of which everything is judged.
func (t *SwitchTest) JudgedInFull() *SwitchTest {
	c, j := *t, defaultJudging(0)
	c.Judge = &j
	return &c
}

// defaultJudging is what is judged of a test with so many flows that does not say.
func defaultJudging(flows int) Judging {
	if flows <= fullFlows {
		return Judging{Flows: WholeFlows, Ports: Ports{All: true}}
	}
	return Judging{Flows: max(1, int64(sampledFlows)*WholeFlows/int64(flows)), Ports: Ports{Count: sampledPorts}}
}

const judgeDoc = "How much is kept and judged: `full`, `off`, or a mapping. With `off` the verdict is that of " +
	"expectations, counters and conservation. By default `full` up to 65,536 flows; of more " +
	"about 4,096 flows and 16 ports."

// judging is the kind of the key judge.
type judging struct{ *object }

func judgeKind() judging {
	return judging{&object{title: "judge", doc: judgeDoc, fields: []field{
		{key: "flows", doc: "Flows that the judges of hosts see: `full`, or a fraction such as 0.01, drawn by the seed. " +
			"Rules that need all packets of a host are judged with `full` only.",
			kind: share{}, def: "full", at: at(func(j *Judging) *int64 { return &j.Flows })},
		{key: "ports", doc: "Ports at which packets are seen: `all`, a number of them, drawn by the seed, whole switches " +
			"first, or a list such as `[leaf-0, spine-1.port-3]`. A switch is judged if all of its ports are seen; at other " +
			"ports the counters alone are held against the packets.",
			kind: portSet{}, def: "all", at: at(func(j *Judging) *Ports { return &j.Ports })},
	}}}
}

func (k judging) inner() kind { return k.object }

func (k judging) allowed() string { return "full, off, or " + k.object.allowed() }

func (k judging) decode(d *decoder, n *yaml.Node, path string, dst any) {
	j := new(Judging)
	*dst.(**Judging) = j
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "full":
		*j = defaultJudging(0)
	case n.Kind == yaml.ScalarNode && (n.Value == "off" || n.Value == "false"):
	case n.Kind == yaml.MappingNode:
		k.object.decode(d, n, path, j)
	default:
		d.wrongType(n, path, k.allowed())
	}
}

func (k judging) encode(src any) *yaml.Node {
	switch j := *src.(**Judging); {
	case j == nil:
		return nil
	case j.Full():
		return stringNode("full")
	case j.Off():
		return scalarNode("!!str", "off")
	default:
		n := k.object.encode(j)
		n.Style = yaml.FlowStyle
		return n
	}
}

func (k judging) jsonSchema() map[string]any {
	return map[string]any{"oneOf": []any{map[string]any{"enum": []any{"full", "off", false}}, k.object.jsonSchema()}}
}

// share is full or a fraction, kept in millionths.
type share struct{}

func fraction() quantity { return quantity{scale: WholeFlows, min: 0, max: 1} }

func (share) allowed() string { return "full or a fraction from 0 to 1" }

func (k share) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind == yaml.ScalarNode && n.Value == "full" {
		*dst.(*int64) = WholeFlows
		return
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" {
		d.wrongType(n, path, k.allowed())
		return
	}
	fraction().decode(d, n, path, dst)
}

func (share) encode(src any) *yaml.Node {
	if *src.(*int64) == WholeFlows {
		return stringNode("full")
	}
	return fraction().encode(src)
}

func (share) jsonSchema() map[string]any {
	return map[string]any{"oneOf": []any{map[string]any{"const": "full"}, fraction().jsonSchema()}}
}

// portSet is all, a number, or a list of names.
type portSet struct{}

// portForm is a switch, or a port of one.
var portForm = newPattern(`^[a-z][a-z0-9-]{0,63}(\.port-[0-9]{1,5})?$`)

const maxPorts = 1 << 20

func (portSet) allowed() string {
	return "all, a number of ports, or a list such as [leaf-0, spine-1.port-3]"
}

func (k portSet) decode(d *decoder, n *yaml.Node, path string, dst any) {
	p := dst.(*Ports)
	*p = Ports{}
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "all":
		p.All = true
	case n.Kind == yaml.ScalarNode && n.Tag == "!!int":
		integer{min: 0, max: maxPorts}.decode(d, n, path, &p.Count)
	case n.Kind == yaml.SequenceNode:
		names := list[string]{of: text{portForm, "a switch such as leaf-0, or a port of it such as " +
			"leaf-0.port-3"}, max: maxPorts}
		names.decode(d, n, path, &p.List)
	default:
		d.wrongType(n, path, k.allowed())
	}
}

func (portSet) encode(src any) *yaml.Node {
	p := src.(*Ports)
	switch {
	case p.All:
		return stringNode("all")
	case len(p.List) > 0:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
		for _, name := range p.List {
			n.Content = append(n.Content, stringNode(name))
		}
		return n
	default:
		return scalarNode("!!int", strconv.Itoa(p.Count))
	}
}

func (portSet) jsonSchema() map[string]any {
	return map[string]any{"oneOf": []any{map[string]any{"const": "all"},
		map[string]any{"type": "integer", "minimum": 0, "maximum": maxPorts},
		map[string]any{"type": "array", "items": map[string]any{"type": "string", "pattern": portForm.String()}}}}
}

// validateJudging completes what is judged of a test with so many flows.
func (d *decoder) validateJudging(t *SwitchTest, flows int) {
	if d.touched["judge"] {
		return
	}
	if t.Judge == nil {
		j := defaultJudging(flows)
		t.Judge = &j
	}
	most, why := maxFlows, "at most %d are judged one by one; more are simulated with judge: off or a fraction"
	if t.Judge.Flows < WholeFlows {
		most, why = maxStreamed, "at most %d are simulated"
	}
	if flows > most && !d.touched["workload"] {
		d.problemAt("workload", fmt.Sprintf("has %d flows", flows), fmt.Sprintf(why, most))
	}
	for i := 1; i < len(t.SizeClasses); i++ {
		if t.SizeClasses[i] <= t.SizeClasses[i-1] {
			d.problemAt("size-classes-bytes", "are not in ascending order", "each edge is greater than the one before")
			break
		}
	}
	if t.Judge.Full() {
		return
	}
	if t.Taps.Capture {
		d.problemAt("taps.capture", "needs judge: full", "a capture holds every packet at all ports")
	}
}
