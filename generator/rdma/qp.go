package rdma

import (
	"errors"
	"fmt"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// QPConfig describes a queue pair. Zero values of MTU, MaxReads and RegionLength mean their defaults.
type QPConfig struct {
	Context      int // echoed in completions
	LocalIP      netip.Addr
	MTU          int   // path MTU: 256, 512, 1024 (default), 2048 or 4096 bytes of payload
	RetryCount   uint8 // retries without progress, 0 to 7
	RNRRetry     uint8 // retries, 0 to 6; 7: unlimited
	Timeout      uint8 // local ACK timeout exponent, 0 to 31: 4.096 us · 2^Timeout; 0 switches the timer off
	MinRNRTimer  uint8 // timer code that the responder sends in RNR NAKs, 0 to 31
	MaxReads     int   // outstanding READs and atomics, as requester and as responder; default 16
	RegionLength uint64
	FlowLabel    uint32 // of IPv6, and what the UDP source port is derived from; 0: none
	SourcePort   uint16 // of UDP; 0: derived from the flow label, or without one from the QPNs

	IPSN    packet.PSN // initial PSN, if FixIPSN; otherwise drawn at random
	FixIPSN bool
}

const (
	defaultMTU          = 1024
	defaultMaxReads     = 16
	defaultRegionLength = 1 << 40
)

func (c *QPConfig) setDefaults() {
	if c.MTU == 0 {
		c.MTU = defaultMTU
	}
	if c.MaxReads == 0 {
		c.MaxReads = defaultMaxReads
	}
	if c.RegionLength == 0 {
		c.RegionLength = defaultRegionLength
	}
}

func (c *QPConfig) validate() error {
	var errs []error
	switch c.MTU {
	case 256, 512, 1024, 2048, 4096:
	default:
		errs = append(errs, fmt.Errorf("MTU %d is not one of 256, 512, 1024, 2048, 4096", c.MTU))
	}
	for _, f := range []struct {
		name       string
		value, max uint8
	}{{"retry count", c.RetryCount, 7}, {"RNR retry count", c.RNRRetry, 7}, {"timeout exponent", c.Timeout, 31},
		{"RNR timer code", c.MinRNRTimer, 31}} {
		if f.value > f.max {
			errs = append(errs, fmt.Errorf("%s %d is above %d", f.name, f.value, f.max))
		}
	}
	if c.MaxReads < 1 || c.MaxReads > 255 {
		errs = append(errs, fmt.Errorf("%d outstanding READs and atomics are not within 1 to 255", c.MaxReads))
	}
	if c.IPSN > 1<<24-1 {
		errs = append(errs, fmt.Errorf("initial PSN %d has more than 24 bits", c.IPSN))
	}
	if c.FlowLabel > packet.MaxFlowLabel {
		errs = append(errs, fmt.Errorf("flow label %#x has more than 20 bits", c.FlowLabel))
	}
	return errors.Join(errs...)
}

// Remote is the address of a queue pair's peer.
type Remote struct {
	IP   netip.Addr
	QPN  packet.QPN
	IPSN packet.PSN // of the peer's requests
	MAC  packet.MAC // of the peer or of the next hop
}

type qpState uint8

const (
	stateInit  qpState = iota // not connected
	stateReady                // sends and receives
	stateError                // posted requests are flushed, received packets are dropped
)

// QP is a queue pair of the reliable connection service: a requester and a responder.
type QP struct {
	nic    *NIC
	cfg    QPConfig
	index  int // in order of creation
	qpn    packet.QPN
	ipsn   packet.PSN
	region generator.Region
	remote Remote
	state  qpState

	frame     packet.Packet // common headers of all packets to the peer
	req       requester
	resp      responder
	pacer     *cnpPacer
	wake      clock.Time // entry in the NIC's timer heap
	heapIndex int        // index in the heap, -1 if absent
	inControl bool       // in the NIC's control list
	inData    bool       // in the NIC's data list
	respTurn  bool       // READ responses have priority over requests next time

	class           *etsClass // nil: the port has no classes
	responsesInPipe int       // READ responses in the transmit pipeline

	mischief mischief // state of seeded faults
}

func newQP(n *NIC, cfg QPConfig) *QP {
	q := &QP{nic: n, cfg: cfg, index: len(n.qps), qpn: n.drawQPN(), wake: clock.Never, heapIndex: -1}
	if len(n.classes) > 0 {
		q.class = &n.classes[q.index%len(n.classes)]
	}
	q.ipsn = packet.PSN(n.cfg.Rand.Uint32N(1 << 24))
	if cfg.FixIPSN {
		q.ipsn = cfg.IPSN
	}
	const page = 4096
	q.region = generator.Region{
		Base:   uint64(n.cfg.Rand.Uint32N(1<<30)) * page,
		Length: cfg.RegionLength,
		RKey:   n.cfg.Rand.Uint32(),
	}
	q.req.init(q)
	return q
}

// QPN returns the queue pair's number.
func (q *QP) QPN() packet.QPN { return q.qpn }

// IPSN returns the PSN of the queue pair's first request packet.
func (q *QP) IPSN() packet.PSN { return q.ipsn }

// LocalIP returns the address that the queue pair sends from.
func (q *QP) LocalIP() netip.Addr { return q.cfg.LocalIP }

// Region returns the memory that the peer may read and write through this queue pair.
func (q *QP) Region() generator.Region { return q.region }

// Remote returns the peer given to Connect.
func (q *QP) Remote() Remote { return q.remote }

// Failed reports whether the queue pair is in the error state.
func (q *QP) Failed() bool { return q.state == stateError }

// Connect makes the queue pair ready to send and to receive.
func (q *QP) Connect(r Remote) error {
	switch {
	case q.state != stateInit:
		return fmt.Errorf("connect queue pair %s: it is connected already", q.qpn)
	case !r.IP.IsValid() || r.IP.Is4In6() || r.IP.Is4() != q.cfg.LocalIP.Is4():
		return fmt.Errorf("connect queue pair %s: remote address %s does not fit local address %s", q.qpn, r.IP,
			q.cfg.LocalIP)
	case r.QPN < 2 || r.QPN >= 1<<24-1:
		return fmt.Errorf("connect queue pair %s: remote QPN %s is not one of a queue pair", q.qpn, r.QPN)
	case r.IPSN > 1<<24-1:
		return fmt.Errorf("connect queue pair %s: remote IPSN %d has more than 24 bits", q.qpn, r.IPSN)
	}
	q.remote = r
	q.resp.init(q)
	q.frame = q.newFrame()
	q.pacer = q.nic.notify.pacerOf(q)
	q.state = stateReady
	return nil
}

// newFrame returns the common headers of all packets to the peer.
func (q *QP) newFrame() packet.Packet {
	cfg := &q.nic.cfg
	p := packet.Packet{
		Eth: packet.Ethernet{Dst: q.remote.MAC, Src: cfg.MAC, Tagged: cfg.Tagged, TCI: cfg.TCI,
			Type: packet.EtherTypeIPv4},
		UDP:     packet.UDP{SrcPort: q.sourcePort(), DstPort: packet.Port},
		BTH:     packet.BTH{MigReq: !q.nic.profile.ClearsMigReq, PKey: defaultPKey, DestQP: q.remote.QPN},
		Headers: packet.HasBTH,
		HasUDP:  true,
		Derived: true,
	}
	const dontFragment = 0x4000
	p.IP = packet.IP{Version: 4, TOS: cfg.DSCP << 2, TTL: cfg.HopLimit, Protocol: packet.ProtocolUDP,
		FlagsFragment: dontFragment, Src: q.cfg.LocalIP, Dst: q.remote.IP}
	switch {
	case cfg.NotECT:
	case cfg.ECT1:
		p.IP.TOS |= uint8(packet.ECT1)
	default:
		p.IP.TOS |= uint8(packet.ECT0)
	}
	if q.remote.IP.Is6() {
		p.Eth.Type, p.SumUDP = packet.EtherTypeIPv6, true
		p.IP.Version, p.IP.FlagsFragment = 6, 0
		if !q.nic.bugs.Has(BugFlowLabelIgnored) {
			p.IP.FlowLabel = q.cfg.FlowLabel
		}
	}
	return p
}

// sourcePort returns the UDP source port that the queue pair is set to, or one of its own.
func (q *QP) sourcePort() uint16 {
	switch {
	case q.nic.bugs.Has(BugSourcePortIgnored):
	case q.cfg.SourcePort != 0:
		return q.cfg.SourcePort
	case q.cfg.FlowLabel != 0:
		return packet.FlowLabelPort(q.cfg.FlowLabel)
	}
	return sourcePort(q.qpn, q.remote.QPN)
}

// sourcePort returns a UDP source port that spreads connections over equal-cost paths: a hash of both QPNs in the
// dynamic range. IBTA A17.5.2 leaves the value to the sender if it is constant for a connection.
func sourcePort(local, remote packet.QPN) uint16 {
	h := uint32(local)*0x9e3779b1 ^ uint32(remote)*0x85ebca6b
	return 0xc000 | uint16(h>>16)&0x3fff
}

// PostSend posts an operation at now.
func (q *QP) PostSend(now clock.Time, wr generator.WorkRequest) error {
	if q.state == stateInit {
		return fmt.Errorf("post to queue pair %s: it is not connected", q.qpn)
	}
	if wr.Verb.IsAtomic() {
		wr.Length = 8
	}
	if err := q.req.check(wr); err != nil {
		return fmt.Errorf("post to queue pair %s: %w", q.qpn, err)
	}
	if q.state == stateError {
		q.nic.complete(q.req.completion(now, &wr, generator.WorkRequestFlushed))
		return nil
	}
	q.req.post(now, wr)
	q.schedule(now)
	return nil
}

// PostRecv posts a receive buffer at now, also before Connect.
func (q *QP) PostRecv(now clock.Time, rr generator.ReceiveRequest) error {
	if rr.Length < 0 {
		return fmt.Errorf("post a receive to queue pair %s: its length %d is negative", q.qpn, rr.Length)
	}
	if q.state == stateError {
		q.nic.complete(q.resp.completion(now, rr, generator.WorkRequestFlushed))
		return nil
	}
	q.resp.receives.push(rr)
	return nil
}

// schedule updates the queue pair's entries in the NIC's lists and timer heap. It must be called after every change
// that can make a packet eligible or start a timer.
func (q *QP) schedule(now clock.Time) {
	at := q.req.deadline
	resp, control := q.resp.eligibleAt()
	switch {
	case resp > now:
		at = min(at, resp)
	case control:
		q.enterControl()
	default:
		q.enterData()
	}
	if req := q.req.eligibleAt(); req <= now {
		q.enterData()
	} else {
		at = min(at, req)
	}
	q.nic.timers.set(q, at)
}

func (q *QP) enterControl() {
	if !q.inControl {
		q.inControl = true
		q.nic.control.push(q)
	}
}

func (q *QP) enterData() {
	if !q.inData {
		q.inData = true
		q.nic.data.push(q)
	}
}

// expire is called when the NIC's timer heap wakes the queue pair.
func (q *QP) expire(now clock.Time) {
	if q.req.deadline <= now {
		q.req.timeout(now)
	}
	q.schedule(now)
}

// pollData fills p with a READ response or a request packet, alternating if both are eligible, and returns which.
func (q *QP) pollData(now clock.Time, p *packet.Packet) (response, ok bool) {
	at, control := q.resp.eligibleAt()
	response = at <= now && !control
	request := q.req.eligibleAt() <= now
	if response && request {
		response, request = q.respTurn, !q.respTurn
		q.respTurn = !q.respTurn
	}
	switch {
	case response:
		q.resp.pollRead(now, p)
	case request:
		q.req.poll(now, p)
	default:
		return false, false
	}
	if q.nic.broken {
		q.spoilData(now, p, response)
	}
	return response, true
}

// fail moves the queue pair to the error state. The oldest work request completes with status; all other posted
// requests are flushed (IBTA 10.3.1.5). Status Success means a responder error, which fails no work request.
func (q *QP) fail(now clock.Time, status generator.Status) {
	if q.state == stateError {
		return
	}
	q.state = stateError
	if status != generator.Success {
		q.resp.out.clear() // after a responder error its NAK must still be sent
	}
	q.req.flush(now, status)
	q.resp.flush(now)
	q.spread(now)
}
