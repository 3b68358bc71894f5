package tcp

import (
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/packet"
)

// controls are the words of congestion-control.
var controls = map[string]tcp.Control{"cubic": tcp.Cubic, "reno": tcp.Reno, "dctcp": tcp.DCTCP}

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
