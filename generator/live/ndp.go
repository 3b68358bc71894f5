package live

import (
	"errors"
	"fmt"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/packet"
)

// NDPPeer says where an NDP endpoint is. Every endpoint of a test has one, the host's own included.
type NDPPeer struct {
	Endpoint ndp.Endpoint
	IP       netip.Addr
	MAC      packet.MAC // of the host's own: zero stands for the interface's
}

// NDPConfig is what an NDP host is opened with.
type NDPConfig struct {
	Interface string
	PortRate  clock.BitRate
	// Transport is the protocol's configuration; its Address is one of the peers.
	Transport ndp.Config
	Peers     []NDPPeer
	// DataDSCP and ControlDSCP mark data packets and everything else: a trimming switch knows by them what it may cut.
	DataDSCP, ControlDSCP uint8
	// Sink takes the transport's events in the host's goroutine, and must not block; nil: nobody does.
	Sink ndp.Sink
}

// check says what is wrong with c, and returns the host's own entry.
func (c *NDPConfig) check() (own NDPPeer, err error) {
	if c.PortRate <= 0 {
		return own, fmt.Errorf("port rate %v: it must be positive", c.PortRate)
	}
	if c.DataDSCP > 63 || c.ControlDSCP > 63 {
		return own, fmt.Errorf("DSCP %d and %d: 0 to 63 fit", c.DataDSCP, c.ControlDSCP)
	}
	found := false
	byIP := map[netip.Addr]ndp.Endpoint{}
	byEndpoint := map[ndp.Endpoint]bool{}
	for _, p := range c.Peers {
		other, taken := byIP[p.IP]
		switch {
		case !p.IP.IsValid():
			return own, fmt.Errorf("endpoint %d has no address", p.Endpoint)
		case taken:
			return own, fmt.Errorf("endpoints %d and %d share the address %v", other, p.Endpoint, p.IP)
		case byEndpoint[p.Endpoint]:
			return own, fmt.Errorf("endpoint %d is listed twice", p.Endpoint)
		}
		byIP[p.IP], byEndpoint[p.Endpoint] = p.Endpoint, true
		if p.Endpoint == c.Transport.Address {
			own, found = p, true
		}
	}
	if !found {
		return own, fmt.Errorf("the host's own endpoint %d is not among the %d peers", c.Transport.Address, len(c.Peers))
	}
	for _, p := range c.Peers {
		if p.IP.Is4() != own.IP.Is4() {
			return own, fmt.Errorf("endpoint %d has address %v, the host %v: both must be of one IP version", p.Endpoint, p.IP, own.IP)
		}
	}
	return own, nil
}

// NDPFlow is a transfer of the host and what became of it.
type NDPFlow struct {
	Connection uint32
	To         ndp.Endpoint
	Bytes      uint64
	Started    clock.Time // on the host's clock, which starts when it is opened
	Finished   clock.Time // valid if Done
	Done       bool       // the receiver has all of it, and the sender knows
}

// errEndless says that nobody can wait for a flow without end.
var errEndless = errors.New("a live flow has a size: 0 bytes would be without end")
