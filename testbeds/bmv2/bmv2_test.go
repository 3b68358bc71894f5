package bmv2_test

import (
	"errors"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/bmv2"
)

func TestHostsAreSlowedDownByPacketsNotByBytes(t *testing.T) {
	for _, c := range []struct {
		name         string
		verb         generator.Verb
		message, mtu int
		packet       int // bytes on the wire
	}{
		{"full packets of the path MTU", generator.Write, 10240, 1024, 1024 + 82},
		{"messages shorter than the path MTU", generator.Send, 64, 1024, 64 + 82},
		{"messages of no byte", generator.Send, 0, 1024, 82},
		{"atomics", generator.CompareSwap, 8, 1024, 82},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := testbeds.Spec{Connections: []testbeds.Connection{{MTU: c.mtu, Traffic: [2]generator.Traffic{
				{Verbs: []generator.Verb{c.verb}, Messages: 1, MessageSize: c.message, MTU: c.mtu}}}}}
			for i := range spec.Hosts {
				spec.Hosts[i].Rate = clock.Gbps
			}
			want := clock.BitRate(c.packet * 8 * bmv2.PacketsPerSecond)
			for i, h := range bmv2.Paced(spec).Hosts {
				if h.Rate != want {
					t.Errorf("host %d sends at %v, want %v", i, h.Rate, want)
				}
			}
		})
	}
}

func TestWithoutTheProgramNothingStarts(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := bmv2.Find(); !errors.Is(err, bmv2.ErrAbsent) {
		t.Errorf("error %v, want %v", err, bmv2.ErrAbsent)
	}
}
