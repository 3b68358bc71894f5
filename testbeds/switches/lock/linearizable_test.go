package lock_test

import (
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

// operations returns what clients did, as it passed the switch. A request without a grant did nothing.
func (n *network) operations() (list []porcupine.Operation) {
	asked := make(map[uint32]clock.Time)
	for _, s := range n.history {
		r := s.request
		if s.reset || s.buffer || s.reject || s.restart || s.push > 0 {
			continue
		}
		o := porcupine.Operation{ClientId: int(r.Client.Host), Input: operation{r.Lock, r.Mode, s.release},
			Call: int64(s.at), Return: int64(s.at)}
		if !s.grant && !s.release {
			asked[r.Transaction] = s.at
			continue
		}
		if s.grant {
			o.Call = int64(asked[r.Transaction])
		}
		list = append(list, o)
	}
	return list
}

// A checker that knows neither locks nor switches agrees with judge on what excludes.
func TestHistoriesAreLinearizable(t *testing.T) {
	for _, c := range []struct {
		processing lock.Processing
		slots      int
		guilty     bool
	}{
		{lock.ChainLock, 64, false}, {lock.ChainLock, 3, false}, {lock.ChainLock, 12, false}, {lock.Listing, 64, true},
		{lock.Snapshot, 12, true},
	} {
		illegal := 0
		for seed := range uint64(6) {
			n := single(1)
			n.locks, n.shared, n.stop = 2, 0.6, clock.Time(clock.Millisecond/2)
			n.run(seed, lock.Config{Processing: c.processing}, c.slots)
			got, f := porcupine.CheckOperationsTimeout(specification(), n.operations(), time.Minute), n.judge(true)
			if got == porcupine.Unknown || (got == porcupine.Illegal) != (f.overlaps > 0) {
				t.Errorf("%v, %d slots, seed %d: %v, but %v", c.processing, c.slots, seed, got, f)
			}
			if got == porcupine.Illegal {
				illegal++
			}
		}
		if (illegal > 0) != c.guilty {
			t.Errorf("%v, %d slots: %d of 6 histories are illegal", c.processing, c.slots, illegal)
		}
	}
}
