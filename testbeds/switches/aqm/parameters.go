package aqm

import (
	"candela.dev/candela/generator/parameter"
)

// Upper limits of parameters: within the simulator's arithmetic, and beyond any real switch.
const (
	maxBytes   = 1 << 30
	maxTime    = 1_000_000 // us
	mostQueues = 8
)

// Parameters of buffers.
const (
	shallowBytes = "3000000"
	deepBytes    = "52000000"
)

func buffers(portBytes string) parameter.Table {
	return parameter.Table{
		{Name: "port-buffer-bytes", Kind: parameter.Integer, Unit: "bytes", Default: portBytes, Min: 64, Max: maxBytes,
			Doc: "Room of a port for the packets that wait in all its queues."},
		{Name: "data-queue-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 64, Max: maxBytes,
			Doc: "Room of each queue of data; by default that of the port. Mice have that of the port."},
		{Name: "counter-bits", Kind: parameter.Integer, Unit: "bits", Default: "64", Min: 8, Max: 64,
			Doc: "Counters begin with 0 again after 2 to the power of it, as those of 32 bits do after 4 GB."},
	}
}

// traps are the parameters of the elephant trap.
func traps() parameter.Table {
	return parameter.Table{
		{Name: "etrap-profile", Kind: parameter.Word, Words: []string{"source", "mesh", "burst", "ultra-burst"},
			Default: "source",
			Doc: "Age period of ETRAP and period of AFD: 500 and 25 us as in NX-OS 7.0(3)I5(1); 20 and 10, 50 and 25, or 100 " +
				"and 50 us as in later releases."},
		{Name: "etrap-byte-count", Kind: parameter.Integer, Unit: "bytes", Default: "1048555", Min: 1, Max: 1 << 40,
			Doc: "A flow that has sent more is an elephant."},
		{Name: "etrap-age-period-us", Kind: parameter.Duration, Unit: "us", Optional: true, Min: 1, Max: maxTime,
			Doc: "Window in which activity and rate of a flow are measured; by default that of the profile."},
		{Name: "etrap-bandwidth-threshold-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "500", Max: maxBytes,
			Doc: "A flow that sends fewer in a window starts again as a mouse."},
		{Name: "etrap-limits", Kind: parameter.Word, Words: []string{"strict", "inclusive"}, Default: "strict",
			Doc: "strict: \"more than\" and \"fewer than\" as the source words it; inclusive: the limits count, too."},
		{Name: "etrap-weight", Kind: parameter.Number, Default: "0.5", Max: 1,
			Doc: "Weight of the latest window in a flow's rate; 1: that window alone."},
		{Name: "etrap-evict-hold-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: maxTime,
			Doc: "How long all windows of a flow must be below the threshold before it starts again."},
		{Name: "etrap-mouse-ageing", Kind: parameter.Word, Words: []string{"same", "never"}, Default: "same",
			Doc: "Whether the byte counts of mice age by the same rule; the source describes elephants only."},
		{Name: "etrap-scope", Kind: parameter.Word, Words: []string{"port", "switch"}, Default: "port",
			Doc: "One table for each ingress port, or one for the switch."},
		{Name: "etrap-table-size", Kind: parameter.Integer, Unit: "flows", Default: "0", Max: 1 << 24,
			Doc: "Flows in a table: further ones are mice; 0: no limit."},
		{Name: "etrap-hash-bits", Kind: parameter.Integer, Unit: "bits", Default: "0", Max: 32,
			Doc: "Flows whose keys have the same so many bits of FNV-1a share an entry; 0: none do."},
	}
}

// fairness are the parameters of AFD.
func fairness() parameter.Table {
	return parameter.Table{
		{Name: "queue-desired-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 1, Max: maxBytes,
			Doc: "Desired depth of the queue; by default 120 us at the port's rate, which is 150, 600 and 1500 KB at 10, 40 " +
				"and 100 Gb/s."},
		{Name: "afd-period-us", Kind: parameter.Duration, Unit: "us", Optional: true, Min: 1, Max: maxTime,
			Doc: "The fair rate changes at multiples of it; by default that of etrap-profile."},
		{Name: "kp", Kind: parameter.Number, Default: "0.02", Max: 1000,
			Doc: "Gain of the change of the queue in a period, in bytes per byte."},
		{Name: "ki", Kind: parameter.Number, Default: "0.0005", Max: 1000,
			Doc: "Gain of its distance from the desired depth. Pan et al. (2003) have α = kp and β = kp + ki."},
		{Name: "fmin-mbps", Kind: parameter.Rate, Unit: "Mbps", Default: "10", Min: 1, Max: 1_000_000,
			Doc: "Least fair rate; the greatest is that of the port."},
		{Name: "d-max", Kind: parameter.Number, Default: "1", Max: 1, Doc: "Greatest probability of a drop."},
		{Name: "drop-function", Kind: parameter.Word, Words: []string{"share", "excess"}, Default: "share",
			Doc: "Probability for a rate r and the fair rate F: 1 − F/r, or (r − F)/F."},
		ecn("Elephants"),
		{Name: "gate", Kind: parameter.Boolean, Default: "false",
			Doc: "Nothing is dropped while the queue holds less than half its desired depth."},
	}
}

func ecn(who string) parameter.Parameter {
	return parameter.Parameter{Name: "ecn", Kind: parameter.Boolean, Default: "false",
		Doc: who + " that are ECN-capable are marked with the same probability instead of dropped."}
}

// priorities are the parameters of DPP.
func priorities() parameter.Table {
	return parameter.Table{
		{Name: "dpp-max-packets", Kind: parameter.Integer, Unit: "packets", Default: "120", Min: 1, Max: 1 << 30,
			Doc: "The first so many packets of a flow go to the queue of mice, which has the number behind the queues of data " +
				"and is always served first."},
		{Name: "dpp-age-period-us", Kind: parameter.Duration, Unit: "us", Default: "5000", Max: 100 * maxTime,
			Doc: "A flow that was idle for longer starts again."},
		{Name: "dpp-first", Kind: parameter.Word, Words: []string{"inclusive", "exclusive"}, Default: "inclusive",
			Doc: "Whether the last of them is still a mouse; \"less than\" in one sentence of the source says that it is not."},
		{Name: "dpp-counts", Kind: parameter.Word, Words: []string{"all", "data"}, Default: "all",
			Doc: "all: every packet counts; data: those below 128 bytes, such as ACKs, do not."},
		{Name: "dpp-class", Kind: parameter.Integer, Optional: true, Max: mostQueues - 1,
			Doc: "Only packets of this class are prioritised; by default those of every class."},
		{Name: "dpp-scope", Kind: parameter.Word, Words: []string{"port", "switch"}, Default: "port",
			Doc: "One table for each ingress port, or one for the switch."},
		{Name: "dpp-hash-bits", Kind: parameter.Integer, Unit: "bits", Default: "0", Max: 32,
			Doc: "As etrap-hash-bits."},
		{Name: "scheduler", Kind: parameter.Word, Words: []string{"dwrr", "wrr", "strict"}, Default: "dwrr",
			Doc: "How the queues of data share what mice leave."},
	}
}

// early are the parameters of RED and WRED.
func early() parameter.Table {
	return parameter.Table{
		{Name: "min-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 1, Max: maxBytes,
			Doc: "Mean queue above which packets are dropped; by default 150 KB for each 10 Gb/s."},
		{Name: "max-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 1, Max: maxBytes,
			Doc: "Mean queue above which all are; by default 450 KB for each 10 Gb/s."},
		{Name: "max-probability", Kind: parameter.Number, Default: "0.1", Max: 1, Doc: "Probability just below max-bytes."},
		{Name: "queue-weight", Kind: parameter.Number, Default: "0.002", Max: 1,
			Doc: "Weight of the queue at each arrival in its mean."},
		ecn("Packets"),
	}
}

func thresholds() parameter.Table {
	return parameter.Table{
		{Name: "threshold-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 1, Max: maxBytes,
			Doc: "ECN-capable packets that find so much in their queue are marked; by default 65 packets of 1500 bytes for " +
				"each 10 Gb/s."},
	}
}

// policies are the parameters of attachment: what a port or queue has instead of what the system has. Of the settings
// of a policy, a model has those that it has for the system.
func policies(system parameter.Table) parameter.Table {
	items := parameter.Table{
		{Name: "port", Kind: parameter.Integer, Optional: true, Max: 1 << 16,
			Doc: "The interface that it is attached to; by default all, as part of the system's."},
		{Name: "queue", Kind: parameter.Integer, Optional: true, Max: mostQueues - 1,
			Doc: "The queue of data that it is about; by default all."},
		{Name: "off", Kind: parameter.Boolean, Optional: true, Doc: "Nothing is dropped early or marked."},
		{Name: "port-buffer-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 64, Max: maxBytes,
			Doc: "Room of the port; of a policy without queue."},
	}
	for _, p := range system {
		switch p.Name {
		case "queue-desired-bytes", "kp", "ki", "d-max", "ecn", "gate", "min-bytes", "max-bytes", "max-probability",
			"threshold-bytes":
			p.Optional, p.Default = true, ""
			items = append(items, p)
		}
	}
	return parameter.Table{
		{Name: "attach", Kind: parameter.Word, Words: []string{"system", "interfaces"}, Default: "system",
			Doc: "system: every port has the policy of the switch, and policies override it; interfaces: only ports that " +
				"policies name drop early or mark."},
		{Name: "policies", Kind: parameter.List, Items: items,
			Doc: "Policies of interfaces and queues. That of an interface goes before that of the system, and of two of a " +
				"kind the later one."},
	}
}
