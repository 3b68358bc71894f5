// Package remote is a testbed of machines with agents and an injector switch controlled by P4Runtime. It is the part of
// a live testbed that doesn't depend on how the machines were set up; packages netns and lab set them up.
//
// A watch follows every component from Prepare to Close. When a component is lost, the current step ends at once with
// an error that names it.
package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/softswitch"
	agentpb "candela.dev/candela/proto/agent/v1"
	injectorpb "candela.dev/candela/proto/injector/v1"
	"candela.dev/candela/testbeds"
)

// Machine is a machine with an agent.
type Machine struct {
	Name      string // in errors and in the environment
	Conn      grpc.ClientConnInterface
	Interface string
	Port      uint16     // of the switch that the interface is cabled to
	Neighbour *Neighbour // nil: unknown
	// RDMA is the device that serves the tests of a host; nil: a NIC model. Interface may then be empty.
	RDMA *agent.RDMA
}

// Neighbour is what LLDP must report about the other end of a cable; an empty field matches anything.
type Neighbour struct{ System, Port string }

// Switch is the injector.
type Switch struct {
	Name     string
	Conn     *grpc.ClientConn
	DeviceID uint64
	// Status reports that the switch offers candela.injector.v1.Status, as ours do, so its losses are known.
	Status bool
	// Foreign marks a third-party switch; it may lack Status.
	Foreign bool
	// Info and DeviceConfig are the pipeline to run; if unset, the pipeline for our datapath.
	Info         *p4.Info
	DeviceConfig []byte
}

// Machines are the components of a testbed.
type Machines struct {
	Kind    string // for the environment
	Run     string // id of the run, as passed to agents
	Hosts   [2]Machine
	Dumpers []Machine // in the order of the specification
	Switch  Switch
	// Close frees the connections and everything that only this run uses.
	Close func() error
	// Fates are the fates of components by name, where their processes run on this machine; nil: unknown.
	Fates Fates
}

// Testbed drives the machines for one run. Its methods belong to one goroutine.
type Testbed struct {
	spec    testbeds.Spec
	m       Machines
	hosts   [2]*agent.Client
	dumpers []*agent.Client
	status  injectorpb.StatusClient // nil: the switch has none

	alive  context.Context // until a component is lost
	fail   context.CancelCauseFunc
	leases []*agent.Lease
	watch  sync.WaitGroup
	stood  standstill
	blamed bool // an error has named the lost component

	prepared  [2]agent.Prepared
	described *injectorpb.DescribeResponse
	before    map[uint32]uint64 // losses of the switch at the start, by port
	dir       string            // of the shards; empty: nothing is recorded
	stopped   bool
}

// New returns a testbed of machines. The caller closes it, which closes the machines.
func New(spec testbeds.Spec, m Machines) (*Testbed, error) {
	t := &Testbed{spec: spec, m: m}
	t.alive, t.fail = context.WithCancelCause(context.Background())
	if len(m.Dumpers) != len(spec.Dumpers) {
		return nil,
			errors.Join(fmt.Errorf("the testbed has %d dumpers, the test wants %d: take the testbed down and up again",
				len(m.Dumpers), len(spec.Dumpers)), m.Close())
	}
	for i := range m.Hosts {
		t.hosts[i] = agent.NewClient(m.Hosts[i].Name, m.Hosts[i].Conn, m.Run)
		if spec.Hosts[i].MAC == nil && m.Hosts[i].RDMA == nil { // a device has its own
			mac := testbeds.HostMAC(i)
			t.spec.Hosts[i].MAC = &mac
		}
	}
	for _, d := range m.Dumpers {
		t.dumpers = append(t.dumpers, agent.NewClient(d.Name, d.Conn, m.Run))
	}
	if m.Switch.Status {
		t.status = injectorpb.NewStatusClient(m.Switch.Conn)
	}
	return t, nil
}

// during returns a context that ends with ctx or when a component is lost.
func (t *Testbed) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.alive, func() { cancel(context.Cause(t.alive)) })
	return ctx, func() { stop(); cancel(nil) }
}

// each runs f for every i at once and joins the errors.
func each(n int, f func(i int) error) error {
	failed := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { failed[i] = f(i) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// agents lists all agents, hosts first.
func (t *Testbed) agents() []*agent.Client { return append(t.hosts[:], t.dumpers...) }

// Prepare leases the machines, creates the queue pairs of both hosts and connects them.
func (t *Testbed) Prepare(ctx context.Context) ([]injector.Connection, error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	if err := t.hold(ctx); err != nil {
		return nil, t.Blame(err)
	}
	err := each(len(t.hosts), func(i int) error { return t.prepare(ctx, i) })
	if err == nil && t.spec.External != nil {
		return nil, nil // see Await
	}
	if err == nil {
		err = each(len(t.hosts), func(i int) error { return t.hosts[i].Connect(ctx, t.prepared[1-i].Ends) })
	}
	if err != nil {
		return nil, t.Blame(err)
	}
	list := make([]injector.Connection, len(t.spec.Connections))
	for i := range list {
		end := func(side int) injector.Endpoint {
			e := t.prepared[side].Ends[i]
			return injector.Endpoint{IP: e.IP, QPN: e.QPN, IPSN: e.IPSN}
		}
		list[i] = injector.Connection{Requester: end(testbeds.Requester), Responder: end(testbeds.Responder)}
	}
	return list, nil
}

// prepare makes the NIC or the device of a host ready.
func (t *Testbed) prepare(ctx context.Context, i int) (err error) {
	m := &t.m.Hosts[i]
	device := m.RDMA
	if e := t.spec.External; e != nil {
		if device == nil {
			return fmt.Errorf("%s: a NIC model, which no application can use", m.Name)
		}
		watched := *device
		watched.Watch = &agent.Watch{Pause: e.Pause}
		device = &watched
	}
	t.prepared[i], err = t.hosts[i].Prepare(ctx, agent.Host{
		Interface: m.Interface, Side: generator.Side(i), NIC: t.spec.Hosts[i], Spec: &t.spec, RDMA: device})
	if err != nil || device == nil {
		return err
	}
	m.Interface = t.prepared[i].Interface
	t.spec.Hosts[i].MAC = &t.prepared[i].MAC
	return nil
}

// software reports whether a host is a device of software: its machine's times are reported, not judged.
func (t *Testbed) software() bool {
	return slices.ContainsFunc(t.m.Hosts[:], func(m Machine) bool { return m.RDMA != nil && m.RDMA.Software })
}

// hold leases every machine and starts the watch.
func (t *Testbed) hold(ctx context.Context) error {
	t.watch.Go(func() { t.stood.watch(t.alive) })
	clients := t.agents()
	leases := make([]*agent.Lease, len(clients))
	err := each(len(clients), func(i int) (err error) {
		leases[i], err = clients[i].Hold(ctx)
		return err
	})
	for _, l := range leases {
		if l == nil {
			continue
		}
		t.leases = append(t.leases, l)
		t.watch.Go(func() {
			select {
			case <-l.Lost():
				t.fail(l.Err())
			case <-t.alive.Done():
			}
		})
	}
	if err == nil {
		err = t.describeSwitch(ctx)
	}
	if err == nil {
		t.watch.Go(t.watchSwitch)
	}
	return err
}

// describeSwitch reads the switch's description. A third-party switch may not support the call.
func (t *Testbed) describeSwitch(ctx context.Context) (err error) {
	if t.status == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, agent.CallTimeout)
	defer cancel()
	t.described, err = t.status.Describe(ctx, &injectorpb.DescribeRequest{})
	switch {
	case err == nil:
		return nil
	case t.m.Switch.Foreign && status.Code(err) == codes.Unimplemented:
		t.status = nil
		return nil
	}
	return t.ofSwitch("describe", err)
}

// switchAlive checks that the switch answers; a switch too old to know the call is alive, too.
func (t *Testbed) switchAlive(ctx context.Context) error {
	if t.status != nil {
		_, err := t.status.Losses(ctx, &injectorpb.LossesRequest{})
		return err
	}
	_, err := p4pb.NewP4RuntimeClient(t.m.Switch.Conn).Capabilities(ctx,
		&p4pb.CapabilitiesRequest{DeviceId: t.m.Switch.DeviceID})
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return err
}

// switchEvery is the interval of liveness checks of the switch, switchPatient the time it has to answer.
const (
	switchEvery   = 200 * time.Millisecond
	switchPatient = 3 * time.Second
)

func (t *Testbed) watchSwitch() {
	tick := time.NewTicker(switchEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.alive.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		ctx, cancel := context.WithTimeout(t.alive, switchPatient)
		err := t.switchAlive(ctx)
		cancel()
		if status.Code(err) == codes.DeadlineExceeded && time.Since(asked) > switchPatient+standstillLimit/2 {
			continue // this process stood still meanwhile
		}
		if err != nil && t.alive.Err() == nil {
			t.fail(t.ofSwitch("it doesn't answer any more", err))
			// This also ends the orchestrator's calls that wait for the switch.
			_ = t.m.Switch.Conn.Close()
			return
		}
	}
}

// Injector returns the access to the switch.
func (t *Testbed) Injector(context.Context) (testbeds.Access, error) {
	a := testbeds.Access{Conn: t.m.Switch.Conn, DeviceID: t.m.Switch.DeviceID, Target: t.m.Switch.Name,
		Info: t.m.Switch.Info, DeviceConfig: t.m.Switch.DeviceConfig}
	if a.Info == nil {
		switch t.described.GetDatapath() {
		case softwareDatapath, softswitch.QEMU:
			a.Info = p4.Software()
		case compiledDatapath:
			a.Info, a.DeviceConfig = p4.Base(), p4.BMv2()
		}
	}
	for i, h := range t.m.Hosts {
		a.Forwarding = append(a.Forwarding, testbeds.Port{Number: h.Port, MAC: *t.spec.Hosts[i].MAC})
	}
	for i, d := range t.m.Dumpers {
		a.Mirrors = append(a.Mirrors, testbeds.Mirror{Number: d.Port, Weight: t.spec.Dumpers[i].Weight,
			Name: t.spec.Dumpers[i].Name})
	}
	return a, nil
}

// softwareDatapath has the software-only actions; compiledDatapath needs its compiled program.
const (
	softwareDatapath = "afpacket"
	compiledDatapath = "bmv2"
)

// Environment describes every machine.
func (t *Testbed) Environment(ctx context.Context) (testbeds.Environment, error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	clients := t.agents()
	answers := make([]*agentpb.DescribeResponse, len(clients))
	err := each(len(clients), func(i int) (err error) {
		answers[i], err = clients[i].Describe(ctx)
		return err
	})
	if err != nil {
		return testbeds.Environment{}, t.Blame(err)
	}
	env := testbeds.Environment{Testbed: t.m.Kind}
	for i := range t.hosts {
		h := &t.spec.Hosts[i]
		profile, err := rdma.ProfileByName(h.Profile)
		if err != nil {
			return env, fmt.Errorf("%s: %w", h.Name, err)
		}
		properties := machineProperties(answers[i], t.m.Hosts[i].Interface)
		if t.m.Hosts[i].RDMA != nil { // nothing of a model
			env.Components = append(env.Components, testbeds.Component{
				Name: h.Name, Kind: "host", Properties: append(properties, t.prepared[i].Properties...)})
			continue
		}
		env.Components = append(env.Components, testbeds.Component{
			Name: h.Name, Kind: "host", Properties: append(properties, h.Properties(t.spec.Connections[0].MTU, profile)...)})
	}
	env.Components = append(env.Components, t.switchComponent())
	for i, d := range t.spec.Dumpers {
		properties := machineProperties(answers[len(t.hosts)+i], t.m.Dumpers[i].Interface)
		properties = append(properties, testbeds.NewProperty("weight", d.Weight), testbeds.NewProperty("cores", d.Cores))
		env.Components = append(env.Components, testbeds.Component{Name: d.Name, Kind: "dumper", Properties: properties})
	}
	return env, nil
}

func (t *Testbed) switchComponent() testbeds.Component {
	c := testbeds.Component{Name: "switch", Kind: "switch"}
	if t.described != nil {
		c.Properties = append(c.Properties, testbeds.NewProperty("version", t.described.GetVersion()),
			testbeds.NewProperty("datapath", t.described.GetDatapath()))
	}
	c.Properties = append(c.Properties, testbeds.NewProperty("snap-bytes", t.spec.Switch.Snap))
	for _, p := range t.described.GetProperties() {
		if p.GetName() == softswitch.WaitCounts || strings.HasPrefix(p.GetName(), softswitch.HoldsOfPort) {
			continue // a counter, not a setting
		}
		c.Properties = append(c.Properties, testbeds.NewProperty(p.GetName(), p.GetValue()))
	}
	return c
}

func machineProperties(d *agentpb.DescribeResponse, device string) []testbeds.Property {
	list := []testbeds.Property{testbeds.NewProperty("agent-version", d.GetVersion()),
		testbeds.NewProperty("interface", device)}
	for _, i := range d.GetInterfaces() {
		if i.GetName() == device {
			list = append(list, testbeds.NewProperty("interface-mtu", i.GetMtu()),
				testbeds.NewProperty("interface-kind", i.GetKind()),
				testbeds.NewProperty("offloads-on", i.GetOffloads()))
		}
	}
	for _, p := range d.GetProperties() {
		name := p.GetName()
		if of, property, ok := strings.Cut(name, "/"); ok {
			if of != device {
				continue // of an interface that the run doesn't use
			}
			name = property
		}
		list = append(list, testbeds.NewProperty(name, p.GetValue()))
	}
	return list
}
