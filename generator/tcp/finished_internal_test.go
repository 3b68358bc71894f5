package tcp

import (
	"testing"

	"candela.dev/candela/clock"
)

// ends counts events by kind, and finishes a transfer at either end.
type ends struct {
	seen  [Aborted + 1]int
	hosts [2]*Host
	bytes uint64
}

func (e *ends) TCPEvent(_ clock.Time, what Event) {
	e.seen[what.Kind]++
	if what.Kind == Acknowledged || what.Kind == Delivered && what.Bytes == e.bytes {
		e.hosts[what.Local].Finish(what.Peer, what.Connection)
	}
}

func TestFinishedConnectionsLeaveAndLateCopiesAreAnswered(t *testing.T) {
	for name, handshake := range map[string]bool{"established": false, "with a handshake": true} {
		t.Run(name, func(t *testing.T) { finishConnections(t, handshake) })
	}
}

func finishConnections(t *testing.T, handshake bool) {
	const flows, segments = 100, 5
	seen := &ends{bytes: segments * 1000}
	for i := range seen.hosts {
		h, err := New(Config{Address: Endpoint(i), MSS: 1000, InitialWindow: 2, ReceiveWindow: 1 << 20,
			MinRTO: clock.Second, DelayedACK: clock.Millisecond, Handshake: handshake, FirstSequence: 1<<32 - 1500}, seen)
		if err != nil {
			t.Fatal(err)
		}
		seen.hosts[i] = h
	}
	var late, opening Packet // the first data packet, and the first SYN
	now := clock.Time(0)
	for flow := range uint32(flows) {
		if err := seen.hosts[0].Write(1, flow, segments*1000, now); err != nil {
			t.Fatal(err)
		}
		for range 10 * segments {
			now = now.Add(clock.Millisecond)
			for i, h := range seen.hosts {
				h.HandleTimer(now)
				for p := new(Packet); h.Poll(now, p); {
					if late.Payload == 0 && p.Payload > 0 {
						late = *p
					}
					if opening.To == 0 && p.Header.Flags == FlagSYN {
						opening = *p
					}
					seen.hosts[1-i].HandlePacket(now, p)
				}
			}
		}
	}
	if seen.seen[Acknowledged] != flows || seen.seen[Delivered] < flows {
		t.Fatalf("%d of %d flows were acknowledged", seen.seen[Acknowledged], flows)
	}
	for i, h := range seen.hosts {
		if len(h.known) != 0 || len(h.timers) != 0 || len(h.gone) != i*flows {
			t.Errorf("host %d: %d connections, %d timers and %d receivers are left of finished flows", i, len(h.known),
				len(h.timers), len(h.gone))
		}
	}

	copies := []*Packet{&late}
	if handshake {
		copies = append(copies, &opening)
	}
	receiver, before := seen.hosts[1], seen.seen[Delivered]
	for _, p := range copies {
		var answer Packet
		receiver.HandlePacket(now, p)
		if !receiver.Poll(now, &answer) || answer.Header.Ack != receiver.cfg.sequence(segments*1000) {
			t.Errorf("a late copy is answered with %+v, not with an ACK of all bytes", answer.Header)
		}
		if receiver.Poll(now, &answer) || seen.seen[Delivered] != before || len(receiver.known) != 0 {
			t.Errorf("a late copy opens its connection again: %d connections", len(receiver.known))
		}
		seen.hosts[0].HandlePacket(now, &answer)
	}
	if at, ok := seen.hosts[0].NextTimer(); ok || len(seen.hosts[0].known) != 0 {
		t.Errorf("a late ACK opens a connection, and a timer until %v", at)
	}
}
