package fabric_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// delivered records the bytes delivered in order, by flow.
type delivered map[uint32]uint64

// TCPEvent implements tcp.Sink.
func (d delivered) TCPEvent(_ clock.Time, e tcp.Event) {
	if e.Kind == tcp.Delivered {
		d[e.Connection] = e.Bytes
	}
}

func TestTCPFlowsShareALinkAndFillIt(t *testing.T) {
	const senders, size = 4, 1500
	// Rates differ: with equal rates the order of arrivals is the same in each round, and one flow takes all the room.
	spec := &fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{
		Hosts: senders + 1, LinkOf: func(h fabric.HostID) fabric.LinkSpec {
			return fabric.LinkSpec{Rate: (25 + 7*clock.BitRate(h)) * clock.Gbps,
				Delay: clock.Microsecond + clock.Duration(h)*77*clock.Nanosecond}
		}}}
	spec.Switch.Queues = []fabric.QueueSpec{{MaxPackets: 200}}
	for _, control := range []tcp.Control{tcp.Reno, tcp.Cubic} {
		net, err := fabric.New(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(delivered)
		for i := range fabric.HostID(senders + 1) {
			h, err := net.AttachTCP(i, fabric.TCPConfig{Control: control, PacketSize: size}, got)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				if err := h.Core().Write(0, uint32(i), tcp.Endless, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		const long = 100 * clock.Millisecond
		if err := net.Run(clock.Time(long)); err != nil {
			t.Fatal(err)
		}
		var sum, least uint64 = 0, 1 << 62
		for i := range uint32(senders) {
			sum, least = sum+got[i+1], min(least, got[i+1])
		}
		// Goodput at 25 Gb/s, without headers; the start costs some of it.
		all := uint64(25e9 / 8 * 0.1 * float64(size-tcp.Codec().HeaderSize(false)) / size)
		if sum > all || sum < all*97/100 {
			t.Errorf("control %d: %d bytes arrived, the link has room for %d", control, sum, all)
		}
		if least < sum/senders/2 {
			t.Errorf("control %d: flows got %v", control, got)
		}
		if c := net.Counts(fabric.Kind(fabric.TCP) * 8); c.Dropped == 0 {
			t.Error("nothing was lost: the queue was never full")
		}
	}
}

func TestTCPFramesHaveTheirSizeAndValidChecksums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomPacket(t)
		p.Protocol = fabric.TCP
		u := rapid.Uint32()
		p.TCP = tcp.Header{Seq: u.Draw(t, "seq"), Ack: u.Draw(t, "ack"), Flags: tcp.FlagACK,
			SACK: tcp.Block{Start: 7, End: u.Draw(t, "end")}}
		p.Size = int32(codecs.MinFrame(&p.Header) + rapid.IntRange(0, 9000).Draw(t, "payload"))
		p.Original = p.Size
		frame := codecs.Append(nil, &p.Header, nil)
		if len(frame) != int(p.Size) || codecs.MinFrame(&p.Header) != tcp.Codec().HeaderSize(p.IPv6) {
			t.Fatalf("%d bytes, want %d", len(frame), p.Size)
		}
		_, addresses, rest := layers(frame)
		pseudo := binary.BigEndian.AppendUint32(nil, uint32(len(rest)))
		if internetSum(addresses, append(pseudo, 0, 0, 0, 6), rest) != 0xffff {
			t.Error("TCP checksum is wrong")
		}
		var h tcp.Header
		if err := h.Parse(rest); err != nil || h != p.TCP {
			t.Errorf("%+v became %+v, %v", p.TCP, h, err)
		}
		if p.Trim(64) {
			if _, _, cut := layers(codecs.Append(nil, &p.Header, nil)); !bytes.Equal(cut[:20], rest[:20]) {
				t.Errorf("%x was cut to %x", rest[:20], cut)
			}
		}
	})
}

func TestTCPPacketsMustHaveRoomForPayload(t *testing.T) {
	net, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{tcp.Codec().HeaderSize(false), 1 << 20} {
		if _, err := net.AttachTCP(0, fabric.TCPConfig{PacketSize: size}, nil); err == nil {
			t.Errorf("packets of %d bytes: accepted", size)
		}
	}
}
