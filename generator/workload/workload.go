// Package workload is the registry of the kinds of workload of switch tests. A kind is one value, in a file of its
// own, and one line in kinds: test files, validation, plans, minimising and the reference walk what it declares.
package workload

import (
	"fmt"
	"slices"
	"sync"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
)

// Kinds lists every kind of workload, in the order of the reference.
func Kinds() []Kind { return slices.Clone(kinds()) }

// kinds makes the list once, as configuration and runs look kinds up often.
var kinds = sync.OnceValue(func() []Kind {
	return []Kind{incast(), permutation(), single(), ping(), requests(), poisson(), queries(), cbr(), flowFile(),
		locks(), tpcc()}
})

// Kind is a kind of workload: an item of a test's workload is a mapping from its name to its parameters.
type Kind struct {
	parameter.Model
	For       Exchange // of its flows
	Transport string   // that its flows have in any case; empty: that of the hosts
	Hosts     []string // parameters that name all hosts of an item; nil: it takes hosts as they come
	Counts    []string // parameters that say how much an item does, to be lowered by minimising in this order
	Sample    string   // parameters of an item that has nothing but what it must have
	// Check completes the parameters of an item, and returns how many flows it has and what is wrong with it. hosts is 0
	// if their number is not known.
	Check func(v parameter.Values, hosts int) (flows int, problems []Problem)
	// Read reads the files that an item names, before Check; nil: it names none.
	Read  func(v parameter.Values, open Open) []Problem
	Flows func(v parameter.Values, in Scope) []Flow
	// Stream returns what hands out the flows one after the other, in the order of their start, instead of Flows: their
	// number is drawn, and Check returns how many are expected.
	Stream func(v parameter.Values, in Scope) func() (Flow, bool)
	// Of kinds with Stream: how many flows are expected, what is wrong with an item in its network, what it offers in
	// words; Sized: each flow has a size of its own.
	Expect  func(v parameter.Values, in Scope) float64
	CheckIn func(v parameter.Values, in Scope) []Problem
	Explain func(v parameter.Values, in Scope) string
	Sized   bool
	Counted bool // the parameter flows says how many flows there are
	Paced   bool // flows have a rate, or a schedule of rates
	// Single returns kind and parameters of an item for one flow of an item; nil: the flow is a transfer between two
	// hosts.
	Single func(v parameter.Values, f *Flow) (kind string, single parameter.Values)
}

// Exchange says what a flow is for.
type Exchange string

// Exchanges.
const (
	Transfer Exchange = "transfer" // data from src to dst
	Pings    Exchange = "ping"     // echo requests and answers
	Loop     Exchange = "requests" // closed loop of requests and responses
	Locking  Exchange = "locks"    // closed loop of transactions that take locks
)

// Closed reports whether the flows of the kind end after a count of exchanges, rather than after an amount of data.
func (k *Kind) Closed() bool { return k.For != Transfer }

// Flow is what an item has two hosts do.
type Flow struct {
	Kind     Exchange
	Src, Dst int

	Count             int            // of pings, requests and transactions; of these 0: without end
	Interval          clock.Duration // of pings
	Request, Response int            // bytes, of requests
	Service           clock.Duration // from a request's arrival to the response, at the server

	Start clock.Duration // after that of the item
	Bytes int64          // of a transfer; 0: as the item says

	Query    int // of the item, from 1: flows that make one query; 0: none
	Siblings int // flows of the query, this one included

	Pace  *Pace  // nil: an even rate
	Locks *Locks // of Locking
}

// Scope is what the flows of an item depend on besides its parameters.
type Scope struct {
	Hosts int
	Seed  uint64
	Item  int // its place in the workload, from 0

	Open Open // the files that the item names

	Rack           int     // hosts at one switch; neighbours have neighbouring numbers
	Access, Fabric float64 // bits per second of the links of all hosts, and of those from leaf to spine switches
}

// Problem is a mistake in an item: the parameter that has it, or none, what is wrong, and what is allowed.
type Problem struct{ Key, What, Why string }

// MaxHosts and MaxFlows bound a test.
const (
	MaxHosts = 8192
	MaxFlows = 1 << 16
)

// Find returns the kind of a name.
func Find(name string) *Kind {
	all := kinds()
	if i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Names lists the names of all kinds.
func Names() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.Name)
	}
	return names
}

// host is a parameter that names a host.
func host(name, doc string) parameter.Parameter {
	return parameter.Parameter{Name: name, Kind: parameter.Integer, Required: true, Max: MaxHosts - 1, Doc: doc}
}

// HostsAre says which hosts there are.
func HostsAre(n int) string { return fmt.Sprintf("hosts are 0 to %d", n-1) }

// exists checks that there is a host of a parameter.
func exists(key string, host, hosts int) []Problem {
	if hosts > 0 && host >= hosts {
		return []Problem{{key, fmt.Sprintf("there is no host %d", host), HostsAre(hosts)}}
	}
	return nil
}

// pair checks the hosts src and dst.
func pair(v parameter.Values, hosts int) []Problem {
	problems := append(exists("src", v.Int("src"), hosts), exists("dst", v.Int("dst"), hosts)...)
	if v.Int("src") == v.Int("dst") {
		problems = append(problems, Problem{"dst", fmt.Sprintf("host %d would send to itself", v.Int("dst")),
			"src and dst differ"})
	}
	return problems
}
