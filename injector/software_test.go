package injector_test

import (
	"errors"
	"strings"
	"testing"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

var softwareEvents = []struct {
	name   string
	action injector.Action
	entry  string
}{
	{"delay", injector.NewAction(trace.EventDelay, 1500), "delay(ns 1500)"},
	{"duplicate", injector.NewAction(trace.EventDuplicate, 2), "duplicate(n 2)"},
	{"reorder", injector.NewAction(trace.EventReorder, 3), "reorder(by 3)"},
	{"rewrite", injector.NewAction(trace.EventRewrite, uint64(packet.RewriteDSCP), 46), "rewrite(field 1, value 46)"},
	{"corrupt_payload", injector.NewAction(trace.EventCorrupt, 7, 1), "corrupt_payload(offset 7, xor 1)"},
}

func TestSoftwareActionsBecomeEntriesWhereTheTargetHasThem(t *testing.T) {
	for _, tt := range softwareEvents {
		intents := []injector.Intent{{RelPSN: 5, Nth: 1, Action: tt.action}}
		p, err := injector.Translate(oneConnection(), intents, injector.Options{Target: "box", Epoch: 1, Info: p4.Software()})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.String(), "-> "+tt.entry+"  # event 0") {
			t.Errorf("%s: no entry %s in\n%s", tt.name, tt.entry, p)
		}
	}
}

func TestTargetsWithoutSoftwareActionsRefuseThemByName(t *testing.T) {
	for _, tt := range softwareEvents {
		intents := []injector.Intent{{Index: 3, Where: "f.yml:4:7: traffic.data-pkt-events[3]", RelPSN: 5, Nth: 1,
			Action: tt.action}}
		_, err := injector.Translate(oneConnection(), intents, injector.Options{Target: "tofino-a", Epoch: 1})
		want := `f.yml:4:7: traffic.data-pkt-events[3]: program event table: entry 3 (qpn 1 psn 5 iter 1): target "tofino-a" offers no "` + tt.name +
			`" (it has: drop, mark_ecn, corrupt, trim)`
		if err == nil || err.Error() != want || !errors.Is(err, injector.ErrUnsupported) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestAPSNIsRewrittenToThatOfAPacketOfTheConnection(t *testing.T) {
	conns := oneConnection()
	conns[0].Requester.IPSN = 1<<24 - 1
	intents := []injector.Intent{{RelPSN: 5, Nth: 1,
		Action: injector.NewAction(trace.EventRewrite, uint64(packet.RewritePSN), 2)}}
	p, err := injector.Translate(conns, intents, injector.Options{Epoch: 1, Info: p4.Software()})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.String(), "rewrite(field 7, value 0)") {
		t.Errorf("psn 2 from 0xffffff on is 0:\n%s", p)
	}
}

func TestSoftwareActionsThatDoNothingAreRefused(t *testing.T) {
	for text, a := range map[string]injector.Action{
		"delay: ns 0 is not in 1…":            injector.NewAction(trace.EventDelay, 0),
		"ns 10000000001 is not in 1…":         injector.NewAction(trace.EventDelay, 10_000_000_001),
		"duplicate: n 0 is not in 1…255":      injector.NewAction(trace.EventDuplicate, 0),
		"reorder: by 0 is not in 1…65535":     injector.NewAction(trace.EventReorder, 0),
		"reorder: 0 parameters, it takes 1":   injector.NewAction(trace.EventReorder),
		"rewrite: field none has 0 bits":      injector.NewAction(trace.EventRewrite, 0, 0),
		"field dscp has 6 bits":               injector.NewAction(trace.EventRewrite, uint64(packet.RewriteDSCP), 64),
		"field psn has 24 bits":               injector.NewAction(trace.EventRewrite, uint64(packet.RewritePSN), 1<<24+1),
		"corrupt_payload: xor 0 is not in 1…": injector.NewAction(trace.EventCorrupt, 1, 0),
		"trim: dscp 64 is not in 0…63":        injector.NewAction(trace.EventTrim, 64, 64, 0),
	} {
		_, err := injector.Translate(oneConnection(), []injector.Intent{{RelPSN: 5, Nth: 1, Action: a}},
			injector.Options{Epoch: 1, Info: p4.Software()})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
