package lock

import (
	"fmt"
	"slices"
	"strconv"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/lock"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Reasons of drops.
const (
	reasonTaken fabric.Reason = fabric.ReasonOwn + iota
	reasonIgnored
	reasonRecovering
)

// rules are those of the analyzer by their numbers in section 10.
var rules = map[string]string{"N1": lock.RuleExclusion, "N2": lock.RuleOnce, "N3": lock.RuleLost, "N4": lock.RuleOrder,
	"N5": lock.RuleSingleQueue, "N6": lock.RulePriority, "N7": lock.RuleBatch, "N8": lock.RuleDelay,
	"N9": lock.RuleOccupancy, "N10": lock.RulePlacement, "N11": lock.RuleQuota, "N12": lock.RuleLease,
	"N13": lock.RuleFailover, "N14": lock.RuleAllocation, "N15": lock.RuleTransparency,
	"5.3": lock.RuleOneTrip}

// Family declares the family.
func Family() switches.Family {
	return switches.Family{
		Name: "lock", Makes: true, Counters: count, Settings: settingsOf,
		Snapshot: allocations,
		Reasons: []analyzers.DropReason{
			{Name: "taken", Consumed: true, Doc: "Packets of the lock manager that the switch has processed. What it sends " +
				"are packets of its own."},
			{Name: "ignored", Consumed: true, Doc: "Releases of nobody, requests that are queued, and answers to nothing, " +
				"which change nothing."},
			{Name: "recovering", Doc: "A packet that came before leases from before a restart had ended, while the " +
				"switch did not know which locks it would have, or a request for which there was no slot while the backup had " +
				"the lock."},
		},
		Models: []switches.Model{model()},
	}
}

const mostSlots = 1 << 24

// leases are parameters of both models.
func leases() parameter.Table {
	return parameter.Table{
		{Name: "latency-ns", Kind: parameter.Duration, Unit: "ns", Default: "600", Max: 1_000_000_000,
			Doc: "Forwarding latency beyond store-and-forward."},
		{Name: "slots", Kind: parameter.Integer, Default: "100000", Max: mostSlots, Doc: "Slots for requests."},
		{Name: "lease-us", Kind: parameter.Duration, Unit: "us", Default: "10000", Max: 1_000_000_000,
			Doc: "After which holders lose a lock; 0: never, of switches that do not stop and return. A switch that returns " +
				"without its registers grants nothing before."},
		{Name: "poll-us", Kind: parameter.Duration, Unit: "us", Default: "1000", Min: 1, Max: 1_000_000_000,
			Doc: "How often the control plane looks for ended leases."},
	}
}

func model() switches.Model {
	automatic := []string{"auto", "on", "off"}
	m := switches.Model{
		Model: parameter.Model{Name: "netlock",
			Doc: "NetLock (Yu et al., SIGCOMM 2020): the switch queues and grants requests for locks that it has slots for; " +
				"lock servers own the others, and buffer requests that find no slot.",
			Parameters: append(leases(), parameter.Table{
				{Name: "processing", Kind: parameter.Word, Words: []string{"listing", "snapshot", "chainlock"},
					Default: "chainlock",
					Doc: "How a release finds whom to grant. listing: algorithm 2 as printed, which grants twice; snapshot: a chain " +
						"of grants ends where the queue ended, as in the artefact, and loses requests if recirculation is slow; " +
						"chainlock: shared requests wait while a chain runs."},
				{Name: "recirculation-ns", Kind: parameter.Duration, Unit: "ns", Default: "200", Max: 1_000_000_000,
					Doc: "How long a packet takes from one pass through the switch to the next."},
				{Name: "locks", Kind: parameter.Integer, Default: "0", Max: mostSlots,
					Doc: "Locks that are installed from the start, as far as there are slots."},
				{Name: "first-lock", Kind: parameter.Integer, Default: "1", Max: 1 << 30, Doc: "Number of the first of them."},
				{Name: "slots-each", Kind: parameter.Integer, Default: "0", Max: mostSlots,
					Doc: "Slots of each of them; 0: an equal share."},
				{Name: "allocation", Kind: parameter.Word, Words: []string{"fixed", "knapsack", "random"}, Default: "fixed",
					Doc: "fixed: locks keep what they have; knapsack: the control plane gives slots to the locks that use them best " +
						"(algorithm 3); random: to locks at random, as many as each can use."},
				{Name: "allocation-us", Kind: parameter.Duration, Unit: "us", Default: "1000000", Min: 1, Max: 1_000_000_000,
					Doc: "How often it does, from what was asked for in the time before."},
				{Name: "contention", Kind: parameter.Integer, Default: "0", Max: mostSlots,
					Doc: "Most requests of a lock at a time, where it is known how many clients may need one; 0: as measured."},
				{Name: "lock-ids", Kind: parameter.Integer, Default: "0", Max: 1 << 31,
					Doc: "allocation: random divides the slots among all locks with numbers below this one; 0: among those that " +
						"were asked for."},
				{Name: "moves", Kind: parameter.Integer, Default: strconv.Itoa(DefaultMoves), Min: 1, Max: mostSlots,
					Doc: "Locks that move at a time, and in 100 us, as the allocation says."},
				{Name: "tid-check", Kind: parameter.Word, Words: automatic, Default: "auto",
					Doc: "Whether a release counts only if its transaction has the lock; auto: with chainlock."},
				{Name: "dedup", Kind: parameter.Word, Words: automatic, Default: "auto",
					Doc: "Whether a request that is queued already is ignored; auto: with chainlock."},
				{Name: "push-timeout-us", Kind: parameter.Duration, Unit: "us", Default: "30", Max: 1_000_000_000,
					Doc: "When the switch asks again for what a server buffers; 0: never."},
				{Name: "priorities", Kind: parameter.Integer, Default: "1", Min: 1, Max: 20,
					Doc: "Priorities of requests, 1 is the highest: as many queues of each lock. Those without have the lowest."},
				{Name: "quota", Kind: parameter.Integer, Default: "0", Max: mostSlots,
					Doc: "Requests that a tenant has in a period; 0: any number. The switch rejects what is above."},
				{Name: "quota-us", Kind: parameter.Duration, Unit: "us", Default: "1000000", Min: 1, Max: 1_000_000_000,
					Doc: "Period of quotas."},
				{Name: "tenants", Kind: parameter.Integer, Default: "16", Min: 1, Max: 4096,
					Doc: "Tenants 1 to this number have the quota."},
				{Name: "databases", Kind: parameter.Ranges, Max: 1 << 16,
					Doc: "Hosts that answer what is granted at once (one round trip): lock i is that of the one at position i " +
						"modulo their number. The workload has the same list."},
				{Name: "one-round-trip", Kind: parameter.Word, Words: []string{"on", "off"}, Default: "on",
					Doc: "off: what is granted goes to the client, who asks the database itself (`queries` of the workload)."},
			}...),
		},
		NoNIC:     "it manages locks for many hosts",
		Configure: configure,
		Check:     check,
		Outages:   endlessLease,
		Locks:     switches.LocksBesideServers,
		Pairs: func(v parameter.Values) *switches.Problem {
			if word := v.Word("allocation"); word != "fixed" {
				return &switches.Problem{Key: "allocation", What: "is " + word,
					Why: "original and backup keep the locks that they have: take fixed"}
			}
			return nil
		},
		New: func(sw *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			set, err := set(v, bugs)
			if err != nil {
				return nil, err
			}
			if v.Word("allocation") == "random" {
				set.control.Allocate = func(demands []Demand, slots int) Allocation {
					if ids := v.Int("lock-ids"); ids > 0 {
						return RandomOf(ids, v.Int("contention"), demands, slots, sw.Rand())
					}
					return Random(demands, slots, sw.Rand())
				}
			}
			return newMechanism(set, false)
		},
	}
	for _, b := range Table() {
		if b.Bug&ofServers == 0 {
			m.Bugs = append(m.Bugs, parameter.Bug{Name: b.Name, Doc: b.Doc, Rule: rules[b.Rule]})
		}
	}
	return m
}

func configure(_ parameter.Values, s *fabric.SwitchSpec) error {
	s.Queues = []fabric.QueueSpec{{}}
	return nil
}

// endlessLease refuses outages of switches whose leases never end: what a switch has lost may be held for ever.
func endlessLease(v parameter.Values) *switches.Problem {
	if v.Duration("lease-us") > 0 {
		return nil
	}
	return &switches.Problem{Key: "lease-us", What: "is 0, leases never end",
		Why: "a switch that has lost its registers, or its backup, grants nothing until the leases of holders have ended: " +
			"give a lease, 10000 by default, or leave the switch stopped"}
}

// check refuses settings with which a switch cannot work.
func check(v parameter.Values, _ int, _ []switches.Frames) (problems []switches.Problem) {
	if v.Word("allocation") != "fixed" && v.Int("locks") > 0 {
		problems = append(problems, switches.Problem{Key: "locks", What: "are given, and the control plane allocates",
			Why: "allocation: fixed, or no locks: it begins without any"})
	}
	if v.Word("allocation") != "fixed" && v.Int("slots") == 0 {
		problems = append(problems, switches.Problem{Key: "slots", What: "is 0", Why: "the control plane allocates slots"})
	}
	if each, slots := v.Int("slots-each"), v.Int("slots"); v.Int("locks") > 0 && slots > 0 && each > slots {
		problems = append(problems, switches.Problem{Key: "slots-each", What: fmt.Sprintf("is %d of %d slots", each, slots),
			Why: "no lock would be installed: a lock has at most all slots"})
	}
	if n := v.Int("priorities"); n > 1 && v.Word("processing") != "chainlock" {
		problems = append(problems, switches.Problem{Key: "priorities", What: fmt.Sprintf("is %d with %s", n,
			v.Word("processing")), Why: "the source's ways know one queue; take chainlock"})
	} else if v.Int("locks") > 0 && v.Int("slots") > 0 && v.Int("slots-each") > 0 && v.Int("slots-each") < n {
		problems = append(problems, switches.Problem{Key: "slots-each", What: fmt.Sprintf("is %d for %d priorities",
			v.Int("slots-each"), n), Why: "each priority has a queue of at least one slot"})
	}
	return problems
}

// OneRoundTrip reports whether a switch, and its lock servers, ask databases themselves what is granted at once.
func OneRoundTrip(v parameter.Values) bool {
	return v.Table().Find("databases") >= 0 && len(v.Ranges("databases")) > 0 && v.Word("one-round-trip") == "on"
}

// set reads the settings of a switch.
func set(v parameter.Values, bugs []string) (*settings, error) {
	names := []string{"listing", "snapshot", "chainlock"}
	s := &settings{recirculate: v.Duration("recirculation-ns"), dynamic: v.Word("allocation") != "fixed"}
	c := &s.config
	*c = Config{Processing: Processing(slices.Index(names, v.Word("processing"))),
		PushTimeout: v.Duration("push-timeout-us"), Priorities: v.Int("priorities")}
	on := func(name string) bool {
		word := v.Word(name)
		return word == "on" || word == "auto" && c.Processing == ChainLock
	}
	c.TIDCheck, c.Dedup = on("tid-check"), on("dedup")
	if n := v.Int("quota"); n > 0 {
		c.Quotas = make(map[uint16]int)
		for tenant := range v.Int("tenants") {
			c.Quotas[uint16(tenant+1)] = n
		}
	}
	if OneRoundTrip(v) {
		for _, h := range v.Ranges("databases") {
			s.databases = append(s.databases, wire.HostID(h))
		}
	}
	s.control = ControlConfig{Lease: v.Duration("lease-us"), Poll: v.Duration("poll-us"), Quota: v.Duration("quota-us")}
	if s.dynamic {
		const tracked = 1 << 20
		c.Slots, c.Track, s.control.Period = v.Int("slots"), tracked, v.Duration("allocation-us")
		s.control.Moves, s.control.Contention = v.Int("moves"), v.Int("contention")
	}
	s.installed = installed(v)
	var err error
	c.Bugs, err = ParseBugs(bugs...)
	return s, err
}

// installed returns the locks that the switch has from the start.
func installed(v parameter.Values) Allocation {
	a := make(Allocation)
	locks, slots, each := v.Int("locks"), v.Int("slots"), v.Int("slots-each")
	if each == 0 && locks > 0 {
		each = max(v.Int("priorities"), slots/locks)
	}
	for i := range locks {
		if slots < each {
			break
		}
		slots -= each
		a[uint32(v.Int("first-lock")+i)] = each
	}
	return a
}

// settingsOf returns what the judge knows of a switch.
func settingsOf(v parameter.Values, _ int) (any, error) {
	s, err := set(v, nil)
	if err != nil {
		return nil, err
	}
	of := lock.Switch{Recirculation: s.recirculate, RecirculationMost: s.recirculate, Dedup: s.config.Dedup,
		TIDCheck: s.config.TIDCheck, OneRTT: len(s.databases) > 0, Placed: !s.dynamic, Slots: v.Int("slots"),
		Locks: s.installed, Moves: s.dynamic, Marks: s.dynamic, Priorities: s.config.Priorities, Lease: s.control.Lease,
		Poll: s.control.Poll, PushRetry: s.config.PushTimeout,
		Processing: map[Processing]lock.Processing{Listing: lock.Listing, Snapshot: lock.Snapshot,
			ChainLock: lock.ChainLock}[s.config.Processing]}
	if s.dynamic {
		of.Reaction = DefaultReaction
	}
	if s.config.Quotas != nil {
		of.Period, of.Reset = s.control.Quota, clock.Time(0).Add(s.control.Quota)
		of.Quota = make(map[uint16]int64)
		for tenant, n := range s.config.Quotas {
			of.Quota[tenant] = int64(n)
		}
	}
	return of, nil
}

// allocations returns the latest allocations of a switch as the judge knows them; one out of service has none.
func allocations(sw *fabric.Switch) (any, error) {
	if m, ok := sw.Mechanism().(*Mechanism); ok && m.control != nil {
		return m.control.Allocations(), nil
	}
	return []lock.Allocation(nil), nil
}

func count(sw *fabric.Switch, add func(name string, n int64)) error {
	m, ok := sw.Mechanism().(*Mechanism)
	if !ok {
		return fmt.Errorf("switch %s is out of service", sw.Name())
	}
	c := m.Counts()
	for _, of := range []struct {
		name string
		n    int64
	}{
		{"lock-requests", c.Requests}, {"lock-releases", c.Releases}, {"lock-grants", c.Grants},
		{"lock-forwarded", c.Owned}, {"lock-buffered", c.Buffered}, {"lock-push-requests", c.PushRequests},
		{"lock-pushed-back", c.PushedBack}, {"lock-recirculations", c.Recirculations}, {"lock-ignored", c.Ignored},
		{"lock-rejected", c.Rejected},
	} {
		add(of.name, of.n)
	}
	return nil
}
