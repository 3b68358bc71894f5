// Package rdma models RoCEv2 NICs: requester and responder of reliable connections (IBTA volume 1, chapter 9) and the
// congestion notification of DCQCN.
//
// A [NIC] performs no I/O and has no clock. The caller brings packets and times:
//
//	nic.HandlePacket(now, p)   // a frame has arrived
//	nic.HandleTimer(now)       // do what is due
//	nic.Poll(now, p)           // the wire is idle: fill p with the next frame
//	nic.NextTimer()            // when to call again
//
// Internally, packet sequence numbers have 64 bits and never wrap; they become 24-bit PSNs where packets are read and
// written. A [Profile] has all latencies and other differences between real NICs. [Bugs] enables deliberate faults.
// Payloads are a pure function of their position (see pattern.go), so both sides verify every byte that they accept.
// A NIC is not safe for concurrent use.
package rdma

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// Config describes a NIC.
type Config struct {
	Name     string
	MAC      packet.MAC
	IPs      []netip.Addr
	Profile  Profile
	Bugs     Bugs
	PortRate clock.BitRate
	Rand     *rand.Rand // source of QPNs, IPSNs and memory keys

	Tagged   bool   // send 802.1Q frames
	TCI      uint16 // tag control information, if Tagged
	DSCP     uint8  // of everything but CNPs
	HopLimit uint8  // TTL; 0: 64
	NotECT   bool   // send data as not ECN-capable; otherwise ECT(0), or with ECT1
	ECT1     bool   // ECT(1)

	// AdaptiveRetrans enables adaptive retransmission, which the profile must support.
	AdaptiveRetrans bool

	NP NotificationPoint
	RP ReactionPoint
}

const (
	defaultHopLimit = 64
	defaultPKey     = 0xffff
)

// validate reports all errors of c.
func (c *Config) validate() error {
	var errs []error
	if c.Rand == nil {
		errs = append(errs, errors.New("no source of random numbers"))
	}
	if c.PortRate <= 0 {
		errs = append(errs, fmt.Errorf("port rate %d bit/s is not positive", c.PortRate))
	}
	if len(c.IPs) == 0 {
		errs = append(errs, errors.New("no IP address"))
	}
	for _, ip := range c.IPs {
		if !ip.IsValid() || ip.Is4In6() {
			errs = append(errs, fmt.Errorf("IP address %s is neither a plain IPv4 nor a plain IPv6 address", ip))
		}
	}
	if d := c.Profile.TrimDSCP; d < 0 || d > 63 || c.Profile.TrimReaction && d == int(c.DSCP) {
		errs = append(errs, fmt.Errorf("trim DSCP %d is not within 0 to 63 or is that of whole packets, %d", d, c.DSCP))
	}
	if c.DSCP > 63 {
		errs = append(errs, fmt.Errorf("DSCP %d is above 63", c.DSCP))
	}
	if c.AdaptiveRetrans && len(c.Profile.AdaptiveSchedule) == 0 {
		errs = append(errs, fmt.Errorf("profile %q has no adaptive retransmission", c.Profile.Name))
	}
	if c.Profile.TimeoutFactor < 0 || c.Profile.PipelineDepth < 0 {
		errs = append(errs, fmt.Errorf("profile %q has a negative timeout factor or pipeline depth", c.Profile.Name))
	}
	return errors.Join(append(errs, c.NP.validate(), c.RP.validate())...)
}

// NIC is one port with its queue pairs.
type NIC struct {
	cfg     Config
	profile Profile
	bugs    Bugs
	broken  bool // has any
	memory  memory
	now     clock.Time // time of the latest call

	qps   []*QP
	byQPN qpTable

	timers  timerHeap
	control ring[*QP]       // queue pairs with an eligible acknowledgement
	data    ring[*QP]       // queue pairs with an eligible data packet, in round-robin order
	pipe    ring[committed] // the transmit pipeline, at most PipelineDepth packets
	notify  notifier

	reacted     clock.Time // end of the current NAK reaction, with SerialReaction
	slowPath    slowPath
	classes     []etsClass
	completions ring[generator.Completion]
	counters    Counters
	ipID        uint16 // IPv4 Identification of the next packet
}

// NewNIC returns a NIC without queue pairs.
func NewNIC(cfg Config) (*NIC, error) {
	if cfg.HopLimit == 0 {
		cfg.HopLimit = defaultHopLimit
	}
	if cfg.Profile.TimeoutFactor == 0 {
		cfg.Profile.TimeoutFactor = 1
	}
	cfg.NP.setDefaults(&cfg.Profile)
	cfg.RP.setDefaults()
	cfg.Bugs.misconfigure(&cfg)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("NIC %q: %w", cfg.Name, err)
	}
	n := &NIC{
		cfg: cfg, profile: cfg.Profile, bugs: cfg.Bugs, broken: cfg.Bugs.Any(), memory: memory{pattern()},
		ipID: uint16(cfg.Rand.Uint32()),
	}
	n.notify.init(cfg.NP)
	n.classes = newClasses(cfg.Profile.ETSShares, cfg.PortRate)
	return n, nil
}

// Name returns the name that the NIC was configured with.
func (n *NIC) Name() string { return n.cfg.Name }

// Profile returns the NIC's profile.
func (n *NIC) Profile() Profile { return n.profile }

// Counters returns a copy of the NIC's counters.
func (n *NIC) Counters() Counters { return n.bugs.miscount(n.counters) }

// ListCounters returns the counters under the names of the profile's vendor.
func (n *NIC) ListCounters() []Counter {
	c := n.Counters()
	return c.List(n.profile.CounterNames)
}

// PollCompletion takes the oldest completion, if there is one.
func (n *NIC) PollCompletion(c *generator.Completion) bool {
	if n.completions.len() == 0 {
		return false
	}
	*c = n.completions.pop()
	return true
}

// CreateQP returns a new queue pair in the initial state, with QPN, IPSN and memory key drawn from the NIC's random
// source.
func (n *NIC) CreateQP(cfg QPConfig) (*QP, error) {
	cfg.setDefaults()
	n.bugs.misconfigureQP(&cfg)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("NIC %q: create queue pair: %w", n.cfg.Name, err)
	}
	if !slices.Contains(n.cfg.IPs, cfg.LocalIP) {
		return nil, fmt.Errorf("NIC %q: create queue pair: local address %s is not one of the port's %v",
			n.cfg.Name, cfg.LocalIP, n.cfg.IPs)
	}
	q := newQP(n, cfg)
	n.qps = append(n.qps, q)
	n.byQPN.add(q)
	return q, nil
}

// drawQPN returns an unused QPN other than 0 and 1 (special QPs, IBTA 10.2.4.3) and 0xffffff (multicast).
func (n *NIC) drawQPN() packet.QPN {
	for {
		qpn := packet.QPN(2 + n.cfg.Rand.Uint32N(1<<24-3))
		if n.byQPN.find(qpn) == nil {
			return qpn
		}
	}
}

// HandlePacket takes a frame that has arrived completely. It does not modify or keep the packet.
func (n *NIC) HandlePacket(now clock.Time, p *packet.Packet) {
	if p.Eth.Dst != n.cfg.MAC || !p.IsRoCE() && !p.CutRoCE() {
		return
	}
	n.now = now
	n.counters.RxPackets++
	n.counters.RxBytes += uint64(p.Len())
	if n.profile.SlowPathQueue > 0 && !p.BTH.MigReq && !n.slowPath.admit(now, &n.profile) {
		n.counters.RxDiscards++
		return
	}
	if n.takesTrimmed(now, p) {
		return
	}
	if !p.IsRoCE() || p.CheckICRC() != packet.ICRCValid && !n.bugs.Has(BugAcceptBadICRC) {
		n.counters.ICRCErrors++
		if n.broken {
			n.badICRC(now, p)
		}
		return
	}
	q := n.lookup(p)
	if q == nil {
		n.counters.Invalid++
		return
	}
	if n.broken && n.intercept(now, q, p) {
		return
	}
	switch op := p.BTH.Opcode; {
	case op == packet.CNP:
		q.handleCNP(now)
		return
	case op.IsData():
		n.notify.received(now, q, p)
	}
	if p.BTH.Opcode.IsResponse() {
		q.req.handle(now, p)
	} else {
		q.resp.handle(now, p)
	}
}

// lookup returns the connected queue pair of p, or nil if p must be dropped silently (IBTA 9.6.1, header validation).
func (n *NIC) lookup(p *packet.Packet) *QP {
	q := n.byQPN.find(p.BTH.DestQP)
	if q == nil {
		return nil
	}
	const reliableConnection = 0 // the service in the opcode's top three bits
	switch {
	case q.state == stateInit,
		p.BTH.Version != 0,
		p.BTH.PKey&0x7fff != defaultPKey&0x7fff && !n.bugs.Has(BugIgnoresPKey),
		p.IP.Src != q.remote.IP, p.IP.Dst != q.cfg.LocalIP,
		p.BTH.Opcode>>5 != reliableConnection && p.BTH.Opcode != packet.CNP:
		return nil
	}
	return q
}

// NextTimer returns the earliest time at which HandleTimer or Poll may have work: a time in the past if a packet waits
// for the wire, [clock.Never] if nothing is pending. It may be earlier than necessary, never later.
func (n *NIC) NextTimer() clock.Time {
	if n.control.len() > 0 || n.data.len() > 0 || n.pipe.len() > 0 {
		return n.now
	}
	return min(n.timers.next(), n.notify.next())
}

// HandleTimer does everything that is due at now or earlier.
func (n *NIC) HandleTimer(now clock.Time) {
	n.now = now
	for n.timers.next() <= now {
		n.timers.pop().expire(now)
	}
}

// Poll fills p with the next frame for the wire and returns true, or returns false if no frame is eligible at now. CNPs
// go first, then acknowledgements, then data of all queue pairs in turn. The caller must not write to p's shared
// payload.
func (n *NIC) Poll(now clock.Time, p *packet.Packet) bool {
	n.HandleTimer(now)
	if !n.notify.poll(now, n, p) && !n.pollControl(now, p) && !n.pollData(now, p) {
		return false
	}
	if p.IP.Version == 4 {
		p.IP.ID = n.ipID
		n.ipID++
	}
	if n.broken {
		n.spoilControl(now, p)
	}
	n.counters.TxPackets++
	n.counters.TxBytes += uint64(p.Len())
	return true
}

func (n *NIC) pollControl(now clock.Time, p *packet.Packet) bool {
	for n.control.len() > 0 {
		q := n.control.pop()
		q.inControl = false
		ok := q.resp.pollControl(now, p)
		q.schedule(now)
		if ok {
			return true
		}
	}
	return false
}

func (n *NIC) pollData(now clock.Time, p *packet.Packet) bool {
	if n.profile.PipelineDepth > 0 {
		return n.pollPipeline(now, p)
	}
	for n.data.len() > 0 {
		q := n.data.pop()
		q.inData = false
		_, ok := q.pollData(now, p)
		q.schedule(now)
		if ok {
			return true
		}
	}
	return false
}

func (n *NIC) complete(c generator.Completion) {
	if c.Status != generator.Success {
		n.countError(c)
	}
	n.completions.push(c)
}

func (n *NIC) countError(c generator.Completion) {
	if c.Receive {
		n.counters.RespCQEError++
		return
	}
	n.counters.ReqCQEError++
	if c.Status == generator.WorkRequestFlushed {
		n.counters.ReqCQEFlush++
	}
}
