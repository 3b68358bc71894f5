package lock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

// operation is what a client does to a lock.
type operation struct {
	lock    uint32
	mode    netlock.Mode
	release bool
}

// held is the state of a lock: who has it.
type held struct{ shared, exclusive int }

// specification is a lock as if one client at a time did something to it.
func specification() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			by := make(map[uint32]int)
			for _, o := range history {
				id := o.Input.(operation).lock
				if _, ok := by[id]; !ok {
					by[id] = len(parts)
					parts = append(parts, nil)
				}
				parts[by[id]] = append(parts[by[id]], o)
			}
			return parts
		},
		Init: func() any { return held{} },
		Step: func(state, input, _ any) (bool, any) {
			h, o := state.(held), input.(operation)
			count := &h.shared
			if o.mode == netlock.Exclusive {
				count = &h.exclusive
			}
			if o.release {
				*count--
				return *count >= 0, h
			}
			*count++
			return h.exclusive == 0 || h.exclusive == 1 && h.shared == 0, h
		},
	}
}

// operations returns what clients did, as it passed the switch. A request without a grant did nothing. A lease ends
// like a release.
func (n *network) operations() (list []porcupine.Operation) {
	asked := make(map[uint32]clock.Time)
	type use struct {
		request lock.Request
		end     clock.Time
	}
	var uses []use // that have not ended
	end := func(at clock.Time, ended func(u use) bool) {
		uses = slices.DeleteFunc(uses, func(u use) bool {
			if !ended(u) {
				return false
			}
			at := min(at, u.end)
			list = append(list, porcupine.Operation{ClientId: int(u.request.Client.Host),
				Input: operation{u.request.Lock, u.request.Mode, true}, Call: int64(at), Return: int64(at)})
			return true
		})
	}
	for _, s := range n.history {
		r := s.request
		end(s.at, func(u use) bool { return u.end < s.at })
		switch {
		case s.reset || s.buffer || s.reject || s.restart || s.push > 0:
		case s.release:
			end(s.at, func(u use) bool { return u.request.Transaction == r.Transaction })
		case !s.grant:
			asked[r.Transaction] = s.at
		default:
			until := clock.Never
			if n.lease > 0 {
				until = s.at.Add(n.lease - n.late)
			}
			// Who gets a lock again that it has, has it once, for longer.
			if i := slices.IndexFunc(uses, func(u use) bool { return u.request.Transaction == r.Transaction }); i >= 0 {
				uses[i].end = until
				continue
			}
			uses = append(uses, use{r, until})
			list = append(list, porcupine.Operation{ClientId: int(r.Client.Host), Input: operation{r.Lock, r.Mode, false},
				Call: int64(asked[r.Transaction]), Return: int64(s.at)})
		}
	}
	return list
}

// A checker that knows neither locks nor switches agrees with judge on what excludes.
func TestHistoriesAreLinearizable(t *testing.T) {
	unchecked := func(_ *network, cfg *lock.Config) { cfg.TIDCheck, cfg.Dedup = false, false }
	failures := func(n *network, cfg *lock.Config) {
		leases(n, cfg)
		n.stop, n.restarts, n.failures = clock.Time(clock.Millisecond), micro(500), micro(500)
		n.moves = micro(50)
	}
	for name, c := range map[string]struct {
		processing lock.Processing
		slots      int
		set        func(n *network, cfg *lock.Config)
		guilty     bool
	}{
		"chainlock": {lock.ChainLock, 64, nothing, false}, "overflow": {lock.ChainLock, 3, nothing, false},
		"little overflow": {lock.ChainLock, 12, nothing, false},
		"listing":         {lock.Listing, 64, unchecked, true},
		"snapshot":        {lock.Snapshot, 12, unchecked, true},
		"moves":           {lock.ChainLock, 3, moves, false},
		"priorities":      {lock.ChainLock, 6, func(n *network, _ *lock.Config) { n.priority, n.moves = 3, micro(50) }, false},
		"failures":        {lock.ChainLock, 3, failures, false},
		"backup": {lock.ChainLock, 3, func(n *network, cfg *lock.Config) {
			failures(n, cfg)
			n.backup, n.returns = true, 3*n.lease
		}, false},
		"backup, a short outage": {lock.ChainLock, 3, func(n *network, cfg *lock.Config) {
			failures(n, cfg)
			n.backup, n.returns = true, n.lease/4
		}, false},
		"early grants": {lock.ChainLock, 16, func(_ *network, cfg *lock.Config) { cfg.Bugs = lock.SharedBesideExclusive }, true},
		"two owners": {lock.ChainLock, 16, func(n *network, cfg *lock.Config) {
			n.moves, cfg.Bugs = micro(5), lock.ForgetsOwner
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			illegal, seeds := 0, wide(t, 4)
			for seed := range uint64(seeds) {
				n, cfg := plain()
				cfg.Processing = c.processing
				c.set(n, &cfg)
				n.run(seed, cfg, c.slots)
				got, f := porcupine.CheckOperationsTimeout(specification(), n.operations(), time.Minute), n.judge(false)
				if got == porcupine.Unknown || (got == porcupine.Illegal) != (f.overlaps > 0) {
					t.Errorf("seed %d: %v, but %v", seed, got, f)
				}
				if got == porcupine.Illegal {
					illegal++
				}
			}
			if (illegal > 0) != c.guilty {
				t.Errorf("%d of %d histories are illegal", illegal, seeds)
			}
		})
	}
}
