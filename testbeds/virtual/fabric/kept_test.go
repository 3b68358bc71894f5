package fabric_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// framed is a stack that sends one packet with an original frame, and keeps arriving frames.
type framed struct {
	net  *fabric.Network
	send *fabric.Header
	got  [][]byte
}

func (f *framed) Receive(_ clock.Time, p *fabric.Packet) {
	f.got = append(f.got, f.net.AppendFrame(nil, p))
}

func (f *framed) Poll(_ clock.Time, p *fabric.Packet) bool {
	if f.send == nil {
		return false
	}
	id, src := p.ID, p.Src
	p.Header = *f.send
	p.ID, p.Src, f.send = id, src, nil
	f.net.SetFrame(p, codecs.Append(nil, &p.Header, []byte("payload that must pass")))
	return true
}

func (f *framed) NextTimer() clock.Time  { return clock.Never }
func (f *framed) HandleTimer(clock.Time) {}

// editor is a mechanism that changes packets as switches do, either in a copy or in place.
type editor struct {
	fabric.TailDrop
	change func(*fabric.Packet)
	copy   bool
	want   []byte
}

func (e *editor) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	c := p
	if e.copy {
		c = sw.Copy(p, 0)
	}
	e.change(c)
	same := *c
	same.ID = p.ID // the identification of the original frame
	e.want = codecs.Append(nil, &same.Header, []byte("payload that must pass"))
	if !e.copy {
		return v
	}
	sw.Place(now, c, v)
	return v.Drop(fabric.ReasonTail)
}

func TestAnEditedFrameIsThatOfTheChangedPacketWithItsPayload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := fabric.Header{Dst: 1, Protocol: rapid.SampledFrom([]fabric.Protocol{fabric.Raw, fabric.NDP,
			fabric.TCP}).Draw(t, "protocol"),
			IPv6: rapid.Bool().Draw(t, "v6"), DSCP: rapid.Uint8Range(0, 63).Draw(t,
				"dscp"), ECN: packet.ECT0, Size: 400, Original: 400}
		h.NDP = ndp.Header{Kind: ndp.Data, Connection: 3, Seq: 9, Length: 300}
		trim, stale := rapid.Bool().Draw(t, "trim"), rapid.SampledFrom([]fabric.Flags{0, fabric.LengthStale,
			fabric.HeaderSumStale}).Draw(t, "stale")
		dscp, mark := rapid.Uint8Range(0, 63).Draw(t, "new dscp"), rapid.Bool().Draw(t, "mark")
		e := &editor{copy: rapid.Bool().Draw(t, "copy"), change: func(p *fabric.Packet) {
			if p.DSCP = dscp; mark {
				p.ECN = packet.CE
			}
			if trim {
				p.Trim(200)
				p.Flags |= stale
				p.NDP.Flags |= ndp.FlagTrimmed
			}
		}}
		net, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}},
			func(*fabric.Switch) fabric.Mechanism { return e })
		if err != nil {
			t.Fatal(err)
		}
		net.KeepFrames()
		net.SetCodecs(codecs)
		from, to := &framed{net: net, send: &h}, &framed{net: net}
		net.Host(0).Attach(from)
		net.Host(1).Attach(to)
		if err := net.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		if len(to.got) != 1 || !bytes.Equal(to.got[0], e.want) {
			t.Errorf("arrived %x, want %x", to.got, e.want)
		}
	})
}

func TestAPacketThatASwitchMakesIsOfNoFrame(t *testing.T) {
	net, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	net.KeepFrames()
	net.SetCodecs(codecs)
	from, to := &framed{net: net, send: &fabric.Header{Dst: 1, Protocol: fabric.Raw, Size: 100}}, &framed{net: net}
	net.Host(0).Attach(from)
	net.Host(1).Attach(to)
	if err := net.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	sw := net.Switch(0)
	made := sw.Make(net.Now(), fabric.Header{Src: 0, Dst: 1, Protocol: fabric.Raw,
		Size: 90}) // reuses the memory of the previous packet
	want := codecs.Append(nil, &made.Header, nil)
	sw.Place(net.Now(), made, fabric.Verdict{}.To(sw.Port(1), 0))
	if err := net.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if len(to.got) != 2 || !bytes.Equal(to.got[1][:64], want[:64]) {
		t.Errorf("%d frames arrived; the last %x, want %x", len(to.got), to.got[len(to.got)-1], want)
	}
}
