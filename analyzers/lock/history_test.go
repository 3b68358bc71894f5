package lock

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// use is what a client does with a lock. Times of what never happened are 0.
type use struct {
	client               int
	mode                 netlock.Mode
	ask, grant, released clock.Time
}

// moment is what a checker of linearizability sees: to take a lock, or to give it up.
type moment struct {
	client   int
	mode     netlock.Mode
	releases bool
}

// held is who holds the lock: how many share it, and whether one has it alone.
type held struct {
	shared    int
	exclusive bool
}

// readersWriter is a lock as porcupine checks it. An ACQUIRE takes effect between request and grant, a RELEASE as it
// comes to the switch.
var readersWriter = porcupine.Model{
	Init: func() any { return held{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(held), input.(moment)
		switch {
		case in.releases && in.mode == netlock.Exclusive:
			s.exclusive = false
		case in.releases:
			s.shared--
		case in.mode == netlock.Exclusive:
			if s.exclusive || s.shared > 0 {
				return false, s
			}
			s.exclusive = true
		default:
			if s.exclusive {
				return false, s
			}
			s.shared++
		}
		return true, s
	},
	Equal: func(a, b any) bool { return a == b },
}

func linearizable(history []use) bool {
	var ops []porcupine.Operation
	for i, u := range history {
		if u.grant == 0 {
			continue
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: moment{u.client, u.mode, false}, Call: int64(u.ask),
			Return: int64(u.grant)})
		if u.released > 0 {
			ops = append(ops, porcupine.Operation{ClientId: i, Input: moment{u.client, u.mode, true}, Call: int64(u.released),
				Return: int64(u.released)})
		}
	}
	return porcupine.CheckOperations(readersWriter, ops)
}

// exclusion reports whether a judge finds that mutual exclusion holds.
func exclusion(t *testing.T, history []use) bool {
	f := lock.Switch{Pipeline: 1, Dedup: true, TIDCheck: true, Ports: make([]lock.Port, 64)}
	j, err := New(lock.Network{Switches: []lock.Switch{f}, Complete: true, Servers: []netip.Addr{serverAddress}})
	if err != nil {
		t.Fatal(err)
	}
	var packets []Packet
	show := func(at clock.Time, u use, tid int, stage trace.SwitchStage, op netlock.Op) {
		if at == 0 {
			return
		}
		p := Packet{Time: at, ID: uint64(len(packets)), Port: u.client, Stage: stage, Size: 62, Lock: true,
			Src: address(u.client), Dst: serverAddress, DstPort: netlock.Port,
			Header: netlock.Header{Op: op, Mode: u.mode, Lock: 1, Transaction: uint32(tid)}}
		if stage == trace.Left {
			p.Src, p.Dst, p.DstPort = p.Dst, p.Src, netlock.ReplyPort
		}
		packets = append(packets, p)
	}
	for i, u := range history {
		show(u.ask, u, i, trace.Entered, netlock.Acquire)
		show(u.grant, u, i, trace.Left, netlock.Acquire)
		show(u.released, u, i, trace.Entered, netlock.Release)
	}
	slices.SortFunc(packets, func(a, b Packet) int { return cmp.Compare(a.Time, b.Time) })
	for i := range packets {
		j.Packet(&packets[i])
	}
	r := j.Finish(packets[len(packets)-1].Time)
	return violated(&r)[lock.RuleExclusion] == 0
}

// What N1 says about a history is what a checker of linearizability says: of histories that nobody made sense of, of
// histories in which a lock is passed on, and of those with a fault.
func TestMutualExclusionIsLinearizability(t *testing.T) {
	right, wrong := 0, 0
	for seed := range uint64(wide(1500)) {
		r := rand.New(rand.NewPCG(seed, 5))
		history := make([]use, 1+r.IntN(7))
		times := r.Perm(3*len(history) + 1)
		next := clock.Time(1)
		for i := range history {
			u := &history[i]
			u.client, u.mode = r.IntN(5), netlock.Mode(r.IntN(2))
			if seed%2 == 0 { // any order
				three := []int{times[3*i] + 1, times[3*i+1] + 1, times[3*i+2] + 1}
				slices.Sort(three)
				u.ask, u.grant, u.released = clock.Time(three[0]), clock.Time(three[1]), clock.Time(three[2])
			} else { // one after the other
				u.ask, u.grant, u.released = next, next+1, next+2
				next += 3
			}
			if r.IntN(6) == 0 {
				u.released = 0
			}
		}
		if seed%4 == 3 && len(history) > 1 { // the second comes too early
			history[0].released, history[1].ask, history[1].grant = 5, 3, 4
		}
		want := linearizable(history)
		if want {
			right++
		} else {
			wrong++
		}
		if got := exclusion(t, history); got != want {
			t.Fatalf("seed %d: the judge says %v, the checker %v: %+v", seed, got, want, history)
		}
	}
	if !runtimetest.Race && (right < 100 || wrong < 100) {
		t.Errorf("%d histories are linearizable, %d are not", right, wrong)
	}
}

// The same holds of what switches do, with faults and without, also while frames are lost and clients die.
func TestHistoriesOfSwitchesAreLinearizable(t *testing.T) {
	right, wrong := 0, 0
	for seed := range uint64(wide(60)) {
		s := base(seed)
		one(s)
		s.facts.Lease, s.clients, s.lasts, s.shared = 0, 4, 12*us, 0.6
		if s.every = 2; seed%2 == 1 {
			s.fault = []string{"shares-exclusive", "admits-shared", "grants-next"}[seed/2%3]
		}
		if seed%4 >= 2 {
			s.loss, s.kill, s.timeout = 0.05, 0.02, 10*us
		}
		uses := map[key]*use{}
		s.gap = func(j *Judge, _ int, p *Packet) bool {
			h := &p.Header
			k := key{tid: h.Transaction, client: uint32(p.Port)}
			switch {
			case !p.Lock:
			case p.Stage == trace.Left && p.DstPort == netlock.ReplyPort && uses[k].grant == 0:
				uses[k].grant = p.Time
			case p.Stage == trace.Entered && h.Op == netlock.Acquire && uses[k] == nil:
				uses[k] = &use{client: p.Port, mode: h.Mode, ask: p.Time}
			case p.Stage == trace.Entered && h.Op == netlock.Release && uses[k].released == 0:
				uses[k].released = p.Time
			}
			return false
		}
		r, _ := s.run()
		var history []use
		for _, u := range uses {
			history = append(history, *u)
		}
		want := linearizable(history)
		if want {
			right++
		} else {
			wrong++
		}
		if got := violated(&r)[lock.RuleExclusion] == 0; got != want {
			t.Errorf("seed %d, fault %q: the judge says %v, the checker %v", seed, s.fault, got, want)
		}
	}
	if !runtimetest.Race && (right < 20 || wrong < 5) {
		t.Errorf("%d histories are linearizable, %d are not", right, wrong)
	}
}
