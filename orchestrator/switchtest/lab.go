package switchtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/orchestrator/switchtest/transport/kernel"
	"candela.dev/candela/testbeds/lab"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// NewLab plans a test for a lab without an injector: the same switch on one of its machines, between hosts that are
// machines of their own. A test that can't be run there is refused.
func NewLab(t *config.SwitchTest, bed *config.Testbed) (*Plan, error) {
	p, err := newRemote(t, &live.Remote{})
	if err != nil {
		return nil, err
	}
	if n, have := t.Topology.HostCount(), len(bed.Live.Hosts); n > have {
		return nil, fmt.Errorf("%s: not on testbed %s: the test has %d hosts, the lab %d", t.Where("topology"), bed.Name, n,
			have)
	}
	p.bed = bed
	return p, nil
}

// newRemote plans a test for hosts that are other machines.
func newRemote(t *config.SwitchTest, r *live.Remote) (*Plan, error) {
	p := &Plan{Test: t, live: true, remote: r}
	if err := p.complete(); err != nil {
		return nil, err
	}
	place, why := p.notLive()
	datagrams := p.datagrams() != nil
	if why == nil && t.Hosts.Model != kernel.Name && !datagrams {
		place, why = "hosts", fmt.Errorf("transport %s: hosts of a lab have the TCP of their kernels, %s, or UDP sockets, %s",
			t.Hosts.Model, kernel.Name, netlock.Name)
	}
	if why == nil && !datagrams && t.Hosts.Values.Word("ecn") != "not-ect" {
		place, why = "hosts.ecn", errors.New("sysctl net.ipv4.tcp_ecn of its machines decides: leave ecn out")
	}
	for i := range t.Workload {
		if why == nil && t.Workload[i].Offer.Stop != nil {
			place, why = fmt.Sprintf("workload[%d]", i), errors.New("stop-us: its hosts end flows with the run")
		}
	}
	if why != nil {
		return nil, fmt.Errorf("%s: not in a lab: %w", t.Where(place), why)
	}
	return p, nil
}

// fromElsewhere plans a test that is complete: no file is read.
func fromElsewhere(text []byte, remote *live.Remote) (*Plan, error) {
	options := Options()
	options.ReadFile = func(name string) ([]byte, error) {
		return nil, fmt.Errorf("%s: %w: a test from elsewhere names no files", name, fs.ErrPermission)
	}
	tests, err := config.ParseSwitchTests("config.yml", text, options)
	if err != nil {
		return nil, err
	}
	if len(tests) != 1 {
		return nil, fmt.Errorf("config.yml: %d tests, want one", len(tests))
	}
	return newRemote(tests[0], remote)
}

// connections returns what the hosts of a lab say that it has ended: the connections of kernels, or flows of hosts with
// UDP sockets.
func (p *Plan) connections() []live.Connection {
	if p.datagrams() == nil {
		return kernel.Connections(p.Flows, p.Test.Hosts.Values)
	}
	var list []live.Connection
	for i := range p.Flows {
		f := &p.Flows[i]
		list = append(list, live.Connection{Number: f.Number, Src: f.Src, Dst: f.Dst, Bytes: int64(f.Count), Start: f.Start,
			IPv6: f.Mark.IPv6})
	}
	return list
}

// OpenHost opens a host of a test with UDP sockets of this machine, for an agent. The test is complete: no file is
// read. The caller closes the station, whose Run calls finished.
func OpenHost(text []byte, host int, slowdown int64, finished func(flow int)) (*live.Station, error) {
	p, err := fromElsewhere(text, &live.Remote{})
	if err != nil {
		return nil, err
	}
	net, err := p.build(1)
	if err != nil {
		return nil, err
	}
	if host >= net.Hosts() || p.datagrams() == nil {
		return nil, fmt.Errorf("host %d of a test with %d hosts and transport %s has no UDP sockets", host, net.Hosts(),
			p.Test.Hosts.Model)
	}
	if _, err := p.attach(net, &told{finished: finished, flows: make(map[int]*transport.Progress)}); err != nil {
		return nil, err
	}
	s := net.Host(fabric.HostID(host)).Stack()
	if s == nil {
		s = new(mute)
	}
	l := p.Test.Topology.HostLinkOf(host)
	return live.OpenStation(live.StationConfig{Host: fabric.HostID(host), Stack: s, Link: linkOf(l), Slowdown: slowdown,
		Datagrams: p.datagrams(), IPv6: slices.ContainsFunc(p.Flows, func(f Flow) bool { return f.Mark.IPv6 })})
}

// told is the books of a host of a lab: what ends is told to the switch, which books it.
type told struct {
	finished func(flow int)
	flows    map[int]*transport.Progress
}

// Own, Name and Turn implement transport.Books.
func (*told) Own(fabric.Protocol, fabric.HostID, uint32, int) {}

func (*told) Name(fabric.Protocol, fabric.HostID, uint32, int) {}

func (*told) Turn(fabric.Protocol, fabric.HostID, uint32, int) {}

func (t *told) Progress(flow int) *transport.Progress {
	if t.flows[flow] == nil {
		t.flows[flow] = new(transport.Progress)
	}
	return t.flows[flow]
}

func (t *told) Close(flow int) { t.finished(flow) }

// Between runs a test of a switch whose ports are interfaces of this machine, for an agent, and returns the directory
// of its run below dir. The test is complete: no file is read.
func Between(ctx context.Context, text []byte, remote *live.Remote, dir, version string) (string, error) {
	p, err := fromElsewhere(text, remote)
	if err != nil {
		return "", err
	}
	if n, have := p.Test.Topology.HostCount(), len(remote.Ports); n != have {
		return "", fmt.Errorf("the test has %d hosts, %d ports are given", n, have)
	}
	out, err := Run(ctx, p,
		orchestrator.Options{Out: dir, ID: "switch", NoReports: true, Wall: time.Now, Version: version})
	switch {
	case err != nil:
		return "", err
	case out.Verdict.Exit == orchestrator.ExitInfrastructure:
		return "", errors.New(strings.Join(out.Verdict.Reasons, "; "))
	}
	return out.Dir, nil
}

// RunLab runs p in its lab, writes the run directory and judges, as [orchestrator.Execute] does. open connects to the
// lab.
func RunLab(ctx context.Context, p *Plan, open LabOpener, o orchestrator.Options) (*orchestrator.Outcome, error) {
	r := &labRun{run: run{facts: facts{plan: p, waivers: o.Waivers, baseline: o.Baseline}}, open: open,
		files: make(map[string][]byte)}
	return orchestrator.Execute(ctx, r, o)
}

// LabOpener connects to the machines of so many hosts of a lab and to its switch.
type LabOpener func(ctx context.Context, hosts int) (*lab.Network, error)

// Bed returns the lab that the test is planned for; nil: it is for none.
func (p *Plan) Bed() *config.Testbed { return p.bed }

// labRun is a test of a switch whose steps a machine of a lab takes. What it has left behind is judged here.
type labRun struct {
	run
	open    LabOpener
	network *lab.Network
	files   map[string][]byte
}

const stepConnect, stepCollect = "check cabling", "collect"

func (r *labRun) Prepare(c *orchestrator.Cycle) []orchestrator.Step {
	r.Cycle = c
	return []orchestrator.Step{{Name: stepConnect, Do: r.connect}}
}

func (r *labRun) Run() []orchestrator.Step {
	return []orchestrator.Step{{Name: stepTraffic, Do: r.traffic}}
}

func (r *labRun) Collect() []orchestrator.Step {
	return []orchestrator.Step{{Name: stepCollect, Do: r.collect}}
}

func (r *labRun) Judge() []orchestrator.Step {
	return []orchestrator.Step{{Name: stepAnalyse, Do: r.read}}
}

// Progress says in numbers what a step has come to.
func (r *labRun) Progress(step string) []any {
	switch step {
	case stepConnect:
		return []any{"hosts", r.plan.Test.Topology.HostCount()}
	case stepCollect:
		return []any{"files", len(r.files)}
	}
	return nil
}

// CleanUp gives the machines back.
func (r *labRun) CleanUp(bool) error {
	if r.network == nil {
		return nil
	}
	return r.network.Close()
}

// connect holds the machines. Before a device is blamed, each host has to be at its port.
func (r *labRun) connect(ctx context.Context) (err error) {
	if err := r.WriteText("config.yml", r.plan.Test.YAML); err != nil {
		return err
	}
	if r.network, err = r.open(ctx, r.plan.Test.Topology.HostCount()); err != nil {
		return err
	}
	problems, err := r.network.Cabling(ctx)
	if err == nil && len(problems) > 0 {
		err = errors.New(strings.Join(problems, "; "))
	}
	return err
}

func (r *labRun) traffic(ctx context.Context) error {
	t := lab.NetworkTest{Config: r.plan.Test.YAML(), MaxFrame: r.plan.maxFrame(), Slowdown: r.plan.slowdown(),
		Connections: r.plan.connections(), Datagrams: r.plan.datagrams() != nil}
	return r.network.Run(ctx, &t, func(name string, data []byte) error {
		r.files[name] = data
		return nil
	})
}

// ours are files of a run that this side writes.
var ours = []string{"config.yml", "run.json", "log.jsonl", "junit.xml", "report.html"}

// collect writes what the machine has recorded.
func (r *labRun) collect(context.Context) error {
	names := make([]string, 0, len(r.files))
	for name := range r.files {
		names = append(names, name)
	}
	slices.Sort(names)
	made := map[string]bool{".": true}
	for _, name := range names {
		if slices.Contains(ours, name) {
			continue
		}
		if dir := path.Dir(name); !made[dir] {
			if err := r.Dir.Mkdir(dir); err != nil {
				return err
			}
			made[dir] = true
		}
		err := r.Dir.WriteFile(name, func(w io.Writer) error {
			_, err := w.Write(r.files[name])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read takes over what was recorded and found.
func (r *labRun) read(context.Context) error {
	file := func(name string) ([]byte, error) {
		if data, ok := r.files[name]; ok {
			return data, nil
		}
		return nil, fmt.Errorf("%s: the switch's machine has sent none: %w", name, fs.ErrNotExist)
	}
	if err := r.facts.read(file); err != nil {
		return err
	}
	r.end, r.quiet = clock.Time(clock.Duration(r.flows.EndNS)*clock.Nanosecond), r.flows.Drained
	return nil
}

// Report gathers what people read of the run.
func (r *labRun) Report(v orchestrator.Verdict, dir string) *report.Report {
	rep := r.report(v)
	rep.Dir, rep.Next = dir, r.next(dir)
	if r.flows != nil {
		rep.Packets = int64(r.flows.Sent)
	}
	return rep
}

// read reads the documents of a run.
func (f *facts) read(file func(name string) ([]byte, error)) (err error) {
	f.flows, f.counted, f.checked = new(FlowsDocument), new(CountersDocument), new(IntegrityDocument)
	document := func(name, schema string, v any, got *string) error {
		data, err := file(name)
		if err == nil {
			err = json.Unmarshal(data, v)
		}
		if err == nil && *got != schema {
			err = fmt.Errorf("schema is %q, want %s", *got, schema)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	err = errors.Join(
		document("flows.json", FlowsSchema, f.flows, &f.flows.Schema),
		document("switch-counters.json", CountersSchema, f.counted, &f.counted.Schema),
		document("integrity.json", IntegritySchema, f.checked, &f.checked.Schema),
	)
	if err != nil {
		return err
	}
	if f.flows.kept() && len(f.flows.Flows) != f.plan.total {
		return fmt.Errorf("flows.json has %d flows, config.yml %d", len(f.flows.Flows), len(f.plan.Flows))
	}
	f.analysis, err = orchestrator.MergeParts(append([]string{"flows"}, AnalyzerNames()...), file)
	return err
}
