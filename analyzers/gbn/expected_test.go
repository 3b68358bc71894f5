package gbn_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// The fast path for ordinary packets changes nothing: after every record of a trace, compliant or damaged at random, an
// analyzer with and one without it are in the same state.
func TestOrdinaryPacketsAreFollowedLikeAnyOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConfig(rt)
		all := views(t, simulate(c))
		view := all[rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(rt, "view")]
		records := spoiled(t, rt, view)
		cfg := c.known(rapid.Bool().Draw(rt, "timeout"))
		fast, general := gbn.New(view.Meta(), cfg), gbn.NewGeneral(view.Meta(), cfg)
		every := rapid.IntRange(1, 50).Draw(rt, "every")
		for i := range records {
			a, b := records[i], records[i]
			fast.Packet(&a)
			general.Packet(&b)
			if i%every == 0 && !gbn.Same(fast, general) {
				rt.Fatalf("different after record %d of %d: %+v", i, len(records), a)
			}
			gbn.TakeNothingForOrdinary(general)
		}
		fast.Finish()
		general.Finish()
		if !gbn.Same(fast, general) {
			rt.Fatal("different at the end")
		}
	})
}

// spoiled returns the records of a trace, some of them changed.
func spoiled(t *testing.T, rt *rapid.T, c *trace.Checked) []trace.Record {
	var records []trace.Record
	if err := c.ForEach(t.Context(),
		func(r *trace.Record) error { records = append(records, *r); return nil }); err != nil {
		t.Fatal(err)
	}
	for range rapid.SampledFrom([]int{0, 1, 3, 30}).Draw(rt, "changes") {
		if len(records) == 0 {
			break
		}
		i := rapid.IntRange(0, len(records)-1).Draw(rt, "record")
		r, n := &records[i], rapid.IntRange(0, 5).Draw(rt, "value")
		switch rapid.IntRange(0, 12).Draw(rt, "change") {
		case 0:
			r.Opcode = packet.Opcode(rapid.IntRange(0, 0x17).Draw(rt, "opcode"))
		case 1:
			r.PSN = r.PSN.Add(n - 2)
		case 2:
			r.PayloadLen = uint16([]int{0, 1, mtu - 1, mtu, mtu + 1, 4 * mtu}[n])
		case 3:
			r.DMALen = uint32([]int{0, 1, mtu, 1 << 31, 1<<31 + 1, 3 * mtu}[n])
		case 4:
			r.PadCount = uint8(n & 3)
		case 5:
			r.Flags ^= []trace.Flags{trace.Sent, trace.Passed, trace.AckReq, trace.Solicited, trace.ForeignRKey,
				trace.ForeignPKey}[n]
		case 6:
			r.Event = trace.EventType(n)
		case 7:
			r.Event = trace.EventRewrite
		case 8:
			r.ICRC = packet.ICRCInvalid
		case 9:
			r.Flow ^= 1
		case 10:
			r.PKey = uint16([]int{0xffff, 0x7fff, 0x8001, 0, 1, 0xffff}[n])
		case 11:
			records = slices.Insert(records, i, *r)
		case 12:
			records = slices.Delete(records, i, i+1)
		}
	}
	return records
}
