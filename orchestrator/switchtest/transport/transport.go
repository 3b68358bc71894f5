// Package transport joins what a transport of switch tests declares (package wire) with its endpoints on a network and
// the judge of its hosts. A transport has a folder below this one and is one line in the registry of package
// switchtest.
package transport

import (
	"fmt"
	"iter"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport is what hosts speak: what its folder below package generator declares, its endpoints on a network, and the
// judge of its hosts.
type Transport struct {
	wire.Transport
	// One of both gives the hosts their endpoints; all flows are of this transport. Attach starts the flows, too. Open
	// returns what starts them one by one: each flow that it is shown is valid until the next.
	Attach func(s *Setup, flows []*Flow) error
	Open   func(s *Setup, flows iter.Seq[*Flow]) (Endpoints, error)
	Judge  *Judge // nil: its hosts are not judged
	Stops  bool   // flows can leave before their end (Flow.Stop)
	// Datagrams: on real frames its hosts send and receive through UDP sockets of their kernels, unless they speak another
	// transport, too.
	Datagrams bool
}

// SettingError is about a parameter of the hosts, which the test gives.
type SettingError struct{ Key, What, Why string }

func (e *SettingError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Key, e.What, e.Why) }

// Endpoints is the hosts of a transport. While the network runs, hosts may be simulated in parallel: what a host's
// stack does at once concerns this host alone, and books are told through fabric.Host.Report.
type Endpoints interface {
	// Start takes a flow, which starts now or later.
	Start(f *Flow) error
	// Settle books how far the flows have come that are not closed.
	Settle()
}

// Counter is Endpoints that count what their hosts do, for switch-counters.json.
type Counter interface {
	Counters(add func(host fabric.HostID, name string, n int64))
}

// Flow is one flow of a plan.
type Flow struct {
	workload.Flow
	Number    int // from 1
	Item      int // of the workload, from 0
	Transport string
	Src, Dst  fabric.HostID
	// Packets and Payload say how much is sent: of a transfer, Payload bytes in Packets packets; both 0: without end.
	Packets    int64
	Payload    int64
	PacketSize int
	Start      clock.Time
	Stop       clock.Time // of a flow without end: it sends nothing new from then on; 0: never
	Rate       clock.BitRate
	Mark       stack.Mark
	Tenant     int     // 0: none
	Weight     float64 // beside other flows
	Rank       wire.Ranking
}

// Endless reports whether the flow sends until the test ends.
func (f *Flow) Endless() bool {
	return f.Kind == workload.Transfer && f.Payload == 0 || f.Kind == workload.Locking && f.Count == 0
}

// Text says in a line what the flow is.
func (f *Flow) Text() string {
	s := fmt.Sprintf("%s %s %d -> %d", f.Transport, f.Kind, f.Src, f.Dst)
	switch {
	case f.Kind == workload.Pings:
		s += fmt.Sprintf(", %d of %d B every %s", f.Count, f.PacketSize, f.Interval)
	case f.Kind == workload.Locking:
		s += locksText(f)
	case f.Kind == workload.Loop:
		s += fmt.Sprintf(", %d of %d B for %d B", f.Count, f.Request, f.Response)
		if f.Service > 0 {
			s += " after " + f.Service.String()
		}
	case f.Endless():
		s += fmt.Sprintf(", packets of %d B without end", f.PacketSize)
	default:
		s += fmt.Sprintf(", %d packets of %d B (%d B of payload)", f.Packets, f.PacketSize, f.Payload)
	}
	if f.Rate > 0 {
		s += fmt.Sprintf(" at %g Gb/s", float64(f.Rate)/float64(clock.Gbps))
	}
	if p := f.Pace; p != nil {
		s += paceText(p)
	}
	if f.Start > 0 {
		s += " from " + f.Start.String()
	}
	if f.Stop > 0 {
		s += " to " + f.Stop.String()
	}
	if f.Mark.DSCP > 0 {
		s += fmt.Sprintf(", dscp %d", f.Mark.DSCP)
	}
	if f.Mark.IPv6 {
		s += ", IPv6"
	}
	if f.Tenant > 0 {
		s += fmt.Sprintf(", tenant %d", f.Tenant)
	}
	if f.Weight != 1 {
		s += fmt.Sprintf(", weight %g", f.Weight)
	}
	if f.Query > 0 {
		s += fmt.Sprintf(", query %d", f.Query)
	}
	switch {
	case f.Rank.Kind == wire.RankByDeadline:
		s += ", rank deadline " + clock.Time(f.Rank.Value*uint64(clock.Nanosecond)).String()
	case f.Rank.Kind != wire.Unranked:
		s += ", rank " + f.Rank.String()
	}
	return s
}

// locksText says what a thread that takes locks does.
func locksText(f *Flow) string {
	s := ", transactions without end"
	if f.Count > 0 {
		s = fmt.Sprintf(", %d transactions", f.Count)
	}
	if f.Locks.Interval > 0 {
		s += " every " + f.Locks.Interval.String()
	}
	if f.Locks.Think > 0 {
		s += " of " + f.Locks.Think.String()
	}
	if f.Locks.Kill > 0 {
		s += ", killed after " + f.Locks.Kill.String()
	}
	return s
}

// paceText says how a flow departs from an even rate.
func paceText(p *workload.Pace) (s string) {
	if p.Jitter > 0 {
		s += fmt.Sprintf(", gaps ±%g %%", p.Jitter*100)
	}
	if p.Off > 0 {
		s += fmt.Sprintf(", %s on, %s off", p.On, p.Off)
		if p.Random {
			s += " on average"
		}
	}
	if p.Steps != nil {
		for _, step := range *p.Steps {
			s += fmt.Sprintf(", %g Gb/s after %s", float64(step.Rate)/float64(clock.Gbps), step.At)
		}
	}
	return s
}

// Setup is the hosts of a run while they get their endpoints.
type Setup struct {
	Net    *fabric.Network
	Test   *config.SwitchTest
	Values parameter.Values // of the transport
	Bugs   []string         // seeded ones of the hosts
	Books
	Live bool // on real frames
	// Ranked says that packets have ranks: those of senders as their flows say, all others 0.
	Ranked bool
	// Untapped says that endpoints count what arrives: nobody sees it on the wire.
	Untapped bool
	Add      func(fabric.HostID, fabric.Stack) // puts an endpoint of the transport on a host
	Fail     func(error)                       // gives up the run
	// Weights says that packets of a connection weigh what the flow does; nil: all flows weigh 1.
	Weights func(sender fabric.HostID, connection uint32, f *Flow)
}

// Weigh says, before its first packet, that what a sender sends of a connection belongs to a flow. Hosts that are
// simulated in parallel may call it for connections of their own.
func (s *Setup) Weigh(sender fabric.HostID, connection uint32, f *Flow) {
	if s.Weights != nil {
		s.Weights(sender, connection, f)
	}
}

// Books is what endpoints tell about their flows.
type Books interface {
	// Own says which flow the data packets of a connection of a sender belong to.
	Own(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int)
	// Name says to which flow a connection of a sender belongs, of requests and responses, too.
	Name(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int)
	// Turn says which loop the requests or responses of a connection of a sender belong to.
	Turn(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int)
	Progress(flow int) *Progress
	// Close says that nothing more will be booked for a flow.
	Close(flow int)
}

// Progress is how far the endpoints of a flow have come.
type Progress struct {
	Trips                  *analyzers.Distribution // round trips
	Done                   clock.Time              // when the receiver had all
	Known                  clock.Time              // when the sender knew
	Retransmissions        int64
	Timeouts               int64
	Finished, Acknowledged bool // Acknowledged: Known is set

	// Of a run that is not tapped, as the endpoints count; of a loop in both directions.
	Sent, Whole, Duplicates, Headers, Payload int64
	Reordered                                 int64 // whole packets that came first after one with a higher number
}

// Trip books a round trip.
func (p *Progress) Trip(took clock.Duration) {
	if p.Trips == nil {
		p.Trips = analyzers.NewDistribution("flows.rtt", analyzers.UnitNS, 0)
	}
	p.Trips.Record(took.Nanoseconds())
}

// Finish says that the receiver has all of the flow.
func (p *Progress) Finish(now clock.Time) { p.Finished, p.Done = true, now }

// Loop is a closed loop of requests and responses in progress, at the client.
type Loop struct {
	Asked    clock.Time
	Answered int
}

// Turn takes a response; it returns the round trip and whether another request follows.
func (l *Loop) Turn(now clock.Time, f *Flow) (trip clock.Duration, more bool) {
	trip = now.Sub(l.Asked)
	l.Asked = now
	l.Answered++
	return trip, l.Answered < f.Count
}

// Turned books a response; more: another request follows.
func (p *Progress) Turned(now clock.Time, trip clock.Duration, more bool) {
	if p.Trip(trip); !more {
		p.Finish(now)
	}
}

// OneVersion refuses flows over IPv4 beside others over IPv6: hosts and judges tell headers from payload by one size.
func OneVersion(transport string, flows iter.Seq[*Flow]) error {
	number, v6 := 0, false
	for f := range flows {
		if number == 0 {
			number, v6 = f.Number, f.Mark.IPv6
		}
		if f.Mark.IPv6 != v6 {
			return fmt.Errorf("flows %d and %d differ in ip: all %s flows of a test are of one version of IP; make it two tests",
				number, f.Number, transport)
		}
	}
	return nil
}
