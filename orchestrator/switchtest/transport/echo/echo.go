// Package echo gives hosts of switch tests endpoints that ping and answer.
package echo

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/echo"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration and endpoints.
func Transport() transport.Transport {
	return transport.Transport{Transport: echo.Transport(), Attach: attach}
}

func attach(s *transport.Setup, flows []*transport.Flow) error {
	// book books a round trip of a ping.
	byNumber := make(map[uint32]*transport.Flow)
	book := func(now clock.Time, id uint32, rtt clock.Duration) {
		p := s.Progress(int(id))
		p.Trip(rtt)
		if p.Trips.Count() == int64(byNumber[id].Count) {
			p.Finish(now)
			s.Close(int(id))
		}
	}
	echoes := make(map[fabric.HostID]*stack.Echo)
	at := func(h fabric.HostID) *stack.Echo {
		if echoes[h] == nil {
			echoes[h] = stack.NewEcho(h, func(now clock.Time, id uint32, rtt clock.Duration) {
				s.Net.Host(h).Report(func() { book(now, id, rtt) })
			})
			s.Add(h, echoes[h])
		}
		return echoes[h]
	}
	for _, f := range flows {
		id := uint32(f.Number)
		byNumber[id] = f
		s.Own(fabric.Echo, f.Src, id, f.Number)
		at(f.Dst)
		at(f.Src).Ping(stack.Ping{ID: id, To: f.Dst, Count: f.Count, Interval: f.Interval, Size: int32(f.PacketSize),
			Start: f.Start, Mark: f.Mark, Rank: f.Rank})
	}
	return nil
}
