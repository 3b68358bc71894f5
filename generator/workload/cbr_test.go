package workload_test

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
)

// rates is a schedule: pairs of microseconds and Gb/s.
func rates(v parameter.Values, pairs ...int64) parameter.Values {
	table := v.Table()
	of := table[table.Find("rates")].Items
	var list []parameter.Values
	for i := 0; i < len(pairs); i += 2 {
		item := of.Defaults()
		item.SetStep("at-us", pairs[i]*int64(clock.Microsecond))
		item.SetStep("gbps", pairs[i+1]*int64(clock.Gbps))
		list = append(list, item)
	}
	v.SetList("rates", list)
	return v
}

func constant(t *testing.T, settings ...string) parameter.Values {
	v := valuesOf(t, "cbr", settings...)
	v.SetRanges("src", [][2]int64{{0, 3}})
	return v
}

// Each flow draws its own gaps, and the seed decides which.
func TestFlowsAtAConstantRate(t *testing.T) {
	k := workload.Find("cbr")
	v := rates(constant(t, "shift=6", "count=2", "jitter=0.5"), 0, 1, 5, 0, 9, 3)
	if n, problems := k.Check(v, 8); n != 8 || len(problems) > 0 {
		t.Fatal(n, problems)
	}
	flows, seeds := k.Flows(v, network(1)), map[[2]uint64]bool{}
	for i, f := range flows {
		if f.Src != i/2 || f.Dst != (f.Src+6)%8 || f.Pace.Jitter != 0.5 || len(*f.Pace.Steps) != 3 ||
			(*f.Pace.Steps)[2] != (workload.Step{At: 9 * clock.Microsecond, Rate: 3 * clock.Gbps}) {
			t.Errorf("flow %d: %+v %+v", i, f, f.Pace)
		}
		seeds[f.Pace.Seed] = true
	}
	if len(flows) != 8 || len(seeds) != 8 || seeds[k.Flows(v, network(2))[0].Pace.Seed] {
		t.Errorf("%d flows with %d seeds", len(flows), len(seeds))
	}
	if f := k.Flows(constant(t, "dst=5"), network(1)); f[0].Pace != nil || f[3].Dst != 5 {
		t.Errorf("an even rate needs no pace: %+v", f[0])
	}
}

// Wrong items are refused.
func TestWrongConstantRatesAreRefused(t *testing.T) {
	k := workload.Find("cbr")
	for _, v := range []parameter.Values{
		constant(t), constant(t, "dst=5", "shift=1"), constant(t, "dst=8"), constant(t, "dst=2"), constant(t, "shift=8"),
		constant(t, "dst=5", "on-us=3"), constant(t, "dst=5", "off-us=3"), rates(constant(t, "dst=5"), 5, 1, 5, 2),
		rates(constant(t, "dst=5"), 5, 0),
	} {
		if _, problems := k.Check(v, 8); len(problems) == 0 {
			t.Errorf("%v is accepted", v.Settings())
		}
	}
}
