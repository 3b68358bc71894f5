package live

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	ndphost "candela.dev/candela/generator/ndp"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func TestTheClockStandsStillWhileTheRunHasNoCPU(t *testing.T) {
	var real time.Duration
	c := runClock{real: func() time.Duration { return real }, slowdown: 10}
	real = time.Millisecond
	if now := c.now(0); now != clock.Time(0).Add(100*clock.Microsecond) {
		t.Errorf("after 1 ms it shows %v", now)
	}
	real += 50 * time.Millisecond // none of it was intended
	if now := c.now(0); now != clock.Time(0).Add(300*clock.Microsecond) || c.stopped != 48*time.Millisecond ||
		c.longest != 50*time.Millisecond {
		t.Errorf("after a gap of 50 ms it shows %v, stopped %v, longest %v", now, c.stopped, c.longest)
	}
	real += 50 * time.Millisecond // all of it was intended
	if now := c.now(50 * time.Millisecond); now != clock.Time(0).Add(5300*clock.Microsecond) ||
		c.stopped != 48*time.Millisecond {
		t.Errorf("after a wait of 50 ms it shows %v, stopped %v", now, c.stopped)
	}
	if d := c.until(clock.Time(0).Add(5400 * clock.Microsecond)); d != time.Millisecond {
		t.Errorf("%v until 100 us later", d)
	}
	if d := c.until(clock.Never); d != time.Second {
		t.Errorf("%v until never", d)
	}
}

func TestARunThatStoodStillForMostOfItsTimeIsBusy(t *testing.T) {
	for _, tt := range []struct {
		stopped time.Duration
		busy    bool
	}{{0, false}, {500 * time.Millisecond, false}, {501 * time.Millisecond, true}} {
		r := Report{Real: time.Second, Stopped: tt.stopped}
		if err := r.Busy(); errors.Is(err, ErrBusy) != tt.busy {
			t.Errorf("stopped for %v: %v", tt.stopped, err)
		}
	}
}

var codecs = &wire.Codecs{fabric.Raw: raw.Codec(), fabric.NDP: ndphost.Codec(), fabric.TCP: tcp.Codec()}

func TestAFrameOfAHostIsParsedAsThePacketThatItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const hosts, first = 9, 1 << 31
		var p fabric.Packet
		p.Src, p.Dst = fabric.HostID(rapid.IntRange(0, hosts-1).Draw(t, "src")), fabric.HostID(rapid.IntRange(0,
			hosts-1).Draw(t, "dst"))
		p.Protocol = rapid.SampledFrom([]fabric.Protocol{fabric.Raw, fabric.NDP, fabric.TCP}).Draw(t, "protocol")
		p.IPv6, p.DSCP, p.ECN = rapid.Bool().Draw(t, "v6"), rapid.Uint8Range(0, 63).Draw(t,
			"dscp"), packet.ECN(rapid.IntRange(0, 3).Draw(t, "ecn"))
		p.TTL, p.Size = 64, int32(rapid.IntRange(120, 1500).Draw(t, "size"))
		p.Original = p.Size
		trim := rapid.Bool().Draw(t, "trim")
		switch p.Protocol {
		case fabric.Raw:
			p.Flow, p.Number = rapid.Uint32().Draw(t, "flow"), rapid.Uint32().Draw(t, "number")
		case fabric.NDP:
			p.NDP = ndp.Header{Kind: ndp.Data, Connection: rapid.Uint32().Draw(t, "connection"), Seq: 7, Length: 9}
			p.Flow, p.Entropy = ndphost.FlowOf(p.Src, p.Dst, &p.NDP), uint16(rapid.IntRange(0, wire.PortMask).Draw(t, "path"))
		default:
			p.Flow = uint32(rapid.IntRange(1, MaxFlow).Draw(t, "flow"))
			p.Entropy, p.Number = uint16(p.Flow), uint32(rapid.IntRange(0, 1<<20).Draw(t, "number"))
			p.TCP = tcp.Header{Seq: first + p.Number, Flags: tcp.FlagACK}
		}
		frame := codecs.AppendTagged(nil, &p.Header)
		want := p.Header
		if trim && p.Trim(110) {
			want = p.Header
			frame = codecs.AppendTagged(nil, &p.Header)
			want.Original, want.Flags = want.Size, 0 // the frame does not contain them
		}
		x := parser{codecs: codecs, hosts: hosts, first: first}
		var got fabric.Header
		damaged, ok := x.parse(frame, &got)
		if !ok || got != want {
			t.Fatalf("parsed %+v, want %+v", got, want)
		}
		if trimmed := p.Flags&fabric.Trimmed != 0; p.Protocol == fabric.TCP && damaged != trimmed {
			t.Errorf("damaged %v, trimmed %v", damaged, trimmed)
		}
	})
}

func TestWhatIsNotOfTheTestIsNotParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p fabric.Packet
		p.Src, p.Dst, p.Protocol, p.Size, p.IPv6 = 0, 1, fabric.Raw, 200, rapid.Bool().Draw(t, "v6")
		frame := codecs.AppendTagged(nil, &p.Header)
		frame = frame[:rapid.IntRange(0, len(frame)).Draw(t, "length")]
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			if len(frame) > 0 {
				frame[rapid.IntRange(0, len(frame)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
		}
		before := bytes.Clone(frame)
		var h fabric.Header
		x := parser{codecs: codecs, hosts: 2, ranks: rankTable([]Connection{{Number: 1}, {Number: 2}, {Number: 3}})}
		if _, ok := x.parse(frame, &h); ok && (h.Src > 1 || h.Dst > 1 || int(h.Size) != len(frame)) {
			t.Errorf("parsed %x as %+v", frame, h)
		}
		if !bytes.Equal(before, frame) {
			t.Error("the frame was changed")
		}
	})
}
