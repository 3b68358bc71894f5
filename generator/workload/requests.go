package workload

import (
	"fmt"
	"slices"

	"candela.dev/candela/generator/parameter"
)

func requests() Kind {
	return Kind{
		Model: parameter.Model{Name: "requests",
			Doc: "A closed loop: each client sends a request, waits for the response, and sends the next.",
			Parameters: parameter.Table{
				{Name: "clients", Kind: parameter.Ranges, Required: true, Max: MaxHosts - 1, Doc: "Hosts that ask."},
				host("server", "Host that answers."),
				{Name: "count", Kind: parameter.Integer, Default: "1000", Min: 1, Max: 1_000_000, Doc: "Requests of each client."},
				{Name: "request-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "100", Min: 1, Max: 1 << 30,
					Doc: "Bytes of a request."},
				{Name: "response-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "1000", Min: 1, Max: 1 << 30,
					Doc: "Bytes of a response."},
				{Name: "service-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 3_600_000_000,
					Doc: "How long the server takes from a request to its response."},
			}},
		For: Loop, Counts: []string{"count"}, Sample: "clients: 0, server: 1",
		Check: func(v parameter.Values, hosts int) (int, []Problem) {
			clients, server := v.Ranges("clients"), v.Int("server")
			highest := 0
			if len(clients) > 0 {
				highest = slices.Max(clients)
			}
			problems := append(exists("clients", highest, hosts), exists("server", server, hosts)...)
			if slices.Contains(clients, server) {
				problems = append(problems, Problem{"clients", fmt.Sprintf("host %d is client and server", server), ""})
			}
			return len(clients), problems
		},
		Flows: func(v parameter.Values, _ Scope) []Flow {
			var list []Flow
			for _, client := range v.Ranges("clients") {
				list = append(list, Flow{
					Kind: Loop, Src: client, Dst: v.Int("server"), Count: v.Int("count"), Request: v.Int("request-bytes"),
					Response: v.Int("response-bytes"), Service: v.Duration("service-us"),
				})
			}
			return list
		},
		Single: func(v parameter.Values, f *Flow) (string, parameter.Values) {
			one := v.Clone()
			one.SetRanges("clients", [][2]int64{{int64(f.Src), int64(f.Src)}})
			return "requests", one
		},
	}
}
