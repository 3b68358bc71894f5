package fair_test

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

// Times that are not set, by the rule of section 4.4: 40 packets of 1500 bytes are 0.48 ms at 1 Gb/s, 48 us at 10 Gb/s.
func TestTimesFollowTheRateOfThePort(t *testing.T) {
	const us = clock.Microsecond
	for _, c := range []struct {
		set  fair.Settings
		rate clock.BitRate
		want fair.Constants
	}{
		{fair.Settings{}, clock.Gbps, fair.Constants{K: 480 * us, KAlpha: 480 * us, KC: 960 * us, Window: 480 * us}},
		{fair.Settings{}, 40 * clock.Gbps, fair.Constants{K: 100 * us, KAlpha: 100 * us, KC: 200 * us, Window: 100 * us}},
		{fair.Settings{KAlpha: 50 * us}, 40 * clock.Gbps,
			fair.Constants{K: 50 * us, KAlpha: 50 * us, KC: 100 * us, Window: 100 * us}},
		{fair.Settings{Mode: fair.Dataplane}, 10 * clock.Gbps,
			fair.Constants{K: 100 * us, KAlpha: 100 * us, KC: 100 * us, Window: 100 * us}},
		{fair.Settings{Mode: fair.Dataplane, Window: 30 * us, KC: 70 * us, K: 20 * us}, 10 * clock.Gbps,
			fair.Constants{K: 20 * us, KAlpha: 100 * us, KC: 70 * us, Window: 30 * us}},
	} {
		if got := c.set.At(c.rate); got != c.want {
			t.Errorf("%+v at %v: %+v, want %+v", c.set, c.rate, got, c.want)
		}
	}
}

// A label keeps its node and rate; a rate beyond the greatest is that.
func TestLabelsKeepNodeAndRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, rate := rapid.IntRange(0, 1<<16-1).Draw(t, "node"), rapid.Uint64().Draw(t, "rate")
		gotNode, gotRate := fair.OfLabel(fair.Label(node, rate))
		if gotNode != node || gotRate != min(rate, fair.MaxLabel) {
			t.Fatalf("node %d with %d", gotNode, gotRate)
		}
	})
}
