package agent_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent"
)

func TestTheWordsOfAnotherMachineCommandNoTerminal(t *testing.T) {
	err := agent.Named("dumper-1", "finish",
		status.Error(codes.Internal, "disk \x1b[2J\x1b]0;title\x07full\nof \u009bfiles\u202e"))
	if got, want := err.Error(),
		"dumper-1: finish: disk \ufffd[2J\ufffd]0;title\ufffdfull\nof \ufffdfiles\ufffd"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
