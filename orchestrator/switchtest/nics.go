package switchtest

import (
	"fmt"
	"slices"
	"strconv"

	"candela.dev/candela/analyzers/decision"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// nics is the switch model that hosts.nic puts on the NIC of every host.
type nics struct {
	*config.HostNIC
	family *family
	model  switches.Model
}

// nicCommon returns the common switch settings that apply to NICs too.
func nicCommon() parameter.Table {
	return slices.DeleteFunc(common(), func(p parameter.Parameter) bool {
		return !slices.Contains([]string{"ecn-min-bytes", "ecn-max-bytes", "ecn-probability",
			"ecn-threshold-bytes", "ecn-threshold-packets"}, p.Name)
	})
}

// notOnNICs returns why a model cannot run on the NICs of hosts, "" if it can.
func notOnNICs(m *switches.Model) string {
	var s fabric.SwitchSpec
	err := m.Configure(m.Parameters.Defaults(), &s)
	switch {
	case m.NoNIC != "":
		return m.NoNIC
	case m.NIC != nil || m.Shim != nil:
		return "its family has parts in hosts already, which come with switch-under-test"
	case err == nil && s.Recirculation.Rate > 0:
		return "it recirculates packets, and a NIC has no recirculation port"
	}
	return ""
}

// extendNICs adds a model to those that hosts.nic accepts or refuses.
func extendNICs(o *config.Options, m switches.Model) {
	if why := notOnNICs(&m); why != "" {
		if o.NoNICs == nil {
			o.NoNICs = make(map[string]string)
		}
		o.NoNICs[m.Name] = why
		return
	}
	m.Parameters = with(m.Parameters, nicCommon())
	o.NICs = append(o.NICs, m.Model)
}

// addNICs plans the NICs of hosts. On error, place is the key in the test; empty: the error says it.
func (p *Plan) addNICs() (place string, err error) {
	t := p.Test
	n := &nics{HostNIC: t.Hosts.NIC}
	if n.family, n.model, err = familyOf(families(), n.Model); err != nil {
		return "hosts.nic.model", err
	}
	if why := notOnNICs(&n.model); why != "" {
		return "hosts.nic.model", fmt.Errorf("%s can't be on NICs: %s", n.Model, why)
	}
	if p.model.NIC != nil {
		return "hosts.nic", fmt.Errorf("the switch model %s brings NICs of its own", t.Switch.Model)
	}
	if t.Taps.Decisions() != "" && n.family.Name != p.family.Name {
		return "taps.decisions", fmt.Errorf("decision records are of one family: switches are %s, NICs are %s",
			p.family.Name, n.family.Name)
	}
	if err := p.checkModel("hosts.nic", n.model, n.Values, 1); err != nil {
		return "", err
	}
	var s fabric.SwitchSpec
	if err := n.model.Configure(n.Values, &s); err != nil {
		return "hosts.nic", err
	}
	if err := applyMarking(n.Values, s.Queues); err != nil {
		return "hosts.nic", err
	}
	if err := ranksFor(&n.model, s.Queues, t); err != nil {
		return "hosts.nic.model", err
	}
	for class := range 8 {
		if p.Spec.Switch.PFC.Classes&(1<<class) != 0 && class >= len(s.Queues) {
			return "hosts.nic.model", fmt.Errorf("the model %s has %d queues; class %d is lossless (pfc-classes), and its "+
				"pause stops the queue of that number", n.Model, len(s.Queues), class)
		}
	}
	if p.holdsTCP(n) {
		return "hosts.nic", fmt.Errorf("%s with pace-mbps keeps packets back, which the rules of TCP would blame on the "+
			"host: of sampled flows nobody sees when they leave the NIC: set judge: full or off, or leave pace-mbps out",
			n.Model)
	}
	p.nics = n
	p.Spec.NIC = fabric.NICSpec{Queues: s.Queues, Scheduler: s.Scheduler, Buffer: s.Buffer, ClassOfDSCP: s.ClassOfDSCP,
		Backlog: n.Backlog, DropBurst: n.DropBurst}
	return "hosts.nic", p.tryNIC()
}

// holdsTCP reports whether sampled flows of TCP are judged behind NICs that wait although they have packets: the rules
// about time take a NIC that sends nothing for one that has nothing to send, unless they see what it keeps.
func (p *Plan) holdsTCP(n *nics) bool {
	tcp, err := findTransport("tcp")
	return n.paces() && p.Streamed() && err == nil && p.Test.Judge.Flows > 0 && p.speaks(tcp)
}

// paces reports whether NICs may keep packets although their wires are free.
func (n *nics) paces() bool { return n.model.Holds != nil && n.model.Holds(n.Values) }

// pacesNICs reports whether NICs of hosts do so.
func (p *Plan) pacesNICs() bool { return p.nics != nil && p.nics.paces() }

// tryNIC creates a NIC's mechanism in a scratch network, to report errors that only the model can detect.
func (p *Plan) tryNIC() error {
	spec := p.Spec
	var failure error
	spec.NIC.Mechanism = p.nics.mechanism(&failure)
	_, err := fabric.New(&spec, nil)
	if failure != nil {
		return failure
	}
	return err
}

// mechanism returns a constructor of NIC mechanisms; it stores its first error in failure.
func (n *nics) mechanism(failure *error) func(*fabric.Switch) fabric.Mechanism {
	return func(nic *fabric.Switch) fabric.Mechanism {
		m, err := n.model.New(nic, n.Values, n.Bugs)
		if err == nil {
			return m
		}
		if *failure == nil {
			*failure = fmt.Errorf("%s: %w", nic.Name(), err)
		}
		return nil
	}
}

// component describes the NICs in environment.json.
func (n *nics) component() testbeds.Component {
	c := testbeds.Component{Name: "nics", Kind: "nic", Properties: []testbeds.Property{
		{Name: "model", Value: n.Model}, {Name: "backlog-packets", Value: strconv.Itoa(n.Backlog)},
		{Name: "drop-burst-packets", Value: strconv.Itoa(n.DropBurst)}}}
	for _, b := range n.Bugs {
		c.Properties = append(c.Properties, testbeds.Property{Name: "bug", Value: b})
	}
	for _, s := range n.Values.Settings() {
		c.Properties = append(c.Properties, testbeds.Property{Name: "parameter." + s.Name, Value: s.Value})
	}
	return c
}

// familyAt returns the family of device i. Numbers from r.net.Switches() on are NICs.
func (r *run) familyAt(i int) *family {
	if n := r.plan.nics; n != nil && i >= r.net.Switches() {
		return n.family
	}
	return r.plan.family
}

// judgesNICs reports whether the judge of a family observes the NICs.
func (p *Plan) judgesNICs(f *family) bool {
	if p.nics != nil {
		return p.nics.family.Name == f.Name && f.NICs && f.judge != nil
	}
	return p.model.NIC != nil && p.family.Name == f.Name
}

// judges reports whether the judge of a family has anything to judge.
func (p *Plan) judges(f *family) bool { return p.family.Name == f.Name || p.judgesNICs(f) }

// judged returns the devices that an analyzer observes, first to end-1. NICs follow the switches of the network.
func (p *Plan) judged(net *fabric.Network, analyzer string) (first, end int) {
	first, end = 0, devices(net)
	for _, f := range families() {
		if f.Name != analyzer {
			continue
		}
		if p.family.Name != analyzer {
			first = net.Switches()
		}
		if !p.judgesNICs(&f) {
			end = net.Switches()
		}
	}
	return first, end
}

// nicsText describes the model of the NICs, its analyzers and the rules that are not checked; "" without a model.
func (p *Plan) nicsText() string {
	n := p.nics
	if n == nil {
		return ""
	}
	by := forwarding.Name
	if p.Test.Taps.Decisions() != "" {
		by += " and " + decision.Name
	}
	text := withBugs("model "+n.Model, n.Bugs) + " on the NIC of every host"
	switch f := n.family; {
	case p.judgesNICs(f):
		return fmt.Sprintf("%s; judged by %s and %s", text, by, f.Name)
	case f.judge == nil:
		return fmt.Sprintf("%s; judged by %s alone: the family %s has no judge, so what the model does there is not judged",
			text, by, f.Name)
	default:
		return fmt.Sprintf("%s; judged by %s alone; not judged there: the %d rules %s.*, which are about switches",
			text, by, len(f.rules), f.Name)
	}
}

func (p *Plan) explainNICs(e *explanation) {
	n := p.nics
	if n == nil {
		return
	}
	e.line("  nics      %s", p.nicsText())
	e.line("              %-24s %d packets", "backlog-packets", n.Backlog)
	e.line("              %-24s %d packets", "drop-burst-packets", n.DropBurst)
	for _, s := range n.Values.Settings() {
		e.line("              %-24s %s %s", s.Name, s.Value, s.Unit)
	}
	for _, b := range n.Bugs {
		e.line("              seeded bug %s", b)
	}
}

// nicTable has a row for each NIC that sent or dropped packets.
func (r *run) nicTable() report.Table {
	tab := report.Table{Title: "NICs", Note: "Packets of all kinds that a host's NIC sent, dropped and marked, and the " +
		"greatest length of its queues, in packets.", Columns: []report.Column{{Head: "nic"}, {Head: "sent", Right: true},
		{Head: "dropped", Right: true}, {Head: "marked", Right: true}, {Head: "longest queue", Right: true}, {Head: ""}}}
	for i := r.net.Switches(); i < devices(r.net); i++ {
		nic := deviceAt(r.net, i)
		port := nic.Port(0)
		var marked, longest int64
		for q := range port.Queues() {
			c := port.Queue(q).Counters()
			marked, longest = marked+int64(c.Marked), max(longest, int64(c.MaxPackets))
		}
		if c := port.Counters(); c.Sent+c.Dropped > 0 {
			tab.Rows = append(tab.Rows, report.Row{Cells: []string{nic.Name(), some(int64(c.Sent)), some(int64(c.Dropped)),
				some(marked), some(longest), ""}})
		}
	}
	return tab
}
