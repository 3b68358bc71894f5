package exploration

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
)

const base = `name: base
traffic:
  num-connections: 2
  bidirectional: true
  message-size: 10240
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}, {qpn: 2, psn: 1..3, from: responder, iter: 2, type: corrupt}]
  control-pkt-events: [{qpn: 1, packet: nak, type: drop}]
`

// TestEveryMutantIsATestThatPeopleCouldWrite checks mutants as the configuration does: what the corpus keeps must be
// readable, and a failure must come from a valid test.
func TestEveryMutantIsATestThatPeopleCouldWrite(t *testing.T) {
	first, err := config.Parse("base.yml", []byte(base), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		test := first
		for range 40 {
			test = mutate(r, test)
			checked, err := orchestrator.ParseRecorded("mutant", func(name string) ([]byte, error) {
				if name == "testbed.yml" {
					return test.Testbed.YAML(), nil
				}
				return test.YAML(), nil
			}, config.Options{})
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, test.YAML())
			}
			if checked.Hash() != test.Hash() {
				t.Fatalf("seed %d: reads differently\n%s\n%s", seed, test.YAML(), checked.YAML())
			}
			if _, err := plan.New(test); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, test.YAML())
			}
		}
	}
	second, err := config.Parse("base.yml", []byte(base), config.Options{})
	if err != nil || second.Hash() != first.Hash() {
		t.Errorf("mutation changed its parent (%v)", err)
	}
}
