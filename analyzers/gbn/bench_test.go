package gbn_test

import (
	"testing"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// BenchmarkAnalyzer measures a record at 64 connections: 10-packet WRITEs round-robin, one ACK each; with losses, every
// 20th message loses a packet. The target is 60 ns per record without allocation.
func BenchmarkAnalyzer(b *testing.B) {
	for _, bc := range []struct {
		name  string
		every int // a loss in every so many messages; 0: none
	}{{"clean", 0}, {"losses", 20}} {
		b.Run(bc.name, func(b *testing.B) {
			const conns = 64
			records := benchRecords(conns, 200, bc.every)
			meta := trace.CheckedRecords(trace.Meta{Connections: connections(b, conns, 0, false)}, nil).Meta()
			a := gbn.New(meta, gbn.Config{})
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if i == len(records) {
					b.StopTimer()
					a, i = gbn.New(meta, gbn.Config{}), 0
					b.StartTimer()
				}
				a.Packet(&records[i])
				i++
			}
			if fs := a.Finish().Findings; i == len(records) && len(fs) > 0 {
				b.Fatal(dump(fs[:1]))
			}
		})
	}
}

// benchRecords interleaves the messages of n connections packet by packet.
func benchRecords(n, messages, every int) []trace.Record {
	streams := make([][]trace.Record, n)
	for c := range streams {
		for m := range messages {
			streams[c] = append(streams[c], benchMessage(c, m, every > 0 && (m*n+c)%every == 0)...)
		}
	}
	var out []trace.Record
	for i := 0; len(streams) > 0; i++ {
		live := streams[:0]
		for _, s := range streams {
			r := s[0]
			r.ID, r.TimeNS = uint64(len(out)+1), int64(len(out))*100
			out = append(out, r)
			if len(s) > 1 {
				live = append(live, s[1:])
			}
		}
		streams = live
	}
	return out
}

// benchMessage is a WRITE of ten packets; the fifth may be lost once.
func benchMessage(c, m int, loss bool) []trace.Record {
	flow := trace.NewFlowID(c+1, false)
	send := func(i int) trace.Record {
		r := trace.Record{
			Flow: flow, PSN: packet.NewPSN(int64(m*10 + i)), PayloadLen: mtu, Opcode: packet.WriteMiddle,
			PKey: trace.DefaultPKey, Flags: trace.Sent | trace.Passed,
		}
		switch i {
		case 0:
			r.Opcode, r.DMALen, r.VA = packet.WriteFirst, 10*mtu, 4096
			r.Flags |= trace.HasRETH
		case 9:
			r.Opcode = packet.WriteLast
			r.Flags |= trace.AckReq
		}
		return r
	}
	reply := func(i int, s packet.Syndrome, msn int) trace.Record {
		return trace.Record{
			Flow: flow.Peer(), PSN: packet.NewPSN(int64(m*10 + i)), Opcode: packet.Acknowledge, Syndrome: s, MSN: uint32(msn),
			PKey: trace.DefaultPKey, Flags: trace.Sent | trace.Passed | trace.HasAETH,
		}
	}
	var out []trace.Record
	for i := range 10 {
		r := send(i)
		if loss && i == 4 {
			r.Event = trace.EventDrop
		}
		out = append(out, r)
	}
	if loss {
		out = append(out, reply(4, packet.SyndromeNakSequence, m))
		for i := 4; i < 10; i++ {
			out = append(out, send(i))
		}
	}
	return append(out, reply(9, packet.SyndromeAckNoCredit, m+1))
}
