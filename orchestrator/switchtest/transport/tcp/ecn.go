package tcp

import (
	judge "candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/packet"
)

// controls are the words of congestion-control.
var controls = map[string]tcp.Control{"cubic": tcp.Cubic, "reno": tcp.Reno, "dctcp": tcp.DCTCP,
	"swift": tcp.SwiftControl}

// ecnOf returns the hosts' ECN.
func ecnOf(v parameter.Values) tcp.ECN {
	e := tcp.ECN{Everything: v.Bool("ecn-everything"), Gain: v.Number("dctcp-gain"), Alpha: v.Number("dctcp-alpha")}
	switch {
	case v.Has("ecn") && v.Word("ecn") == "ect1":
		e.Codepoint = packet.ECT1
	case v.Has("ecn") && v.Word("ecn") == "ect0", !v.Has("ecn") && v.Word("congestion-control") == "dctcp":
		e.Codepoint = packet.ECT0
	}
	return e
}

// judgedECN says what the analyzer has to know of the hosts' ECN. Packets leave when they are decided if nothing is
// between host and link.
func judgedECN(t *transport.Trial) judge.ECN {
	e := ecnOf(t.Values)
	written := make(map[uint32]int64)
	steered := e.Codepoint != packet.NotECT || t.Values.Word("congestion-control") == "swift"
	for f := range t.Flows {
		if f.Transport == t.Name && f.Kind == workload.Transfer && steered {
			written[uint32(f.Number)] = f.Payload
		}
	}
	return judge.ECN{
		On: e.Codepoint != packet.NotECT, DCTCP: t.Values.Word("congestion-control") == "dctcp", Gain: e.Gain,
		Alpha: e.Alpha, Everything: e.Everything,
		Immediate: immediate(t),
		Written:   func(_, _, connection uint32) int64 { return written[connection] },
	}
}

// immediate reports whether packets leave when they are decided: nothing is between host and link.
func immediate(t *transport.Trial) bool {
	return t.Slack == 0 && t.Test.Hosts.NIC == nil && t.Values.Duration("send-jitter-us") == 0
}
