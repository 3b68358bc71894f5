package gbn_test

import (
	"context"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A keyed packet is a SEND ONLY, an ACK or a sequence NAK, with its partition key.
type keyed struct {
	what string // send, ack, nak
	psn  int64
	key  uint16
}

// TestWhoChangesThePartitionKeyIsBlamedAndNobodyElse checks both sides, and labs whose partition is not the default.
func TestWhoChangesThePartitionKeyIsBlamedAndNobodyElse(t *testing.T) {
	const lab, other, full = 0x8123, 0x8001, trace.DefaultPKey
	for name, tt := range map[string]struct {
		packets []keyed
		want    []string
	}{
		"nobody changes it": {[]keyed{{"send", 0, full}, {"ack", 0, full}, {"send", 1, full}, {"ack", 1, full}}, nil},
		"another partition": {[]keyed{{"send", 0, lab}, {"ack", 0, lab}, {"send", 1, lab}, {"ack", 1, lab}}, nil},
		"a request that the responder drops": {
			[]keyed{{"send", 0, full}, {"ack", 0, full}, {"send", 1, other}, {"send", 1, full}, {"ack", 1, full}},
			[]string{"gbn.p-key-changed"}},
		"a request that the responder drops and asks for": {
			[]keyed{
				{"send", 0, full}, {"ack", 0, full}, {"send", 1, other}, {"send", 2, full}, {"nak", 1, full},
				{"send", 1, full}, {"send", 2, full}, {"ack", 2, full},
			},
			[]string{"gbn.p-key-changed"}},
		"the first request of all": {
			[]keyed{
				{"send", 0, other}, {"send", 1, full}, {"nak", 0, full}, {"send", 0, full}, {"send", 1, full}, {"ack", 1, full},
			},
			[]string{"gbn.p-key-changed", "gbn.p-key-changed", "gbn.p-key-changed"}},
		"the responder": {
			[]keyed{{"send", 0, full}, {"ack", 0, full}, {"send", 1, full}, {"ack", 1, other}, {"send", 1, full},
				{"ack", 1, full}},
			[]string{"gbn.p-key-changed"}},
		"a lost last request stays the requester's fault": {
			[]keyed{{"send", 0, full}, {"ack", 0, full}, {"send", 1, other}},
			[]string{"gbn.incomplete", "gbn.p-key-changed"}},
		"a partition that nothing shows the responder to be in": {
			[]keyed{{"send", 0, lab}, {"send", 0, lab}}, []string{"gbn.incomplete"}},
		"a silent responder in the default partition": {
			[]keyed{{"send", 0, full}, {"send", 0, full}}, []string{"gbn.ack-missing", "gbn.ack-missing"}},
		"a responder that takes another partition's request": {
			[]keyed{{"send", 0, full}, {"ack", 0, full}, {"send", 1, other}, {"ack", 1, full}},
			[]string{"gbn.p-key-changed", "gbn.ack-beyond"}},
	} {
		t.Run(name, func(t *testing.T) {
			meta := trace.Meta{Connections: connections(t, 1, 0, false)}
			c := trace.CheckedRecords(meta, keyedRecords(tt.packets))
			doc, err := analyzers.Run(context.Background(), c, gbn.New(c.Meta(), gbn.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range doc.Findings {
				got = append(got, f.Rule)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func keyedRecords(packets []keyed) []trace.Record {
	var records []trace.Record
	now, done := int64(0), int64(0)
	for i, p := range packets {
		r := trace.Record{
			ID: uint64(i + 1), PSN: packet.NewPSN(p.psn), PKey: p.key, Flow: trace.NewFlowID(1, p.what != "send"),
			Flags: trace.Sent | trace.Passed, ICRC: packet.ICRCValid, ECN: packet.ECT0,
		}
		now += 1000
		switch p.what {
		case "send":
			r.Opcode, r.PayloadLen = packet.SendOnly, 64
			r.Flags |= trace.AckReq
			if i > 0 && p.psn <= lastSend(packets[:i]) && packets[i-1].what != "nak" {
				now += 100e6 // it is a timeout
			}
		case "ack":
			done = p.psn + 1
			r.Opcode, r.Syndrome = packet.Acknowledge, packet.Syndrome(0x1f)
		case "nak":
			r.Opcode, r.Syndrome = packet.Acknowledge, packet.SyndromeNakSequence
			done = p.psn
		}
		if p.what != "send" {
			r.Flags |= trace.HasAETH
			r.MSN = uint32(done)
		}
		r.TimeNS = now
		records = append(records, r)
	}
	return records
}

func lastSend(packets []keyed) int64 {
	last := int64(-1)
	for _, p := range packets {
		if p.what == "send" {
			last = max(last, p.psn)
		}
	}
	return last
}
