package switchtest_test

import (
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

func TestAWaiverExcusesTheDeviceThatItNamesAndNoOther(t *testing.T) {
	const (
		network = "topology: {kind: single-switch, hosts: 5}\n"
		hosts   = network + "switch-under-test: {model: ndp-ideal, data-queue-bytes: 12000}\n" +
			"hosts: {transport: ndp, initial-window: 60, bugs: [acks-trimmed]}\nworkload: [incast: {senders: 4, packets: " +
			"200}]\ndeadline-us: 5000\n"
		sw = network + "switch-under-test: {model: sai, trim-size: 256, profiles: [{queues: [0], action: trim, " +
			"limit-bytes: 20000}], trim-queue: 6, trim-dscp: 48, bugs: [wrong-size]}\n" +
			"hosts: {transport: raw}\nworkload: [incast: {senders: 4, packets: 200}]\n"
	)
	for _, c := range []struct{ name, text, rule, device string }{
		{"hosts", hosts, "ndp.ack-trimmed", "ndp"},
		{"a switch", sw, "sai.trim-size", "sai"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, model := range []string{"ndp", "raw", "ndp-ideal", "sai", "tcp"} {
				test := parse(t, c.text)[0]
				p, err := switchtest.New(test)
				if err != nil {
					t.Fatal(err)
				}
				o := options(t.TempDir())
				list := []config.Waiver{{Rule: c.rule, Model: model, Owner: "x", Reference: "y", Expires: "2999-01-01"}}
				o.Waivers = orchestrator.NewWaivers(list, time.Unix(0, 0))
				out, err := switchtest.Run(t.Context(), p, o)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := out.Report.Waived > 0, model == c.device; got != want {
					t.Errorf("a waiver for %s: excused %v, want %v: %v", model, got, want, out.Verdict.Reasons)
				}
			}
		})
	}
}
