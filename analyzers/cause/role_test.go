package cause

import (
	"testing"

	"candela.dev/candela/trace"
)

func TestARoleNamesNoConnectionNorNumber(t *testing.T) {
	for _, tt := range []struct {
		who  Argument
		want string
	}{
		{Requester(trace.NewFlowID(7, false)), "requester"},
		{Responder(trace.NewFlowID(2, false)), "responder"},
		{Requester(trace.NewFlowID(3, true)), "requester on the responder's host"},
		{Host(trace.NewFlowID(3, true)), "responder's host"},
		{Host(trace.NoFlow), "host"},
		{Switch("leaf-12"), "switch leaf"}, {Switch(""), "switch"}, {Switch("s1"), "switch s"},
		{End{"Sender", 4, 9}, "sender"},
		{PSN(4), ""},
	} {
		if got := Of("a.b", "c", "%v %v", PSN(1), tt.who).Role(); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.who, got, tt.want)
		}
	}
}
