package switchtest_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/switchtest"
)

// Settings with which a switch cannot do its task are refused, at the line and column of the key, with what to do.
func TestSettingsThatDefeatAModelAreRefused(t *testing.T) {
	const incast = "\nworkload:\n- incast: {senders: 3, packets: 10}\n"
	const star = "topology: {kind: single-switch, hosts: 4}\n"
	at := func(line, column, key string) string { return "f.yml:" + line + ":" + column + ": " + key }
	for _, c := range []struct {
		name, text string
		want       []string // parts of the error; none: the test is allowed
	}{
		{"cp whose queue is its watermark",
			star + "switch-under-test: {model: cp, watermark-bytes: 15000, data-queue-bytes: 15000}" + incast,
			[]string{at("3", "49", "switch-under-test.watermark-bytes: 15000 leaves no room"), "lost instead of trimmed",
				"which is 15064"}},
		{"cp whose queue is shorter, by default", star + "switch-under-test: {model: cp, data-queue-bytes: 9000}" + incast,
			[]string{at("3", "20", "switch-under-test.watermark-bytes"), "queue of 9000 bytes"}},
		{"cp with room for one header",
			star + "switch-under-test: {model: cp, watermark-bytes: 15000, data-queue-bytes: 15064}" + incast, nil},
		{"cp on NICs", star + "switch-under-test: {model: droptail}\n" +
			"hosts: {transport: raw, nic: {model: cp, data-queue-bytes: 9000}}" + incast,
			[]string{"f.yml:4:", "hosts.nic.watermark-bytes"}},
		{"a SAI limit below a packet", star + "switch-under-test:\n  model: sai\n  profiles:\n  - {queues: [0], " +
			"action: trim, limit-bytes: 1000}\nhosts: {transport: ndp}" + incast,
			[]string{at("6", "46", "switch-under-test.profiles[0].limit-bytes: is 1000, less than a packet of workload[0] "+
				"(incast), of 1500 bytes"), "retransmits it for ever", "at least one packet of 1500 bytes"}},
		{"a SAI share below a packet", star + "switch-under-test:\n  model: sai\n  buffer-bytes: 100000\n  profiles:\n" +
			"  - {alpha: 0.01, action: trim}\nhosts: {transport: tcp}" + incast,
			[]string{at("7", "13", "switch-under-test.profiles[0].alpha"), "is 0.01, which of 100000 bytes is 1000"}},
		{"a SAI limit below a packet beside a reservation", star + "switch-under-test: {model: sai, profiles: " +
			"[{limit-bytes: 1000, reserved-bytes: 1500}]}\nhosts: {transport: ndp}" + incast, nil},
		{"a SAI limit below a packet in a queue without flows", star + "switch-under-test: {model: sai, profiles: " +
			"[{limit-bytes: 1000, queues: [6]}]}\nhosts: {transport: ndp}" + incast, nil},
		{"a SAI limit below a packet of a flow that is not retransmitted", star + "switch-under-test: {model: sai, " +
			"profiles: [{limit-bytes: 1000, action: trim}]}\nhosts: {transport: raw}" + incast, nil},
		{"PFC headroom beyond the buffer", star + "switch-under-test: {model: sai, buffer-bytes: 100000, " +
			"pfc-classes: [3],\n" +
			"  pfc-headroom-bytes: 30000}" + incast,
			[]string{at("4", "23", "switch-under-test.pfc-headroom-bytes: 30000: 4 ports with 1 lossless classes need 120000"),
				"the shared buffer has 100000"}},
		{"PFC threshold and headroom beyond the buffer", star + "switch-under-test: {model: sai, buffer-bytes: 100000,\n" +
			"  pfc-classes: [3], pfc-xoff-bytes: 90000, pfc-headroom-bytes: 20000}" + incast,
			[]string{at("4", "37", "switch-under-test.pfc-xoff-bytes: 90000"), "110000 bytes"}},
		{"a weight that is too small to share by", star + "switch-under-test: {model: stfq-aifo}\nhosts: {transport: raw}\n" +
			"workload:\n- incast: {senders: 3, packets: 10}\n- flow: {src: 1, dst: 0, packets: 10, weight: 0.009}\n",
			[]string{at("7", "47", "workload[1].flow.weight: is 0.009"), "weights of at least 0.01"}},
		{"a rank that does not count bytes", star + "switch-under-test: {model: pd}\n" +
			"workload:\n- incast: {senders: 3, packets: 10, rank: remaining}\n- flow: {src: 1, dst: 0, packets: 10, rank: 7}\n",
			[]string{at("6", "45", "workload[1].flow.rank: is 7"), "the rank remaining alone is allowed"}},
		{"timestamps beside Swift", star + "switch-under-test: {model: ecmp}\n" +
			"hosts: {transport: tcp, congestion-control: swift, loss-detection: new-reno, timestamps: true}" + incast,
			[]string{at("4", "90", "hosts.timestamps: are given with congestion-control: swift"), "set loss-detection"}},
		{"timestamps in place of SACK", star + "switch-under-test: {model: ecmp}\nhosts: {transport: tcp, timestamps: true}" +
			incast, []string{at("4", "37", "hosts.timestamps: are given with loss-detection: sack")}},
		{"a deadline where bytes count", star + "switch-under-test: {model: vertigo}\n" +
			"workload:\n- flow: {src: 1, dst: 0, packets: 10, rank: deadline, deadline-us: 900}\n",
			[]string{"workload[0].flow.rank: is deadline"}},
		{"a flow that could not have an idle link", star + "switch-under-test: {model: csfq}\nhosts: {transport: raw}\n" +
			"workload:\n- flow: {src: 1, dst: 0, packets: 10, weight: 0.5}\n",
			[]string{at("6", "47", "workload[0].flow.weight: is 0.5"), "weights of at least 1: multiply all"}},
		{"the same weight, which only fairness is measured by", star + "switch-under-test: {model: pifo}\n" +
			"hosts: {transport: pfabric}\nworkload:\n- flow: {src: 1, dst: 0, packets: 10, weight: 0.009}\n", nil},
		{"PFC headroom within the buffer", star + "switch-under-test: {model: sai, buffer-bytes: 200000, " +
			"pfc-classes: [3],\n" +
			"  pfc-headroom-bytes: 30000}" + incast, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := switchtest.New(parse(t, c.text)[0])
			if len(c.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error is %v, want %q in it", err, part)
				}
			}
		})
	}
}
