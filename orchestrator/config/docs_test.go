package config

import (
	"strings"
	"testing"
)

// docs/reference/config.md must match what decoding accepts.
func TestTheReferenceInTheDocumentsMatchesTheDeclaration(t *testing.T) {
	golden(t, "../../docs/reference/config.md", string(Reference()))
}

func TestTheExamplesOfTheReferenceAreSound(t *testing.T) {
	blocks := strings.Split(patternsText, "\n\n    ")
	events, sweep := blocks[1], blocks[2]
	events, _, _ = strings.Cut(events, "\n\n")
	text := "name: x\ntraffic:\n    num-connections: 2\n    num-msgs-per-qp: 50\n    message-size: 10240\n    " + events +
		"\nexpect: {cnp: {per-connection: [1, 1]}}\n" + strings.ReplaceAll(sweep, "\n    ", "\n")
	tests, err := ParseAll("f.yml", []byte(text), laboratory)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(tests) != 2*4*3*2*2 {
		t.Errorf("%d points", len(tests))
	}
}
