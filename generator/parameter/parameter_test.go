package parameter_test

import (
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"github.com/google/go-cmp/cmp"
)

func sample() parameter.Table {
	return parameter.Table{
		{Name: "data-queue-packets", Kind: parameter.Integer, Unit: "packets", Default: "10", Min: 1, Max: 100000,
			Doc: "Room."},
		{Name: "alpha", Kind: parameter.Number, Default: "0.5", Max: 8, Doc: "Dynamic threshold."},
		{Name: "t0-us", Kind: parameter.Duration, Unit: "us", Default: "6", Max: 1000, Doc: "Pessimistic."},
		{Name: "recirculation-gbps", Kind: parameter.Rate, Unit: "Gbps", Default: "100", Min: 1, Max: 800, Doc: "Rate."},
		{Name: "notify", Kind: parameter.Word, Words: []string{"all", "one"}, Default: "all", Doc: "Whom."},
		{Name: "trim-all", Kind: parameter.Boolean, Default: "false", Doc: "Trim everything."},
		{Name: "weights", Kind: parameter.Integers, Min: 1, Max: 100, Doc: "DWRR weights."},
		{Name: "acl", Kind: parameter.List, Doc: "Rules.", Items: parameter.Table{
			{Name: "dscp", Kind: parameter.Integer, Max: 63, Optional: true, Doc: "Match."},
		}},
	}
}

func TestDefaultsAndSettingsAreReadInUnits(t *testing.T) {
	table := sample()
	if err := table.Check(); err != nil {
		t.Fatal(err)
	}
	v, err := table.Values("t0-us=1.44", "notify=one", "weights=3, 7", "trim-all=true")
	if err != nil {
		t.Fatal(err)
	}
	item := table[7].Items.Defaults()
	if err := item.Set("dscp", "11"); err != nil {
		t.Fatal(err)
	}
	v.SetList("acl", []parameter.Values{item, table[7].Items.Defaults()})
	if got := v.Duration("t0-us"); got != 1440*clock.Nanosecond {
		t.Errorf("t0 is %v", got)
	}
	if v.Rate("recirculation-gbps") != 100*clock.Gbps || v.Number("alpha") != 0.5 || !v.Bool("trim-all") ||
		v.Word("notify") != "one" {
		t.Errorf("settings are %v", v.Settings())
	}
	if v.List("acl")[1].Has("dscp") || !v.List("acl")[0].Has("dscp") {
		t.Error("an optional parameter that is not given has a value, or one that is given has none")
	}
	want := []parameter.Setting{
		{"data-queue-packets", "10", "packets"}, {"alpha", "0.5", ""}, {"t0-us", "1.44", "us"},
		{"recirculation-gbps", "100", "Gbps"},
		{"notify", "one", ""}, {"trim-all", "true", ""}, {"weights", "3, 7", ""}, {"acl[0].dscp", "11", ""},
	}
	if d := cmp.Diff(want, v.Settings()); d != "" {
		t.Error(d)
	}
}

func TestSettingsOutOfBoundsAreRefusedWithWhatIsAllowed(t *testing.T) {
	for setting, want := range map[string]string{
		"data-queue-packets=0": "1 to 100000", "alpha=9": "0 to 8", "t0-us=0.0000001": "too fine", "notify=two": "all, one",
		"trim-all=yes": "true nor false", "weights=3,0": "1 to 100", "nothing=1": "there are: data-queue-packets",
		"alpha": "name=value",
		"acl=1": "can't be given as text",
	} {
		if _, err := sample().Values(setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want something about %q", setting, err, want)
		}
	}
}

func TestTablesWithMistakesAreRefused(t *testing.T) {
	for what, p := range map[string]parameter.Parameter{
		"a default out of bounds": {Name: "a", Kind: parameter.Integer, Default: "9", Max: 8, Doc: "A."},
		"no documentation":        {Name: "a", Kind: parameter.Boolean, Default: "true"},
		"no kind":                 {Name: "a", Doc: "A."},
		"an odd name":             {Name: "A_b", Kind: parameter.Boolean, Default: "true", Doc: "A."},
	} {
		if err := (parameter.Table{p}).Check(); err == nil {
			t.Errorf("a table with %s is accepted", what)
		}
	}
}

func TestASetOfNumbersKeepsItsRangesAndCountsEachNumberOnce(t *testing.T) {
	v := parameter.Table{{Name: "hosts", Kind: parameter.Ranges, Required: true, Max: 9, Doc: "Hosts."}}.Defaults()
	if v.Has("hosts") || v.Ranges("hosts") != nil {
		t.Error("a set that must be given has a default")
	}
	v.SetRanges("hosts", [][2]int64{{7, 8}, {2, 2}, {8, 9}})
	if got := v.Ranges("hosts"); !slices.Equal(got, []int{7, 8, 2, 9}) {
		t.Errorf("numbers %v", got)
	}
	if got := v.Spans("hosts"); !slices.Equal(got, [][2]int64{{7, 8}, {2, 2}, {8, 9}}) {
		t.Errorf("ranges %v", got)
	}
	if got := v.Settings(); len(got) != 1 || got[0].Value != "7..8, 2..2, 8..9" {
		t.Errorf("%v", got)
	}
}
