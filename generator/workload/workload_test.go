package workload_test

import (
	"reflect"
	"testing"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
)

// item returns the least an item of a kind can say, completed as configuration does.
func item(t *testing.T, k *workload.Kind) parameter.Values {
	t.Helper()
	v := k.Parameters.Defaults()
	next := int64(0)
	for _, p := range k.Parameters {
		switch {
		case !p.Required:
		case p.Kind == parameter.Ranges:
			v.SetRanges(p.Name, [][2]int64{{next, next + 1}, {next + 1, next + 2}})
			next += 3
		default:
			v.SetStep(p.Name, max(next, p.Min))
			next++
		}
	}
	if k.Name == "cbr" {
		v.SetStep("dst", next)
	}
	return v
}

// A misspelt name in a declaration panics where it is used: this test uses all of them.
func TestKindsDeclareWhatTheyUse(t *testing.T) {
	const hosts = 8
	seen := map[string]bool{}
	for _, k := range workload.Kinds() {
		if seen[k.Name] || workload.Find(k.Name) == nil {
			t.Errorf("%s is there twice, or is not found", k.Name)
		}
		seen[k.Name] = true
		if err := k.Parameters.Check(); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		for _, name := range append(k.Counts, k.Hosts...) {
			if i := k.Parameters.Find(name); i < 0 || k.Parameters[i].Kind != parameter.Integer {
				t.Errorf("%s has no number %s", k.Name, name)
			}
		}
		if k.Stream != nil { // their number is drawn: see poisson_test.go
			continue
		}
		v := item(t, &k)
		count, problems := k.Check(v, hosts)
		flows := k.Flows(v, workload.Scope{Hosts: hosts, Seed: 3})
		if len(problems) > 0 || len(flows) != count || count == 0 {
			t.Errorf("%s: %d flows, %d announced, %v", k.Name, len(flows), count, problems)
		}
		for _, f := range flows {
			if f.Kind != k.For || f.Src == f.Dst || f.Src < 0 || max(f.Src, f.Dst) >= hosts {
				t.Errorf("%s: %+v", k.Name, f)
			}
		}
		if _, problems := k.Check(v, 1); len(problems) == 0 && k.Name != "permutation" {
			t.Errorf("%s: one host is enough", k.Name)
		}
	}
}

// Minimising takes items apart: one for each flow is the same flows.
func TestAnItemOfASingleFlowIsThatFlow(t *testing.T) {
	for _, k := range workload.Kinds() {
		if k.Stream != nil { // a flow of a drawn size is a transfer of that size
			continue
		}
		v := item(t, &k)
		k.Check(v, 8)
		for _, want := range k.Flows(v, workload.Scope{Hosts: 8, Seed: 3}) {
			of := &k
			var alone parameter.Values
			if k.Single != nil {
				var name string
				name, alone = k.Single(v, &want)
				of = workload.Find(name)
			} else {
				var name string
				name, alone = workload.Between(want.Src, want.Dst)
				of = workload.Find(name)
			}
			if got := of.Flows(alone, workload.Scope{Hosts: 8, Seed: 3, Item: 5}); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("%s: %+v, want %+v", k.Name, got, want)
			}
		}
	}
	name, v := workload.Between(4, 4)
	if flows := workload.Find(name).Flows(v, workload.Scope{Hosts: 8}); len(flows) != 1 || flows[0].Src != 4 ||
		flows[0].Dst != 4 {
		t.Errorf("a host to itself: %+v", flows)
	}
}

// Every host sends to one other and receives from one other, in one cycle, and the seed decides which.
func TestAPermutationIsACycleThatTheSeedDraws(t *testing.T) {
	k := workload.Find("permutation")
	v := k.Parameters.Defaults()
	drawn := map[int]bool{}
	for seed := range uint64(20) {
		to := map[int]int{}
		for _, f := range k.Flows(v, workload.Scope{Hosts: 9, Seed: seed}) {
			to[f.Src] = f.Dst
		}
		at, steps := 0, 0
		for at, steps = to[0], 1; at != 0 && steps < 10; steps++ {
			at = to[at]
		}
		if steps != 9 {
			t.Errorf("seed %d: back after %d steps", seed, steps)
		}
		drawn[to[0]] = true
	}
	if len(drawn) < 4 {
		t.Errorf("20 seeds send host 0 to %d hosts only", len(drawn))
	}
}
