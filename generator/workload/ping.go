package workload

import "candela.dev/candela/generator/parameter"

func ping() Kind {
	return Kind{
		Model: parameter.Model{Name: "ping",
			Doc: "Round trips of single packets, which the other host sends back. The size is packet-size.",
			Parameters: parameter.Table{
				host("src", "Host that asks."), host("dst", "Host that answers."),
				{Name: "count", Kind: parameter.Integer, Default: "10", Min: 1, Max: 1_000_000, Doc: "Round trips."},
				{Name: "interval-us", Kind: parameter.Duration, Unit: "us", Default: "100", Max: 1_000_000,
					Doc: "From one request to the next."},
			}},
		For: Pings, Transport: "echo", Hosts: []string{"src", "dst"}, Counts: []string{"count"}, Sample: "src: 0, dst: 1",
		Check: func(v parameter.Values, hosts int) (int, []Problem) { return 1, pair(v, hosts) },
		Flows: func(v parameter.Values, _ Scope) []Flow {
			return []Flow{{Kind: Pings, Src: v.Int("src"), Dst: v.Int("dst"), Count: v.Int("count"),
				Interval: v.Duration("interval-us")}}
		},
		Single: func(v parameter.Values, _ *Flow) (string, parameter.Values) { return "ping", v },
	}
}
