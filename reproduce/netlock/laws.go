package netlock

import (
	"context"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/testbeds/switches/lock"
)

// Capacity is the law S/T: how many requests a second a switch with so many slots grants at most, if each is held and
// waits for a time on average (section 12, R17). A request keeps its slot until it is released.
func Capacity(slots int, each clock.Duration) float64 { return float64(slots) / seconds(each) }

// Cycle is T_cyc: from a grant that leaves the switch, over its client, which has the lock for a time, to the next
// grant of the same exclusive lock. It has none of the waiting for links and client cores.
type Cycle struct {
	Host    clock.Duration // from the NIC to the client, and from the client to the NIC: of both ways together
	Link    clock.Duration // propagation and transmission, of both ways together
	Switch  clock.Duration // pipeline and the pass that finds whom to grant
	Holding clock.Duration
}

// Time is the length of the cycle.
func (c Cycle) Time() clock.Duration { return c.Host + c.Link + c.Switch + c.Holding }

// MostOfLock is what one exclusive lock is granted each second at most: 1/(RTT + think).
func (c Cycle) MostOfLock() float64 { return 1 / seconds(c.Time()) }

// Throughput is R3's law: min(G, L/T_cyc), of clients that ask for G locks a second and L exclusive locks, each of
// which always has somebody waiting.
func Throughput(clients float64, locks int, c Cycle) float64 {
	return min(clients, float64(locks)*c.MostOfLock())
}

// frame is what a packet of the lock manager takes on a link: 62 bytes, FCS, preamble and gap (section 3).
const frame = 62 + 4 + 20

// cycleOf returns the cycle of a test whose clients keep locks for a time.
func cycleOf(t *config.SwitchTest, holding clock.Duration) Cycle {
	host, device := t.Hosts.Values, t.Switch.Values
	return Cycle{
		Host:   2*host.Duration("host-delay-ns") + host.Duration("host-jitter-ns"), // half of it each way
		Link:   2 * (t.Topology.Link.Delay + t.Topology.Link.Rate.Serialise(frame)),
		Switch: device.Duration("latency-ns") + device.Duration("recirculation-ns"), Holding: holding,
	}
}

// laws compares what follows without a run: R17 and R18.
func laws(_ context.Context, l *lab) error {
	const id = "LAW"
	l.Row(law, comparison.NewRow(id, "R17, analytic: 100,000 slots for 20 us", "GRPS", 5, 5, 0,
		Capacity(100_000, 20*clock.Microsecond)/1e9))
	l.Row(law, comparison.NewRow(id, "R17, analytic: 1,000,000 slots for 1 ms", "GRPS", 1, 1, 0,
		Capacity(1_000_000, clock.Millisecond)/1e9))
	demands := []lock.Demand{{Lock: 1, Requests: 200, Contention: 2}, {Lock: 2, Requests: 10, Contention: 1}}
	one := lock.Allocation{1: 1, 2: 1}
	l.Row(law, comparison.NewRow(id, "R18, analytic: figure 2-7, a slot for each lock", "requests/s", 110, 110, 0,
		one.Served(demands)))
	l.Row(law, comparison.NewRow(id, "R18, analytic: figure 2-7, two slots by the knapsack", "requests/s", 200, 200, 0,
		lock.Greedy(demands, 2).Served(demands)))
	return nil
}
