package gbn_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// FuzzAnalyzer feeds arbitrary records: the analyzer must neither panic nor hang nor collect findings without bound.
// Bytes are taken eight at a time: flow and flags, opcode, PSN (small steps are likely), syndrome, event and lengths.
func FuzzAnalyzer(f *testing.F) {
	f.Add([]byte{0, 6, 0, 0, 0, 0, 1, 0, 0, 8, 1, 0, 0, 0, 0, 0, 1, 17, 1, 0, 31, 0, 0, 1})
	for kind := range byte(3) {
		seed := make([]byte, 0, 800)
		for i := range byte(100) {
			seed = append(seed, i*7%64|kind<<6, i*13%25, i, 0, i%7*16, i%9, i%5, i)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		kind := trace.Kind(data[0]>>6)%3 + 1
		meta := trace.CheckedRecords(trace.Meta{Kind: kind, Connections: connections(t, 2, 0xfffffa, data[0]&32 != 0)},
			nil).Meta()
		a := gbn.New(meta, gbn.Config{Default: gbn.Limits{TimeoutNS: 1000, Retry: gbn.AtMost(1), RNRRetry: gbn.AtMost(1)}})
		var now int64
		for id := uint64(1); len(data) >= 8; id++ {
			now += int64(data[7]) * 100
			r := fuzzRecord(data, id, now)
			a.Packet(&r)
			data = data[8:]
		}
		if res := a.Finish(); len(res.Findings) > 2*len(gbn.Rules())*18 {
			t.Errorf("%d findings", len(res.Findings))
		}
	})
}

func fuzzRecord(data []byte, id uint64, now int64) trace.Record {
	r := trace.Record{
		ID: id, TimeNS: now, Flow: trace.FlowID(data[0]&7) - 1, Opcode: packet.Opcode(data[1] % 26),
		PSN: packet.NewPSN(int64(int8(data[2])) + int64(data[3])<<16), Syndrome: packet.Syndrome(data[4]),
		Event: trace.EventType(data[5] % 9), PayloadLen: uint16(data[6]) << 4,
		DMALen: binary.LittleEndian.Uint32(data[2:]) >> (data[7] & 31),
		MSN:    uint32(data[7]), PKey: trace.DefaultPKey, Flags: trace.Sent | trace.Passed | trace.HasAETH,
	}
	if data[0]&8 != 0 {
		r.Flags &^= trace.Sent
	}
	if data[0]&16 != 0 {
		r.Flags &^= trace.Passed
	}
	if data[3]&1 != 0 {
		r.PSN = packet.NewPSN(int64(int8(data[2])))
	}
	return r
}

// TestMemoryStaysBounded: a million packets of a connection whose responder never answers, and as many whose requester
// never shows what it knows.
func TestMemoryStaysBounded(t *testing.T) {
	meta := trace.CheckedRecords(trace.Meta{Connections: connections(t, 1, 0, false)}, nil).Meta()
	for name, answered := range map[string]bool{"no answer": false, "an ack for each": true} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		a := gbn.New(meta, gbn.Config{})
		for i := range int64(1_000_000) {
			r := trace.Record{
				ID: uint64(2 * i), TimeNS: i * 10, Opcode: packet.WriteOnly, PSN: packet.NewPSN(i), PKey: trace.DefaultPKey,
				Flags: trace.Sent | trace.Passed,
			}
			a.Packet(&r)
			if answered {
				r.Opcode, r.Flow, r.MSN, r.Syndrome = packet.Acknowledge, 1, uint32(i+1)&0xffffff, packet.SyndromeAckNoCredit
				r.Flags |= trace.HasAETH
				a.Packet(&r)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
			t.Errorf("%s: %d bytes after a million packets", name, grown)
		}
		runtime.KeepAlive(a)
	}
}
