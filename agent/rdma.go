package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// RDMA is a port of an RDMA device of a machine.
type RDMA struct {
	Device   string
	Port     int  // from 1
	GIDIndex *int // of the RoCE v2 GID of every local address; nil: the agent finds each address's
	// Software says that the device is software, whose times are those of a CPU. An agent refuses it if it is not so.
	Software bool
	// OwnSettings leaves the settings of congestion control as they are.
	OwnSettings bool
	// Watch is for the traffic of an application; nil: the agent makes the traffic.
	Watch *Watch
}

// Watch says what to do with an application.
type Watch struct {
	Pause bool // its processes, from its last connection to Start
}

// trafficHost is what serves a test: a NIC model, or an RDMA device.
type trafficHost interface {
	Local() []live.End
	Connect(peers []live.End) error
	Start() error
	// Wait returns when the host's messages are complete; live.ErrClosed: it was closed.
	Wait(ctx context.Context) error
	// Quiet is the time since the last RoCE frame in either direction.
	Quiet() time.Duration
	Close() error
}

// rdmaDevice is a host that is an RDMA device.
type rdmaDevice interface {
	trafficHost
	counters() (testbeds.HostCounters, error)
	// losses lists what was lost between device and wire since before.
	losses(before lossCounters) ([]*agentpb.Counter, error)
	// report returns what became of the messages, and the comparison of their data.
	report() (verbs.ReportResponse, error)
	properties() []*agentpb.Property
	name() string    // of the interface
	address() []byte // Ethernet address of the interface
}

// rdmaHost is an RDMA device as host of a test. The program that uses the device, its addresses and neighbours, and
// what is changed of its settings end with it.
type rdmaHost struct {
	port    verbs.Port
	sysfs   fs.FS
	device  string // interface
	mac     packet.MAC
	side    generator.Side
	process *verbs.Process
	way     *way
	nic     *nic.NIC
	journal *nic.Journal
	root    *os.Root
	absorb  io.Closer
	info    verbs.Device
	ends    []live.End
	gid     *int
	mtu     int // largest path MTU

	alive context.Context // until Close
	kill  context.CancelFunc

	mu        sync.Mutex
	completed int
	counted   map[string]uint64
	active    time.Time // when something was last seen to move
}

// Times of the program and the kernel. An emulated machine takes seconds for what takes milliseconds elsewhere.
const (
	verbsTime = 25 * time.Second      // for an answer
	pollEvery = 20 * time.Millisecond // for completion
)

// gidTime bounds the wait for the GIDs of new addresses, which the kernel adds asynchronously.
var gidTime = 5 * time.Second

// rdmaHeaders is the difference between an interface's MTU and the largest path MTU that fits: IPv6, UDP, BTH, RETH,
// immediate, iCRC.
const rdmaHeaders = 40 + 8 + 12 + 16 + 4 + 4

// errRDMA is the class of a device that cannot serve the test.
var errRDMA = errors.New("the RDMA device can't serve the test")

// openRDMA makes an RDMA device a host. sysfs is the root of the file system that shows the devices, program
// candela-verbs, allowed the interfaces that a run may use, and journal notes the settings that are changed.
func openRDMA(h *Host, sysfs fs.FS, program string, allowed []string, journal *nic.Journal) (_ *rdmaHost, err error) {
	r := newRDMAHost(h, sysfs, journal)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w: %w", errRDMA, err), r.Close())
		}
	}()
	if err := r.ready(h, allowed); err != nil {
		return nil, err
	}
	if err := r.equip(h); err != nil {
		return nil, err
	}
	return r, r.open(h, program)
}

func newRDMAHost(h *Host, sysfs fs.FS, journal *nic.Journal) *rdmaHost {
	r := &rdmaHost{port: verbs.Port{Device: h.RDMA.Device, Number: h.RDMA.Port}, sysfs: sysfs, side: h.Side,
		gid: h.RDMA.GIDIndex, journal: journal, active: time.Now()}
	r.alive, r.kill = context.WithCancel(context.Background())
	return r
}

// ready finds the device, makes the settings that the test names, and waits for the link.
func (r *rdmaHost) ready(h *Host, allowed []string) error {
	if err := r.find(h, allowed); err != nil {
		return err
	}
	if err := r.tune(h); err != nil {
		return err
	}
	return r.checkLink()
}

// checkSoftware compares what the device is with what the testbed's description says.
func (r *rdmaHost) checkSoftware(soft, described bool) error {
	switch {
	case soft && !described:
		return fmt.Errorf("%v is software, and its times are those of a CPU: the testbed's description must say "+
			"software: true of rdma here, so that they are reported and not judged", r.port)
	case !soft && described:
		vendor := ""
		if r.info.VendorID != 0 {
			vendor = fmt.Sprintf(" (vendor %#x)", r.info.VendorID)
		}
		return fmt.Errorf("%v is hardware%s: the testbed's description says software: true of rdma here, and nothing would "+
			"judge its times", r.port, vendor)
	}
	return nil
}

// find finds the device's interface and checks the device.
func (r *rdmaHost) find(h *Host, allowed []string) (err error) {
	if err := r.awaitPort(); err != nil {
		return err
	}
	if r.device, err = r.port.Interface(r.sysfs); err != nil {
		return err
	}
	switch {
	case h.Interface != "" && h.Interface != r.device:
		return fmt.Errorf("%v belongs to interface %s, not to %s", r.port, r.device, h.Interface)
	case !slices.Contains(allowed, r.device):
		return fmt.Errorf("%v belongs to interface %s, which is none of this agent's: %v", r.port, r.device, allowed)
	}
	i, err := net.InterfaceByName(r.device)
	if err != nil {
		return fmt.Errorf("interface %q: %w", r.device, err)
	}
	if len(i.HardwareAddr) != len(r.mac) {
		return fmt.Errorf("interface %s has no Ethernet address", r.device)
	}
	r.mac = packet.MAC(i.HardwareAddr)
	if want := h.NIC.MAC; want != nil && *want != r.mac {
		return fmt.Errorf("the test gives it the MAC %v; an RDMA device has that of its interface, %v",
			net.HardwareAddr(want[:]), i.HardwareAddr)
	}
	for _, c := range h.Spec.Connections {
		r.mtu = max(r.mtu, c.MTU)
	}
	return nil
}

// equip gives the interface the test's addresses, and waits until the device has their GIDs.
func (r *rdmaHost) equip(h *Host) (err error) {
	r.way = &way{device: r.device, mtu: r.mtu + rdmaHeaders, shared: true, closed: make(chan struct{})}
	for _, c := range h.Spec.Connections {
		if ip := c.IPs[h.Side]; !slices.Contains(r.way.ips, ip) {
			r.way.ips = append(r.way.ips, ip)
		}
	}
	if err := r.way.open(); err != nil {
		return err
	}
	for _, ip := range r.way.ips {
		if err := r.awaitGID(ip); err != nil {
			return err
		}
	}
	return nil
}

func (r *rdmaHost) awaitGID(ip netip.Addr) error {
	for deadline := time.Now().Add(gidTime); ; time.Sleep(pollEvery) {
		_, err := r.port.GIDIndex(r.sysfs, ip)
		if r.gid != nil {
			err = r.port.CheckGID(r.sysfs, *r.gid, ip)
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// open starts the program and creates the queue pairs.
func (r *rdmaHost) open(h *Host, program string) (err error) {
	ctx, cancel := context.WithTimeout(r.alive, verbsTime)
	defer cancel()
	if program == "" {
		return errors.New("this agent has no program for RDMA devices: give it --verbs")
	}
	if r.process, err = verbs.StartProcess(ctx, program); err != nil {
		return err
	}
	q := verbs.OpenRequest{
		Device: r.port.Device, Port: r.port.Number, Side: h.Side, BarrierSync: h.Spec.BarrierSync,
		ReceiveDepth: h.Spec.RxDepth, RepostNS: h.Spec.RxRepostDelay.Nanoseconds(),
		Seed: testbeds.ComponentSeed(h.Spec.Seed, h.NIC.Name),
	}
	if h.RDMA.Software {
		q.Echo = r.device
	}
	for i := range h.Spec.Connections {
		c := &h.Spec.Connections[i]
		q.Connections = append(q.Connections, verbs.Connection{
			IP: c.IPs[h.Side], GIDIndex: r.gid, IPSN: c.InitialPSN[h.Side], MTU: c.MTU, AckTimeout: c.AckTimeout,
			RetryCount: c.RetryCount, RNRRetry: c.RNRRetry, MinRNRTimer: c.MinRNRTimer, HopLimit: h.NIC.HopLimit,
			FlowLabel: c.FlowLabel, SourcePort: c.SourcePort, MaxRDAtomic: c.MaxRDAtomic,
			TrafficClass: h.NIC.DSCP<<2 | uint8(h.NIC.ECN),
			Traffic:      c.Traffic[h.Side], PeerTraffic: c.Traffic[h.Side.Peer()],
		})
	}
	var opened verbs.OpenResponse
	if err := r.process.Call(ctx, verbs.OpOpen, q, &opened); err != nil {
		return err
	}
	if err := opened.Ignored(&q); err != nil {
		return err
	}
	r.info = opened.Device
	if len(opened.Ends) != len(q.Connections) {
		return fmt.Errorf("%s made %d queue pairs for %d connections", program, len(opened.Ends), len(q.Connections))
	}
	for _, e := range opened.Ends {
		r.ends = append(r.ends, live.End{IP: e.IP, QPN: e.QPN, IPSN: e.IPSN, MAC: r.mac, Region: e.Region})
	}
	if err := r.checkSoftware(r.soft(), h.RDMA.Software); err != nil {
		return err
	}
	if r.soft() {
		r.absorb, err = link.Absorb(r.device)
		return err
	}
	return r.control(h)
}

func (r *rdmaHost) name() string { return r.device }

func (r *rdmaHost) address() []byte { return r.mac[:] }

// Local returns the queue pairs.
func (r *rdmaHost) Local() []live.End { return r.ends }

func (r *rdmaHost) call(op string, params, result any) error {
	ctx, cancel := context.WithTimeout(r.alive, verbsTime)
	defer cancel()
	return r.process.Call(ctx, op, params, result)
}

// Connect makes the peers neighbours and joins the queue pairs to theirs.
func (r *rdmaHost) Connect(peers []live.End) error {
	if len(peers) != len(r.ends) {
		return fmt.Errorf("%d peers for %d connections", len(peers), len(r.ends))
	}
	q := verbs.ConnectRequest{}
	for _, p := range peers {
		if err := r.way.meet(SocketPeer{p.IP, p.MAC}); err != nil {
			return err
		}
		q.Peers = append(q.Peers, verbs.End{IP: p.IP, QPN: p.QPN, IPSN: p.IPSN, Region: p.Region})
	}
	return r.call(verbs.OpConnect, q, nil)
}

// Start posts the first requests.
func (r *rdmaHost) Start() error {
	r.moved()
	return r.call(verbs.OpStart, nil, nil)
}

func (r *rdmaHost) moved() {
	r.mu.Lock()
	r.active = time.Now()
	r.mu.Unlock()
}

// Wait polls the program until the messages are complete, and then looks at the counters once.
func (r *rdmaHost) Wait(ctx context.Context) error {
	for {
		var s verbs.StatusResponse
		if err := r.call(verbs.OpStatus, nil, &s); err != nil {
			if r.alive.Err() != nil {
				return live.ErrClosed
			}
			return err
		}
		r.mu.Lock()
		if s.Completed != r.completed || !s.Done {
			r.completed, r.active = s.Completed, time.Now()
		}
		r.mu.Unlock()
		if s.Done {
			return r.look()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.alive.Done():
			return live.ErrClosed
		case <-time.After(pollEvery):
		}
	}
}

// look notes whether the device's counters have moved: packets of the peer, or retransmissions.
func (r *rdmaHost) look() error {
	list, err := r.port.Counters(r.sysfs)
	if err != nil {
		return err
	}
	now := make(map[string]uint64, len(list))
	for _, c := range list {
		now[c.Name] = c.Value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, v := range now {
		if r.counted == nil || r.counted[name] != v {
			r.active = time.Now()
			break
		}
	}
	r.counted = now
	return nil
}

// Quiet returns the time since anything was last seen to move. It is less than the true time by what passes between
// two looks.
func (r *rdmaHost) Quiet() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.active)
}

// report returns what became of the messages, and the comparison of their data.
func (r *rdmaHost) report() (verbs.ReportResponse, error) {
	var answer verbs.ReportResponse
	err := r.call(verbs.OpReport, nil, &answer)
	if err == nil && len(answer.Data) != len(r.ends) {
		err = fmt.Errorf("the data of %d connections was compared, of %d", len(answer.Data), len(r.ends))
	}
	return answer, err
}

// soft says that the device is software.
func (r *rdmaHost) soft() bool { return verbs.Software(r.info.VendorID) }

// counters lists the device's counters, those of `rdma statistic`, and of hardware those of ethtool -S.
func (r *rdmaHost) counters() (testbeds.HostCounters, error) {
	list := testbeds.HostCounters{Vendor: verbs.SoftwareVendor, Lacks: r.info.Lacks}
	var q verbs.CountersResponse
	if err := r.call(verbs.OpCounters, nil, &q); err != nil {
		return list, err
	}
	for _, c := range q.Counters {
		list.Values = append(list.Values, testbeds.Counter{Name: c.Name, Value: c.Value})
	}
	return r.withNIC(list)
}

// withNIC adds the counters of hardware that its interface has.
func (r *rdmaHost) withNIC(list testbeds.HostCounters) (testbeds.HostCounters, error) {
	if r.soft() {
		return list, nil
	}
	of, err := r.nic.Counters()
	list.Vendor = of.Vendor
	for _, c := range of.Values {
		if strings.HasPrefix(c.Name, "ethtool.") {
			list.Values = append(list.Values, c)
		}
	}
	return list, err
}

// losses lists what was lost between device and wire since before. What the interface of hardware drops for itself,
// such as unwanted frames, is not the device's traffic.
func (r *rdmaHost) losses(before lossCounters) ([]*agentpb.Counter, error) {
	now, err := readLosses(r.device)
	if err != nil {
		return nil, err
	}
	list := now.since(before)
	if r.soft() {
		return list, nil
	}
	return slices.DeleteFunc(list, func(c *agentpb.Counter) bool {
		return !slices.Contains([]string{"rx_errors", "tx_errors", "carrier_changes"}, c.GetName())
	}), nil
}

// properties are those of the device, as read back.
func (r *rdmaHost) properties() (list []*agentpb.Property) {
	add := func(name, value string) {
		list = append(list, &agentpb.Property{Name: name, Value: value})
	}
	model := "hardware"
	if r.soft() {
		model = "soft-RoCE (rdma_rxe)"
	}
	add("model", model)
	add("verbs-device", r.port.String())
	add("verbs-firmware", r.info.Firmware)
	add("verbs-vendor", fmt.Sprintf("%#x part %d", r.info.VendorID, r.info.VendorPart))
	add("max-reads", strconv.Itoa(r.info.MaxReads))
	add("lacks", strings.Join(r.info.Lacks, ", "))
	for _, p := range r.nic.Made() {
		add(p.Name, p.Value)
	}
	for _, ip := range r.way.ips {
		index, err := r.port.GIDIndex(r.sysfs, ip)
		if r.gid != nil {
			index = *r.gid
		} else if err != nil {
			continue
		}
		add("gid", fmt.Sprintf("%d: %v", index, ip))
	}
	return list
}

// Close ends the program and restores what was changed. It may be called again.
func (r *rdmaHost) Close() error {
	r.kill()
	var failed []error
	if r.process != nil {
		failed = append(failed, r.process.Close())
	}
	if r.nic != nil {
		failed = append(failed, r.nic.Close())
	}
	if r.way != nil {
		failed = append(failed, r.way.close())
	}
	if r.absorb != nil {
		failed = append(failed, r.absorb.Close())
	}
	if r.root != nil {
		failed = append(failed, r.root.Close())
	}
	r.absorb, r.root, r.nic = nil, nil, nil
	return errors.Join(failed...)
}
