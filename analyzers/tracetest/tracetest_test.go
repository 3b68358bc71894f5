package tracetest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers/tracetest"
)

func TestFormatIsTheInverseOfParse(t *testing.T) {
	const text = `0.000 1> first 1 # 1
1.500 2> read 5+3 drop # 2
2.000 1< ack 1 # 3
3.000 2< resp 5 ecn # 4
4.000 1< cnp # 5
5.000 1< only 1 ar # 6
6.000 1> nak 1 # 7
`
	records, err := tracetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, tracetest.Format(records, 0)); diff != "" {
		t.Errorf("formatted (-want +got):\n%s", diff)
	}
}

func TestParseNamesTheLine(t *testing.T) {
	for _, text := range []string{"0 >", "x > mid 1", "0 x> mid 1", "0 > datagram 1", "0 > mid 1+x", "0 > mid 1 lost"} {
		if _, err := tracetest.Parse("\n" + text); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestSimulationsRepeat(t *testing.T) {
	sc := tracetest.Scenario{
		Seed: 7, Connections: 3, Messages: 5, Packets: 8, Depth: 2, DelayMin: 500, DelayMax: 900, Loss: 0.1, Mark: 0.1,
		NotReady: 0.05, Timeout: 4096 << 14, CNPInterval: 4000,
	}
	first, truth := tracetest.Simulate(sc)
	second, repeated := tracetest.Simulate(sc)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("records differ:\n%s", diff)
	}
	if diff := cmp.Diff(truth, repeated); diff != "" {
		t.Errorf("truth differs:\n%s", diff)
	}
	if len(first) < 3*5*8 {
		t.Errorf("only %d records", len(first))
	}
}
