package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/packet"
	wire "candela.dev/candela/packet/ndp"
)

// NDPHost is an NDP endpoint on a real interface, with the real clock.
type NDPHost struct {
	station
	cfg       NDPConfig
	own       NDPPeer
	transport *ndp.Host
	peers     map[ndp.Endpoint]NDPPeer
	endpoints map[netip.Addr]ndp.Endpoint

	flows   []NDPFlow
	waiting int
	idle    chan struct{} // closed while no flow is unfinished; replaced by Send

	in, out ndp.Packet
	packet  packet.Packet
	held    []byte // the next frame, polled already; nil: not known
	damaged uint64
}

// OpenNDP takes the interface and answers for the host's address. It needs CAP_NET_RAW and CAP_NET_ADMIN. The interface's
// offloads are off until Close.
func OpenNDP(cfg NDPConfig) (_ *NDPHost, err error) {
	h := &NDPHost{cfg: cfg, idle: make(chan struct{}), peers: map[ndp.Endpoint]NDPPeer{}, endpoints: map[netip.Addr]ndp.Endpoint{}}
	close(h.idle)
	h.name, h.rate, h.core = cfg.Interface, cfg.PortRate, (*ndpCore)(h)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("live NDP host on %q: %w", cfg.Interface, err), h.release())
		}
	}()
	if h.own, err = cfg.check(); err != nil {
		return nil, err
	}
	if h.own.MAC, err = hardwareAddress(cfg.Interface, h.own.MAC); err != nil {
		return nil, err
	}
	for _, p := range cfg.Peers {
		h.peers[p.Endpoint], h.endpoints[p.IP] = p, p.Endpoint
	}
	if h.transport, err = ndp.New(cfg.Transport, (*ndpCore)(h)); err != nil {
		return nil, err
	}
	return h, h.open(h.own.MAC, []netip.Addr{h.own.IP})
}

// Send starts a transfer at once and returns its connection.
func (h *NDPHost) Send(to ndp.Endpoint, bytes uint64) (connection uint32, err error) {
	err = h.do(func() error {
		if _, known := h.peers[to]; !known || to == h.cfg.Transport.Address {
			return fmt.Errorf("send to endpoint %d: it is not among the peers", to)
		}
		if bytes == 0 {
			return errEndless
		}
		now := h.now()
		connection, err = h.transport.Send(ndp.Flow{To: to, Bytes: bytes, Start: now})
		if err != nil {
			return err
		}
		if h.waiting == 0 {
			h.idle = make(chan struct{})
		}
		h.waiting++
		h.flows = append(h.flows, NDPFlow{Connection: connection, To: to, Bytes: bytes, Started: now})
		return nil
	})
	return connection, err
}

// Wait returns when every flow of this host is finished, or when ctx ends.
func (h *NDPHost) Wait(ctx context.Context) error {
	var idle chan struct{}
	if err := h.do(func() error { idle = h.idle; return nil }); err != nil {
		return err
	}
	select {
	case <-idle:
		return nil
	case <-h.ended:
		return h.gone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Flows returns the host's transfers in the order of Send.
func (h *NDPHost) Flows() (list []NDPFlow, err error) {
	err = h.do(func() error {
		list = append(list, h.flows...)
		return nil
	})
	return list, err
}

// Counters returns what the transport counted, and how many packets came damaged.
func (h *NDPHost) Counters() (c ndp.Counters, damaged uint64, err error) {
	err = h.do(func() error {
		c, damaged = h.transport.Counters(), h.damaged
		return nil
	})
	return c, damaged, err
}

// ndpCore is what the station drives.
type ndpCore NDPHost

// NDPEvent notes the end of flows and passes every event on.
func (c *ndpCore) NDPEvent(now clock.Time, e ndp.Event) {
	if e.Kind == ndp.Finished {
		f := &c.flows[e.Connection-c.cfg.Transport.FirstConnection]
		f.Finished, f.Done = now, true
		c.waiting--
		if c.waiting == 0 {
			close(c.idle)
		}
	}
	if c.cfg.Sink != nil {
		c.cfg.Sink.NDPEvent(now, e)
	}
}

func (c *ndpCore) timers() (serve, send clock.Time) {
	serve, _ = c.transport.NextTimer()
	if c.held == nil {
		c.held = c.poll((*NDPHost)(c).now())
	}
	if c.held != nil {
		return serve, 0
	}
	return serve, clock.Never
}

func (c *ndpCore) serve(now clock.Time) error {
	c.transport.HandleTimer(now)
	return nil
}

func (c *ndpCore) next(now clock.Time) []byte {
	frame := c.held
	if frame == nil {
		frame = c.poll(now)
	}
	c.held = nil
	return frame
}

// take parses a frame. The header has its own checksum; of a whole packet the payload must be what was sent, where a switch that
// only cuts leaves less than the header announces.
func (c *ndpCore) take(now clock.Time, frame []byte) (ours bool, err error) {
	p := &c.packet
	if p.Parse(frame) != nil || !p.HasUDP || p.IP.Dst != c.own.IP {
		return false, nil
	}
	from, known := c.endpoints[p.IP.Src]
	h := &c.in.Header
	if !known || h.Parse(p.Payload) != nil {
		return false, nil
	}
	returned := h.Flags&wire.FlagReturned != 0
	if port := p.UDP.DstPort; !returned && port != wire.Port || returned && p.UDP.SrcPort != wire.Port {
		return false, nil
	}
	arrived := len(p.Payload) - wire.Size
	if !h.Trimmed(len(p.Payload)) && (arrived != int(h.Length) || !intact(p.Payload[wire.Size:], h)) {
		c.damaged++
		return true, nil
	}
	c.in.From, c.in.To, c.in.Entropy = from, c.cfg.Transport.Address, p.UDP.SrcPort&entropyMask
	c.in.Payload = uint16(min(arrived, int(h.Length)))
	c.transport.HandlePacket(now, &c.in)
	return true, nil
}

// entropyMask are the bits of the path tag that fit into the UDP source port, by which switches spray: the dynamic ports above
// 49152. The port of NDP is among them, so the tag that would give it is sent from the port below.
const entropyMask = 1<<14 - 1

func sourcePort(entropy uint16) uint16 {
	port := 3<<14 | entropy&entropyMask
	if port == wire.Port {
		port--
	}
	return port
}

// poll returns the transport's next packet as a frame, or nil.
func (c *ndpCore) poll(now clock.Time) []byte {
	o := &c.out
	if !c.transport.Poll(now, o) {
		return nil
	}
	peer, known := c.peers[o.To]
	if !known {
		return nil // an answer to an endpoint that take would have refused: none is ever made
	}
	p := packet.Packet{Derived: true, SumUDP: true, HasUDP: true}
	p.Eth = packet.Ethernet{Dst: peer.MAC, Src: c.own.MAC, Type: packet.EtherTypeIPv4}
	dscp := c.cfg.ControlDSCP
	if o.Header.Kind == wire.Data {
		dscp = c.cfg.DataDSCP
	}
	p.IP = packet.IP{Version: 4, TOS: dscp << 2, TTL: 64, Protocol: packet.ProtocolUDP, Src: c.own.IP, Dst: peer.IP}
	if c.own.IP.Is6() {
		p.Eth.Type, p.IP.Version = packet.EtherTypeIPv6, 6
	}
	p.UDP = packet.UDP{SrcPort: sourcePort(o.Entropy), DstPort: wire.Port}
	payload := make([]byte, 0, wire.Size+int(o.Payload))
	payload = o.Header.AppendTo(payload)
	p.Payload = appendPattern(payload, &o.Header, int(o.Payload))
	return p.AppendTo(nil)
}

// appendPattern appends the payload of a packet, which says where it belongs: damage and mix-ups show.
func appendPattern(b []byte, h *wire.Header, n int) []byte {
	for i := range n {
		b = append(b, pattern(h, i))
	}
	return b
}

func intact(payload []byte, h *wire.Header) bool {
	for i, v := range payload {
		if v != pattern(h, i) {
			return false
		}
	}
	return true
}

func pattern(h *wire.Header, i int) byte {
	return byte((h.Connection*31 + h.Seq*7 + uint32(i)) % math.MaxUint8)
}
