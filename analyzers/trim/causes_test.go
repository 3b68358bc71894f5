package trim_test

import (
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/trim"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(trim.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, trim.Rules(), trim.Causes())
}

func TestATrimmedResponseBringsAnotherReadRequest(t *testing.T) {
	trimmed := []seen{data(packet.ReadRequest, 0), cut(packet.ReadResponseOnly, 0)}
	for _, c := range []struct {
		name  string
		after int64
		rules []string
	}{
		{"at once", 0, nil},
		{"by the timer only", 1_000_000, []string{"trim.nack-missing"}},
	} {
		result, _ := analyse(t, trace.TrimAnswered, trim.Config{}, slices.Concat(trimmed, []seen{
			after(c.after, data(packet.ReadRequest, 0)), data(packet.ReadResponseOnly, 0)}))
		var fired []string
		for _, f := range result.Findings {
			fired = append(fired, f.Rule)
		}
		if !slices.Equal(fired, c.rules) {
			t.Errorf("%s: fired %v, want %v", c.name, fired, c.rules)
		}
	}
}

// A pair of captures shows what a switch did to a trimmed packet.
func TestAPairShowsThatASwitchChangedATrimmedHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*trace.Record)
		rules  []string
	}{
		{"only the payload is cut", func(*trace.Record) {}, []string{"trim.headers"}},
		{"UDP source port and opcode change, too",
			func(r *trace.Record) { r.Flags, r.Opcode = r.Flags|trace.PortChanged, packet.WriteLast },
			[]string{"trim.header-changed", "trim.headers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := []trace.Record{
				{ID: 1, TimeNS: 1000, PSN: 0, Opcode: packet.WriteFirst, Flags: trace.Sent | trace.Passed},
				{ID: 2, TimeNS: 2000, PSN: 1, Opcode: packet.WriteMiddle, Flags: trace.Sent, Event: trace.EventTrim},
				{ID: 2, TimeNS: 3000, PSN: 1, Opcode: packet.WriteMiddle, Flags: trace.Passed, Event: trace.EventTrim},
			}
			c.change(&list[2])
			a := trim.New(trace.Meta{Connections: connections(t), StartNS: 1000, EndNS: 3000}, trim.Config{})
			for i := range list {
				a.Packet(&list[i])
			}
			result := a.Finish()
			book.Add(t, result.Findings)
			var fired []string
			for _, f := range result.Findings {
				fired = append(fired, f.Rule)
			}
			if !slices.Equal(fired, c.rules) {
				t.Errorf("fired %v, want %v: %+v", fired, c.rules, result.Findings)
			}
		})
	}
}
