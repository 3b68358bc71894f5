package ndp_test

import (
	"testing"

	"candela.dev/candela/clock"
)

func TestStormsOfHeadersBlameNobody(t *testing.T) {
	tests := []struct {
		name string
		s    scenario
	}{
		{"sixty-four first windows of a thousand",
			scenario{hosts: 65, queue: 8, headers: 375, weight: 10, window: 1000, flows: incast(64, 1000)}},
		{"the same, watched at the NICs",
			scenario{hosts: 65, queue: 8, headers: 375, weight: 10, window: 1000, flows: incast(64, 1000), nics: true}},
		{"headers nearly always first",
			scenario{hosts: 65, queue: 8, headers: 375, weight: 100_000, window: 1000, flows: incast(64, 1000), nics: true}},
		{"headers and packets in turn",
			scenario{hosts: 33, queue: 20, headers: 100, weight: 1, window: 400, flows: incast(32, 600)}},
		{"a large header queue", scenario{hosts: 41, queue: 8, headers: 20_000, weight: 10, window: 300,
			flows: incast(40, 300)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.s.bounce, test.s.delay, test.s.rto, test.s.seed = true, clock.Microsecond, 20*clock.Millisecond, 1
			if r := test.s.run(t); len(r.Findings) > 0 {
				t.Error(show(r))
			}
		})
	}
}
