package trace

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
)

// recordOf is what a record must be according to the full parser.
func recordOf(p *packet.Packet, frame []byte) Record {
	r := Record{
		PSN: p.BTH.PSN, DestQP: p.BTH.DestQP, Flow: NoFlow, Opcode: p.BTH.Opcode, PadCount: p.BTH.PadCount,
		PayloadLen: uint16(p.PayloadLen()), PKey: p.BTH.PKey, ECN: p.IP.ECN(), DSCP: p.IP.DSCP(),
		ICRC: packet.CheckICRC(frame, p),
		VA:   p.RETH.VA, RKey: p.RETH.RKey | p.AtomicETH.RKey | p.IETH, DMALen: p.RETH.Length, Syndrome: p.AETH.Syndrome,
		MSN: p.AETH.MSN,
	}
	r.SrcPort, r.Version, r.Reserved = p.UDP.SrcPort, p.BTH.Version, uint16(p.BTH.Resv6)<<8|uint16(p.BTH.Resv7)
	r.Operand = uint64(p.ImmDt)
	switch {
	case p.Headers&packet.HasAtomicETH != 0:
		r.VA, r.Operand = p.AtomicETH.VA, p.AtomicETH.Swap
		if p.BTH.Opcode == packet.CmpSwap {
			r.Compare = p.AtomicETH.Compare
		}
	case p.Headers&packet.HasAtomicAckETH != 0:
		r.VA = p.AtomicAckETH
	}
	for _, f := range []struct {
		on   bool
		flag Flags
	}{
		{p.BTH.AckReq, AckReq}, {p.BTH.Solicited, Solicited}, {p.BTH.FECN, FECN}, {p.BTH.BECN, BECN},
		{p.Truncated(), Truncated}, {p.BTH.MigReq, MigReq},
		{p.Headers&packet.HasRETH != 0, HasRETH}, {p.Headers&packet.HasAETH != 0, HasAETH},
	} {
		if f.on {
			r.Flags |= f.flag
		}
	}
	return r
}

// agree compares the fast decoder with packet.Parse on one frame.
func agree(t interface {
	Helper()
	Errorf(string, ...any)
}, frame []byte) {
	t.Helper()
	var p packet.Packet
	var r Record
	parseErr := p.Parse(frame)
	s, err := decodeRoCE(frame, packet.Port, &r)
	roce := parseErr == nil && p.IsRoCE()
	if roce != (err == nil) {
		t.Errorf("packet.Parse: RoCE %t, %v; decoder: %v\n%x", roce, parseErr, err, frame)
		return
	}
	if !roce {
		if parseErr == nil && !errors.Is(err, ErrNotRoCE) {
			t.Errorf("not RoCE, but the decoder says %v\n%x", err, frame)
		}
		return
	}
	if r.Has(HasCM) {
		return // its fields are those of the message, which packet.ParseCM decodes
	}
	r.ICRC = checkICRC(frame, &s)
	if diff := cmp.Diff(recordOf(&p, frame), r); diff != "" {
		t.Errorf("%s\n%x", diff, frame)
	}
	src, dst, qpn := frameFlowKeyAddrs(frame, &s, r.DestQP)
	if src != p.IP.Src || dst != p.IP.Dst || qpn != p.BTH.DestQP {
		t.Errorf("flow %v %v %v, want %v %v %v", src, dst, qpn, p.IP.Src, p.IP.Dst, p.BTH.DestQP)
	}
}

func TestDecoderAgreesWithParseOnSoftRoCE(t *testing.T) {
	files, err := filepath.Glob("../packet/testdata/rxe/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures found: %v", err)
	}
	for _, file := range files {
		err := FileSource(file).ForEachFrame(context.Background(), func(f *Frame) error {
			for _, snap := range []int{len(f.Data), 128, 66, 60, 54} {
				agree(t, f.Data[:min(snap, len(f.Data))])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDecoderAgreesWithParseOnDrawnFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := drawFrame(t)
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			frame[rapid.IntRange(0, len(frame)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		agree(t, frame[:rapid.IntRange(0, len(frame)).Draw(t, "snap")])
	})
}

func FuzzDecodeAgreesWithParse(f *testing.F) {
	for _, op := range []packet.Opcode{packet.WriteOnly, packet.Acknowledge, packet.ReadRequest, packet.CNP,
		packet.CmpSwap, packet.AtomicAcknowledge} {
		f.Add(testPacket(op, 17, 1000, 40).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, frame []byte) { agree(t, frame) })
}

func TestDecodingAllocatesNothing(t *testing.T) {
	data, connections := benchTrace(t, 20)
	for _, format := range []Format{FormatMirror, FormatPlain} {
		d := NewDecoder(format, connections, true)
		var r Record
		err := memorySource("x", data).ForEachFrame(context.Background(), func(f *Frame) error {
			if n := runtimetest.FewestAllocs(0, func() { _ = d.Decode(f, &r) }); n != 0 {
				t.Errorf("%v: %v allocations", format, n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// frameFlowKeyAddrs splits a flow key.
func frameFlowKeyAddrs(frame []byte, s *span, qpn packet.QPN) (src, dst netip.Addr, q packet.QPN) {
	key := frameFlowKey(frame, s, qpn)
	return key.addrs()
}
