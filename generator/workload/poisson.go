package workload

import (
	"fmt"
	"math"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
)

func poisson() Kind {
	return Kind{
		Model: parameter.Model{Name: "poisson",
			Doc: "Flows that arrive independently of each other, with drawn sizes and hosts. The seed alone decides when, " +
				"between whom and how large: they are the same for every switch and transport.",
			Parameters: append(parameter.Table{
				{Name: "load", Kind: parameter.Number, Optional: true, Max: 4,
					Doc: "Payload offered, as a share of the capacity of load-of; instead of flows-per-s."},
				{Name: "load-of", Kind: parameter.Word, Words: []string{"access", "fabric"}, Default: "access",
					Doc: "access: the links of all hosts, of all-to-one that of the receiver; fabric: all links from leaf to spine " +
						"switches. Of one-way, those of the first leaf switch and its hosts."},
				{Name: "flows-per-s", Kind: parameter.Number, Optional: true, Max: 1_000_000_000, Doc: "Flows in a second."},
				{Name: "stop-us", Kind: parameter.Duration, Unit: "us", Required: true, Min: 1, Max: 3_600_000_000,
					Doc: "No flow arrives later than this after start-us."},
				{Name: "pairs", Kind: parameter.Word, Default: "uniform",
					Words: []string{"uniform", "inter-rack", "one-way", "permutation", "all-to-one"},
					Doc: "uniform: any two hosts; inter-rack: hosts at different leaf switches; one-way: hosts of the first leaf " +
						"switch to those of others; permutation: each host to one other; all-to-one: all others to receiver."},
				{Name: "receiver", Kind: parameter.Integer, Default: "0", Max: MaxHosts - 1, Doc: "Of all-to-one."},
			}, sizeParameters()...)},
		For: Transfer, Sample: "load: 0.1, stop-us: 1000", Sized: true,
		Check: checkPoisson, Flows: collect(arrivals), Stream: arrivals,
		Expect: func(v parameter.Values, in Scope) float64 {
			return rate(v, in) * seconds(v.Duration("stop-us"))
		},
		Read: readSizes, Explain: explainPoisson, CheckIn: checkNetwork,
	}
}

// collect makes a list of what a stream hands out.
func collect(stream func(parameter.Values, Scope) func() (Flow, bool)) func(parameter.Values, Scope) []Flow {
	return func(v parameter.Values, in Scope) []Flow {
		var list []Flow
		next := stream(v, in)
		for f, ok := next(); ok; f, ok = next() {
			list = append(list, f)
		}
		return list
	}
}

func checkPoisson(v parameter.Values, hosts int) (int, []Problem) {
	_, problems := sizesOf(v)
	if v.Has("load") == v.Has("flows-per-s") {
		problems = append(problems, Problem{"load", "needs one of load and flows-per-s", "load: 0.6, or flows-per-s: 10000"})
	}
	if v.Word("pairs") == "all-to-one" {
		problems = append(problems, exists("receiver", v.Int("receiver"), hosts)...)
	}
	if hosts == 1 {
		problems = append(problems, Problem{"pairs", "one host has nobody to send to", ""})
	}
	return 1, problems
}

// checkNetwork says what is wrong with an item in its network.
func checkNetwork(v parameter.Values, in Scope) []Problem {
	if pairs := v.Word("pairs"); (pairs == "inter-rack" || pairs == "one-way") && in.Rack >= in.Hosts {
		return []Problem{{"pairs", pairs + " needs hosts at several switches", "the topology has one"}}
	}
	return checkLoad(v, in)
}

// checkLoad refuses a load of what the network lacks.
func checkLoad(v parameter.Values, in Scope) []Problem {
	if v.Word("load-of") == "fabric" && in.Fabric == 0 {
		return []Problem{{"load-of", "fabric needs links from leaf to spine switches", "the topology has none: access"}}
	}
	return nil
}

// capacity returns what the load is a share of, in bits per second.
func capacity(v parameter.Values, in Scope) float64 {
	share := 1.0
	if v.Word("pairs") == "one-way" {
		share = float64(in.Rack) / float64(max(in.Hosts, 1))
	}
	switch {
	case v.Word("load-of") == "fabric":
		return in.Fabric * share
	case v.Word("pairs") == "all-to-one":
		return in.Access / float64(max(in.Hosts, 1))
	}
	return in.Access * share
}

// rate returns the arrivals in a second.
func rate(v parameter.Values, in Scope) float64 {
	if v.Has("flows-per-s") {
		return v.Number("flows-per-s")
	}
	s, _ := sizesOf(v)
	return v.Number("load") * capacity(v, in) / 8 / s.mean()
}

// workloadStream tells what workloads draw from what hosts, switches and hashes draw from the seed.
const workloadStream = 0x776f726b6c6f6164

// stream returns the n-th generator of an item.
func (in *Scope) stream(n uint64) *rand.Rand {
	of := in.seeds(n, 0)
	return rand.New(rand.NewPCG(of[0], of[1]))
}

// paceStream is the generators of the paces of an item's flows.
const paceStream = 5

// seeds returns those of the n-th generator of a flow of the item.
func (in *Scope) seeds(n uint64, flow int) [2]uint64 {
	return [2]uint64{in.Seed, workloadStream ^ uint64(flow)<<32 ^ uint64(in.Item)<<8 ^ n}
}

// arrivals draws the flows in the order of their start. Times, hosts and sizes have generators of their own: another
// distribution of sizes leaves the pairs as they are.
func arrivals(v parameter.Values, in Scope) func() (Flow, bool) {
	times, hosts, drawn := in.stream(1), in.stream(2), in.stream(3)
	s, _ := sizesOf(v)
	mean, stop := 1/rate(v, in), seconds(v.Duration("stop-us"))
	to := pairing(v, in, hosts)
	at := 0.0 // seconds
	return func() (Flow, bool) {
		at += times.ExpFloat64() * mean
		if !(at < stop) {
			return Flow{}, false
		}
		src, dst := to()
		return Flow{Kind: Transfer, Src: src, Dst: dst, Bytes: s.draw(drawn),
			Start: clock.Duration(math.Round(at * float64(clock.Second)))}, true
	}
}

// pairing returns what draws sender and receiver of a flow.
func pairing(v parameter.Values, in Scope, r *rand.Rand) func() (src, dst int) {
	other := func(not int) int {
		h := r.IntN(in.Hosts - 1)
		if h >= not {
			h++
		}
		return h
	}
	switch v.Word("pairs") {
	case "all-to-one":
		dst := v.Int("receiver")
		return func() (int, int) { return other(dst), dst }
	case "inter-rack":
		rack := max(1, min(in.Rack, in.Hosts/2))
		return func() (int, int) {
			src := r.IntN(in.Hosts)
			first := src / rack * rack
			dst := r.IntN(in.Hosts - rack)
			if dst >= first {
				dst += rack
			}
			return src, dst
		}
	case "one-way":
		rack := max(1, min(in.Rack, in.Hosts/2))
		return func() (int, int) { return r.IntN(rack), rack + r.IntN(in.Hosts-rack) }
	case "permutation":
		order := r.Perm(in.Hosts)
		next := make([]int, in.Hosts)
		for i, h := range order {
			next[h] = order[(i+1)%in.Hosts]
		}
		return func() (int, int) { src := r.IntN(in.Hosts); return src, next[src] }
	}
	return func() (int, int) { src := r.IntN(in.Hosts); return src, other(src) }
}

// explainPoisson says in words what an item offers.
func explainPoisson(v parameter.Values, in Scope) string {
	s, _ := sizesOf(v)
	perSecond := rate(v, in)
	return fmt.Sprintf("flows %s, %.5g in a second: ", s.text(), perSecond) +
		offered(perSecond*s.mean()*8, in)
}

// text describes the distribution in words.
func (s *sizes) text() string {
	text := "of " + bytesText(s.mean()) + " on average"
	if small := s.below(100_000); small > 0 && small < 1 {
		text += fmt.Sprintf(" (%.3g %% below 100 kB)", small*100)
	}
	return text
}

// bytesText writes bytes with three digits.
func bytesText(bytes float64) string {
	for i, unit := range []string{"B", "kB", "MB", "GB"} {
		if bytes < 999.5 || i == 3 {
			return fmt.Sprintf("%.3g %s", bytes, unit)
		}
		bytes /= 1000
	}
	return ""
}

// offered says in words what so many bits of payload in a second are.
func offered(bits float64, in Scope) string {
	text := fmt.Sprintf("%.3g Gb/s of payload, %.3g of access capacity", bits/1e9, bits/max(in.Access, 1))
	if in.Fabric > 0 {
		text += fmt.Sprintf(", %.3g of fabric capacity", bits/in.Fabric)
	}
	return text
}

func seconds(d clock.Duration) float64 { return float64(d) / float64(clock.Second) }
