package lock

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Baseline declares switches that have all locks and no queues, which have a judge of their own.
func Baseline() switches.Family {
	f := Family()
	f.Name, f.Settings, f.Snapshot, f.Models = "netchain", chainSettings, nil, []switches.Model{baseline()}
	return f
}

func baseline() switches.Model {
	m := switches.Model{
		Model: parameter.Model{Name: "netchain",
			Doc: "Baseline after NetChain (Jin et al., NSDI 2018): the switch has all locks and no queues. All locks are " +
				"exclusive, requests for one that is held are rejected, and clients ask again. If there are more lock ids than " +
				"slots, neighbouring ids share a lock.",
			Parameters: append(leases(), parameter.Table{
				{Name: "lock-ids", Kind: parameter.Integer, Default: "100000", Min: 1, Max: 1 << 31,
					Doc: "Locks have numbers below this one."},
			}...),
		},
		NoNIC:     "it manages locks for many hosts",
		Configure: configure,
		Outages:   endlessLease,
		Locks:     switches.LocksAlone,
		New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			set := settings{ids: uint32(v.Int("lock-ids")), config: Config{Slots: v.Int("slots")},
				control: ControlConfig{Lease: v.Duration("lease-us"), Poll: v.Duration("poll-us")}}
			var err error
			if set.chainBugs, err = ParseChainBugs(bugs...); err != nil {
				return nil, err
			}
			return newMechanism(&set, true)
		},
	}
	for _, b := range ChainTable() {
		m.Bugs = append(m.Bugs, b.Bug)
	}
	return m
}

// chainSettings returns what the judge knows of a switch.
func chainSettings(v parameter.Values, _ int) (any, error) {
	return lock.NetChain{IDs: int64(v.Int("lock-ids")), Slots: int64(v.Int("slots")), Lease: v.Duration("lease-us"),
		Poll: v.Duration("poll-us")}, nil
}

// lateness is how long ChainAnswersLate keeps answers.
const lateness = 5 * clock.Microsecond

// chained has the baseline process a request or a release.
func (m *Mechanism) chained(now clock.Time, sw *fabric.Switch, r *Request, op netlock.Op) []Output {
	if op == netlock.Release {
		return m.netchain.Release(now, *r)
	}
	m.netchain.Expire(now, r.Lock, m.set.control.Lease)
	list := m.netchain.Acquire(now, *r)
	if m.netchain.every(ChainAnswersLate, seldom) {
		m.late = append(m.late, slices.Clone(list))
		sw.Wake(now.Add(lateness), timerToken)
		return nil
	}
	return list
}

// sendLate sends the answers that were kept longest.
func (m *Mechanism) sendLate(now clock.Time, sw *fabric.Switch) {
	list := m.late[0]
	m.late = m.late[1:]
	m.send(now, sw, nil, list)
}
