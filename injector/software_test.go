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
	{"delay", injector.Action{Type: trace.EventDelay, DelayNS: 1500}, "delay(ns 1500)"},
	{"duplicate", injector.Action{Type: trace.EventDuplicate, Copies: 2}, "duplicate(n 2)"},
	{"reorder", injector.Action{Type: trace.EventReorder, By: 3}, "reorder(by 3)"},
	{"rewrite", injector.Action{Type: trace.EventRewrite, Field: packet.RewriteDSCP, Value: 46}, "rewrite(field 1, value 46)"},
	{"corrupt_payload", injector.Action{Type: trace.EventCorrupt, Offset: 7, Xor: 1}, "corrupt_payload(offset 7, xor 1)"},
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
		intents := []injector.Intent{{Index: 3, Where: "f.yml:4:7: traffic.data-pkt-events[3]", RelPSN: 5, Nth: 1, Action: tt.action}}
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
	intents := []injector.Intent{{RelPSN: 5, Nth: 1, Action: injector.Action{Type: trace.EventRewrite, Field: packet.RewritePSN, Value: 2}}}
	p, err := injector.Translate(conns, intents, injector.Options{Epoch: 1, Info: p4.Software()})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.String(), "rewrite(field 7, value 0)") {
		t.Errorf("psn 2 from 0xffffff on is 0:\n%s", p)
	}
}

func TestSoftwareActionsThatDoNothingAreRefused(t *testing.T) {
	for name, a := range map[string]injector.Action{
		"delay: 0 ns": {Type: trace.EventDelay}, "duplicate: 0 copies": {Type: trace.EventDuplicate},
		"reorder: by 0":         {Type: trace.EventReorder},
		"rewrite: field none":   {Type: trace.EventRewrite},
		"dscp has 6 bits":       {Type: trace.EventRewrite, Field: packet.RewriteDSCP, Value: 64},
		"is not in 1…281474976": {Type: trace.EventDelay, DelayNS: 1 << 48},
	} {
		_, err := injector.Translate(oneConnection(), []injector.Intent{{RelPSN: 5, Nth: 1, Action: a}}, injector.Options{Epoch: 1, Info: p4.Software()})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
