package workload

import (
	"fmt"
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
)

func queries() Kind {
	sized := sizeParameters()
	sized[sized.Find("sizes")].Default = "fixed"
	sized[sized.Find("sizes")].Doc = "Distribution of the sizes of responses. " + sizesDoc
	return Kind{
		Model: parameter.Model{Name: "queries",
			Doc: "A client asks several servers at once and needs all responses: the incast of partition and aggregate. The " +
				"seed alone decides when, whom and how much. Query completion time (QCT) is from the start of a query to the " +
				"last byte of its last response.",
			Parameters: append(parameter.Table{
				{Name: "clients", Kind: parameter.Ranges, Optional: true, Max: MaxHosts - 1,
					Doc: "Hosts that ask; of each query one is drawn. By default all."},
				{Name: "servers", Kind: parameter.Integer, Required: true, Min: 1, Max: MaxHosts - 1,
					Doc: "Hosts that each query asks: drawn without replacement from all hosts but the client."},
				{Name: "repeats", Kind: parameter.Boolean, Default: "false",
					Doc: "If a client has fewer other hosts than servers, a query asks all of them once before it asks one again."},
				{Name: "load", Kind: parameter.Number, Optional: true, Max: 4,
					Doc: "Payload of responses offered, as a share of the capacity of load-of; instead of queries-per-s."},
				{Name: "load-of", Kind: parameter.Word, Words: []string{"access", "fabric"}, Default: "access",
					Doc: "access: the links of all hosts; fabric: all links from leaf to spine switches."},
				{Name: "queries-per-s", Kind: parameter.Number, Optional: true, Max: 1_000_000_000, Doc: "Queries in a second."},
				{Name: "arrivals", Kind: parameter.Word, Words: []string{"poisson", "even"}, Default: "poisson",
					Doc: "poisson: queries start independently of each other; even: at equal distances, the first at start-us."},
				{Name: "stop-us", Kind: parameter.Duration, Unit: "us", Required: true, Min: 1, Max: 3_600_000_000,
					Doc: "No query starts later than this after start-us."},
				{Name: "request-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "250", Min: 1, Max: 1 << 30,
					Doc: "Bytes of a request."},
				{Name: "service-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 3_600_000_000,
					Doc: "How long a server takes from a request to its response, on average."},
				{Name: "service-deviation-us", Kind: parameter.Duration, Unit: "us", Default: "0", Max: 3_600_000_000,
					Doc: "Standard deviation of that time, which is drawn from a normal distribution cut off at 0."},
			}, sized...)},
		For: Loop, Sample: "servers: 1, queries-per-s: 1, stop-us: 1000", Sized: true,
		Check: checkQueries, Flows: collect(asked), Stream: asked,
		Expect: func(v parameter.Values, in Scope) float64 {
			return queryRate(v, in) * seconds(v.Duration("stop-us")) * float64(v.Int("servers"))
		},
		Read: readSizes, Explain: explainQueries, CheckIn: checkLoad,
		Single: singleRequest,
	}
}

func checkQueries(v parameter.Values, hosts int) (int, []Problem) {
	_, problems := sizesOf(v)
	if v.Has("load") == v.Has("queries-per-s") {
		problems = append(problems, Problem{"load", "needs one of load and queries-per-s",
			"load: 0.1, or queries-per-s: 2000"})
	}
	for _, c := range v.Ranges("clients") {
		problems = append(problems, exists("clients", c, hosts)...)
	}
	if n := v.Int("servers"); hosts > 0 && n >= hosts && !v.Bool("repeats") {
		problems = append(problems, Problem{"servers",
			fmt.Sprintf("%d are more than a client has other hosts (%d)", n, hosts-1),
			fmt.Sprintf("servers of a query are different hosts: at most %d; repeats: true asks some again", hosts-1)})
	}
	return v.Int("servers"), problems
}

// queryRate returns the queries in a second.
func queryRate(v parameter.Values, in Scope) float64 {
	if v.Has("queries-per-s") {
		return v.Number("queries-per-s")
	}
	s, _ := sizesOf(v)
	return v.Number("load") * shareOf(v, in) / 8 / (s.mean() * float64(v.Int("servers")))
}

// shareOf returns the capacity that load is a share of, in bits per second.
func shareOf(v parameter.Values, in Scope) float64 {
	if v.Word("load-of") == "fabric" {
		return in.Fabric
	}
	return in.Access
}

// asked draws the requests of one query after the other. Times, hosts, sizes and service times have generators of
// their own.
func asked(v parameter.Values, in Scope) func() (Flow, bool) {
	times, hosts, drawn, served := in.stream(1), in.stream(2), in.stream(3), in.stream(4)
	s, _ := sizesOf(v)
	gap, stop := 1/queryRate(v, in), seconds(v.Duration("stop-us"))
	clients := v.Ranges("clients")
	mean, deviation := float64(v.Duration("service-us")), float64(v.Duration("service-deviation-us"))
	order := make([]int, in.Hosts) // a permutation of the hosts, whose first ones are the client and its servers
	for i := range order {
		order[i] = i
	}
	at, query, asked := 0.0, 0, v.Int("servers")
	start := func() bool {
		switch {
		case v.Word("arrivals") == "poisson":
			at += times.ExpFloat64() * gap
		case query > 0:
			at = float64(query) * gap
		}
		if !(at < stop) {
			return false
		}
		client := hosts.IntN(in.Hosts)
		if len(clients) > 0 {
			client = clients[hosts.IntN(len(clients))]
		}
		for i, h := range order {
			if h == client {
				order[0], order[i] = order[i], order[0]
				break
			}
		}
		query, asked = query+1, 0
		return true
	}
	return func() (Flow, bool) {
		if asked == v.Int("servers") && !start() {
			return Flow{}, false
		}
		place := 1 + asked%(in.Hosts-1) // all others are drawn before one is drawn again
		asked++
		other := place + hosts.IntN(in.Hosts-place)
		order[place], order[other] = order[other], order[place]
		service := max(0, mean+deviation*served.NormFloat64())
		return Flow{Kind: Loop, Src: order[0], Dst: order[place], Count: 1, Request: v.Int("request-bytes"),
			Response: int(s.draw(drawn)), Service: clock.Duration(math.Round(service)), Query: query,
			Siblings: v.Int("servers"), Start: clock.Duration(math.Round(at * float64(clock.Second)))}, true
	}
}

// explainQueries says in words what an item offers.
func explainQueries(v parameter.Values, in Scope) string {
	s, _ := sizesOf(v)
	perSecond, each := queryRate(v, in), s.mean()*float64(v.Int("servers"))
	return fmt.Sprintf("queries to %d servers, responses %s, %.5g queries in a second: ", v.Int("servers"),
		s.text(), perSecond) + offered(perSecond*each*8, in)
}

// singleRequest is an item of requests for one flow of a query.
func singleRequest(_ parameter.Values, f *Flow) (string, parameter.Values) {
	one := requests().Parameters.Defaults()
	one.SetRanges("clients", [][2]int64{{int64(f.Src), int64(f.Src)}})
	for name, n := range map[string]int64{"server": int64(f.Dst), "count": int64(f.Count),
		"request-bytes": int64(f.Request), "response-bytes": int64(f.Response), "service-us": int64(f.Service)} {
		one.SetStep(name, n)
	}
	return "requests", one
}
