package switchtest

import (
	"errors"
	"fmt"
	"slices"

	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// checkOutages refuses outages after which a switch cannot be correct.
func (p *Plan) checkOutages() error {
	t := p.Test
	if p.model.Outages == nil {
		return nil
	}
	i := slices.IndexFunc(t.Changes, func(c config.Change) bool {
		return c.State() == config.Running || t.Topology.Pair() && c.State() == config.Stopped
	})
	if i < 0 {
		return nil
	}
	if problem := p.model.Outages(t.Switch.Values); problem != nil {
		return fmt.Errorf("%s: %s, and the switch is %s at %s (changes[%d])\n  %s",
			t.Where("switch-under-test."+problem.Key), problem.What, t.Changes[i].State(), t.Changes[i].At, i, problem.Why)
	}
	return nil
}

// lockItem is an item of the workload whose clients take locks.
type lockItem struct {
	index                       int
	kind                        *workload.Kind
	values                      parameter.Values
	offer                       *config.Offer
	clients, servers, databases []int
}

// refusal is what is wrong with a test, and where.
type refusal struct{ path, what, why string }

func (of *lockItem) at(key string) string {
	return fmt.Sprintf("workload[%d].%s.%s", of.index, of.kind.Name, key)
}

func (of *lockItem) refuse(key, why, what string, args ...any) *refusal {
	return &refusal{of.at(key), fmt.Sprintf(what, args...), why}
}

// checkLocks refuses what hosts of a lock manager cannot do together, although each item of the workload may be alone.
func (p *Plan) checkLocks(n *fabric.Network) error {
	var items []lockItem
	for i := range p.Test.Workload {
		w := &p.Test.Workload[i]
		if k := workload.Find(w.Kind); k != nil && k.For == workload.Locking {
			items = append(items, lockItem{i, k, w.Values, &w.Offer, w.Values.Ranges("clients"), w.Values.Ranges("servers"),
				w.Values.Ranges("databases")})
		}
	}
	if len(items) == 0 {
		return nil
	}
	found := []*refusal{p.quotaOfNobody(items), p.serversThatNeverGrant(), p.neverAllocates(), tooManyThreads(items)}
	for i := range items {
		of := &items[i]
		found = append(found, p.killedLate(of), p.unknownPriority(of), p.otherDatabases(of), p.unservedLocks(n, items, of))
		for j := range items {
			found = append(found, databaseThatServes(&items[j], of))
			if j < i {
				found = append(found, otherServers(&items[j], of))
			}
		}
	}
	var errs []error
	for _, r := range found {
		if r != nil {
			errs = append(errs, fmt.Errorf("%s: %s\n  %s", p.Test.Where(r.path), r.what, r.why))
		}
	}
	return errors.Join(errs...)
}

// quotaOfNobody refuses a quota for tenants that ask for nothing.
func (p *Plan) quotaOfNobody(items []lockItem) *refusal {
	v := p.Test.Switch.Values
	if v.Table().Find("quota") < 0 || v.Int("quota") == 0 {
		return nil
	}
	tenants := v.Int("tenants")
	limits := func(of lockItem) bool { return of.offer.Tenant != nil && *of.offer.Tenant <= tenants }
	if slices.ContainsFunc(items, limits) {
		return nil
	}
	return &refusal{"switch-under-test.quota",
		fmt.Sprintf("limits nobody: no item of the workload has a tenant from 1 to %d", tenants),
		"give items a tenant, or the switch more tenants; quota: 0 is no quota"}
}

// serversThatNeverGrant refuses lock servers that grant nothing before the test ends.
func (p *Plan) serversThatNeverGrant() *refusal {
	const name = "server-not-before-us"
	t := p.Test
	if v := t.Hosts.Values; v.Table().Find(name) < 0 || t.Duration == 0 || v.Duration(name) < t.Duration {
		return nil
	}
	return &refusal{"hosts." + name, "is past the end of the test", "the test ends after duration-us: " +
		"until then no lock server would grant anything"}
}

// neverAllocates refuses a control plane that gives no slots before the test ends.
func (p *Plan) neverAllocates() *refusal {
	const name = "allocation-us"
	t := p.Test
	v := t.Switch.Values
	if v.Table().Find(name) < 0 || v.Word("allocation") == "fixed" || t.Duration == 0 || v.Duration(name) < t.Duration {
		return nil
	}
	return &refusal{"switch-under-test." + name,
		fmt.Sprintf("is %s: the control plane gives no slots before the end of the test", v.Duration(name)),
		"the test ends after duration-us: take a shorter period, or allocation: fixed"}
}

// tooManyThreads refuses more threads of a host than packets can tell apart.
func tooManyThreads(items []lockItem) *refusal {
	threads := make(map[int]int)
	for i := range items {
		of := &items[i]
		each := of.values.Int("threads")
		for c, client := range of.clients {
			n := each
			if of.values.Has("only") {
				n = 0
				if of.values.Int("only")/each == c {
					n = 1
				}
			}
			if threads[client] += n; threads[client] > netlock.MaxThreads {
				return of.refuse("threads", fmt.Sprintf("a host has at most %d threads that take locks, in all items together: "+
					"take fewer, or other clients", netlock.MaxThreads), "host %d has %d threads with those of this item", client,
					threads[client])
			}
		}
	}
	return nil
}

// killedLate refuses clients that are to die after the test.
func (p *Plan) killedLate(of *lockItem) *refusal {
	kill, ends := of.values.Duration("kill-us"), p.Test.Duration
	if kill == 0 || ends == 0 || of.offer.Start+kill < ends {
		return nil
	}
	return of.refuse("kill-us", "the test ends after duration-us; kill-us counts from start-us, and 0 is never",
		"no client dies before the end of the test")
}

// unknownPriority refuses a priority for which the switch has no queue. A switch without priorities ignores them.
func (p *Plan) unknownPriority(of *lockItem) *refusal {
	v := p.Test.Switch.Values
	if v.Table().Find("priorities") < 0 {
		return nil
	}
	if n, has := of.values.Int("priority"), v.Int("priorities"); has > 1 && n > has {
		return of.refuse("priority", fmt.Sprintf("priorities are 1 to %d (switch-under-test.priorities); 0 is the lowest",
			has), "is %d of %d", n, has)
	}
	return nil
}

// otherDatabases refuses databases that the switch does not know, or knows without the clients.
func (p *Plan) otherDatabases(of *lockItem) *refusal {
	v := p.Test.Switch.Values
	if v.Table().Find("databases") < 0 || slices.Equal(v.Ranges("databases"), of.databases) {
		return nil
	}
	return of.refuse("databases", "the switch and each item of the workload take the same list",
		"are %s, and those of the switch are %s", hostList(of.databases), hostList(v.Ranges("databases")))
}

func hostList(hosts []int) string {
	if len(hosts) == 0 {
		return "none"
	}
	return fmt.Sprint(hosts)
}

// databaseThatServes refuses a database that another item has as a lock server: it would take requests for queries.
func databaseThatServes(of, other *lockItem) *refusal {
	for _, d := range of.databases {
		if of != other && slices.Contains(other.servers, d) {
			return other.refuse("servers", "a database answers all requests as queries: take another host",
				"host %d is a database of workload[%d]", d, of.index)
		}
	}
	return nil
}

// span returns the numbers of the first lock of an item and of the one after the last.
func (of *lockItem) span() (first, past int) {
	if of.values.Table().Find("warehouses") >= 0 {
		return 0, of.values.Int("warehouses") * workload.LocksOfWarehouse
	}
	return of.values.Int("first"), of.values.Int("first") + of.values.Int("locks")
}

// otherServers refuses locks that two items ask different servers for: each server would grant them.
func otherServers(of, other *lockItem) *refusal {
	first, past := of.span()
	from, until := other.span()
	first, past = max(first, from), min(past, until)
	for id := first; id < min(past, first+len(of.servers)*len(other.servers)); id++ {
		if a, b := of.servers[id%len(of.servers)], other.servers[id%len(other.servers)]; a != b {
			return other.refuse("servers", fmt.Sprintf("both items take locks %d to %d, and a lock has one server: give both "+
				"the same servers in the same order, or other locks", first, past-1),
				"lock %d is that of host %d, and in workload[%d] that of host %d", id, b, of.index, a)
		}
	}
	return nil
}

// unservedLocks refuses hosts whose requests for a lock meet different switches, each of which would grant it.
func (p *Plan) unservedLocks(n *fabric.Network, items []lockItem, of *lockItem) *refusal {
	edge := func(host int) int32 { return n.Edge(fabric.HostID(host)) }
	name := func(host int) string { return n.Switch(int(edge(host))).Name() }
	const sides = "clients are on one side of original and backup, lock servers on the other (right-hosts)"
	home, pair := items[0].clients[0], p.Test.Topology.Pair()
	for _, c := range of.clients {
		switch apart := p.model.Locks != switches.NoLocks && edge(c) != edge(home); {
		case apart && pair:
			return of.refuse("clients", sides,
				"host %d is at switch %s and host %d at %s", c, name(c), home, name(home))
		case apart:
			return of.refuse("clients", "the switch that clients are attached to has the locks: attach all clients to one",
				"host %d is at switch %s and host %d at %s: each switch would grant the same locks", c, name(c), home, name(home))
		}
	}
	if p.model.Locks != switches.LocksBesideServers {
		return nil
	}
	for _, s := range of.servers {
		switch beside := edge(s) == edge(home); {
		case pair && beside:
			return of.refuse("servers", sides,
				"host %d is at switch %s, as clients are: their packets do not pass the lock switch", s, name(s))
		case !pair && !beside:
			return of.refuse("servers", "a lock switch is that of a rack: attach lock servers to the switch of the clients",
				"host %d is at switch %s and the clients at %s: what it returns meets other lock switches first", s, name(s),
				name(home))
		}
	}
	return nil
}
