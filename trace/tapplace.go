package trace

import (
	"net/netip"
	"slices"
)

// A Place says where a single capture was taken, if its user does.
type Place uint8

// Places.
const (
	PlaceUnknown Place = iota
	// PlaceRequester and PlaceResponder: at the port of that host. What it sent and what reached it passed the tap.
	PlaceRequester
	PlaceResponder
	// PlaceBefore: frames pass the tap before anything between the hosts can lose them.
	PlaceBefore
	// PlaceAfter: frames pass the tap after all that can lose them.
	PlaceAfter
)

// vouch records whose frames the capture holds completely. That a capture missed no frame, by its own counts or as the
// user declares, proves only that it holds what passed the tap: frames may have been lost before it, depending on its
// place.
func (s *scan) vouch(m *Meta) error {
	counted := countedNone(s.interfaces) && s.bad == 0
	whole := s.o.Complete && s.bad == 0
	switch s.o.Place {
	case PlaceUnknown:
		m.Complete = whole
	case PlaceBefore:
		m.Complete = whole || counted
	case PlaceAfter:
	case PlaceRequester, PlaceResponder:
		host, ok := m.Connections.hostOf(s.o.Place == PlaceRequester)
		if !ok {
			return &UnjudgedError{Name: s.src.Name,
				Reason: "no host that plays the role that --tap names takes part in every connection of the capture",
				Advice: "a capture at a host holds frames from and to that host only: leave out --tap, or name the file of that " +
					"host"}
		}
		if other, _ := m.Connections.hostOf(s.o.Place != PlaceRequester); s.inference != nil &&
			s.inference.requesting(other) && s.inference.requesting(host) {
			m.Notes = append(m.Notes,
				"both hosts send requests: which one --tap means is not known (--connections says it), so its place is not used")
			return nil
		}
		m.TapHost, m.Vouched = host.String(), whole || counted
	}
	return nil
}

// hostOf returns the host that takes part in every connection and is the requester (or the responder) of the first one.
func (c *Connections) hostOf(requester bool) (netip.Addr, bool) {
	all := c.All()
	for i := range all {
		host := all[i].Responder.IP
		if requester {
			host = all[i].Requester.IP
		}
		elsewhere := func(c Connection) bool { return c.Requester.IP != host && c.Responder.IP != host }
		if host.IsValid() && !slices.ContainsFunc(all, elsewhere) {
			return host, true
		}
	}
	return netip.Addr{}, false
}

// AtTap reports whether the sender of a flow's packets is at the host where the capture was taken.
func (m *Meta) AtTap(flow FlowID) bool {
	conn, ok := m.Connections.Get(flow)
	if m.TapHost == "" || !ok {
		return false
	}
	host := conn.Requester.IP
	if flow.Reverse() {
		host = conn.Responder.IP
	}
	return host.String() == m.TapHost
}

// SeesAll reports whether the trace is known to hold every frame from and to the sender of a flow's packets.
func (m *Meta) SeesAll(flow FlowID) bool { return m.Complete || m.Vouched && m.AtTap(flow) }
