package agent

import (
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/grpc/status"
)

// namedError is a failed call: component and step, then the server's words.
type namedError struct {
	component, step string
	status          *status.Status
}

func (e *namedError) Error() string {
	return e.component + ": " + e.step + ": " + Printable(e.status.Message())
}

// Printable replaces characters that a terminal could take for a command, except line ends and tabs: the words of
// another machine are printed.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// GRPCStatus keeps the code visible to package status.
func (e *namedError) GRPCStatus() *status.Status { return e.status }

// Named prefixes an error with a component and a step; nil stays nil. For a gRPC error it keeps the message and the
// code.
func Named(component, step string, err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		return &namedError{component, step, s}
	}
	return fmt.Errorf("%s: %s: %w", component, step, err)
}
