package workload

import (
	"math/rand/v2"
	"slices"

	"candela.dev/candela/generator/parameter"
)

// Cardinalities of TPC-C (revision 5.11, clause 1.2) and the share of rows of other warehouses (clauses 2.4.1.5 and
// 2.5.1.2).
const (
	districts     = 10
	customers     = 3000
	items         = 100_000
	remoteItem    = 0.01
	remotePayment = 0.15
)

// LocksOfWarehouse is how many locks a warehouse has: row locks of all tables (reference model netlock.md, section 11).
const LocksOfWarehouse = 700_000

// Places of tables among the locks of a warehouse. Rows of orders are those of the district's latest ones.
const (
	rowWarehouse = 0
	rowDistrict  = rowWarehouse + 1
	rowCustomer  = rowDistrict + districts
	rowStock     = rowCustomer + districts*customers
	rowOrder     = rowStock + items
	rowNewOrder  = rowOrder + districts*customers
)

func tpcc() Kind {
	return Kind{
		Model: parameter.Model{Name: "tpcc",
			Doc: "Threads of clients that run the transactions of TPC-C, of which only the row locks are taken. Lock i of " +
				"warehouse w has the number w times 700000 plus i; a transaction has 9 locks on average.",
			Parameters: append(threadParameters(),
				parameter.Parameter{Name: "warehouses", Kind: parameter.Integer, Default: "10", Min: 1, Max: 4096,
					Doc: "Warehouses in all."})},
		For: Locking, Transport: "netlock", Counts: []string{"count"}, Sample: "clients: 0, servers: 1, count: 10",
		Check: func(v parameter.Values, hosts int) (int, []Problem) { return checkThreads(v, hosts) },
		Flows: func(v parameter.Values, in Scope) []Flow {
			return threads(v, in, func(p place) Draws { return &tpccDraws{p, v.Int("warehouses")} })
		},
		Single: onlyThread("tpcc"),
	}
}

// tpccDraws is what transactions of TPC-C take.
type tpccDraws struct {
	place
	warehouses int
}

// New implements Draws.
func (d *tpccDraws) New() func([]Lock) []Lock {
	t := &terminal{rng: d.rand(), warehouses: d.warehouses}
	if d.merge == 1 {
		return t.transaction
	}
	return func(buf []Lock) []Lock { return merged(t.transaction(buf), d.coarse) }
}

// coarse returns the number of a coarse lock: of the first of so many neighbouring rows of a table.
func (d *tpccDraws) coarse(id uint32) uint32 {
	row := id % LocksOfWarehouse
	for _, first := range [...]uint32{rowNewOrder, rowOrder, rowStock, rowCustomer} {
		if row >= first {
			return id - (row-first)%uint32(d.merge)
		}
	}
	return id
}

// terminal draws transactions.
type terminal struct {
	rng        *rand.Rand
	warehouses int
	locks      []Lock
}

// transaction draws one: the mix of section 11, the least shares of clause 5.2.3 with what remains for New-Order.
func (t *terminal) transaction(buf []Lock) []Lock {
	const newOrder, payment, orderStatus, delivery = 45, 88, 92, 96
	t.locks = buf
	home := t.rng.IntN(t.warehouses)
	switch n := t.rng.IntN(100); {
	case n < newOrder:
		t.newOrder(home)
	case n < payment:
		t.payment(home)
	case n < orderStatus:
		t.orderStatus(home)
	case n < delivery:
		t.delivery(home)
	default:
		t.stockLevel(home)
	}
	return t.locks
}

// take adds a row; one that is added again is exclusive if it was once.
func (t *terminal) take(warehouse, row int, exclusive bool) {
	id := uint32(warehouse*LocksOfWarehouse + row)
	if i := slices.IndexFunc(t.locks, func(l Lock) bool { return l.ID == id }); i >= 0 {
		t.locks[i].Exclusive = t.locks[i].Exclusive || exclusive
		return
	}
	t.locks = append(t.locks, Lock{id, exclusive})
}

// skewed is NURand (clause 2.1.6) of 0 to n-1, with the constant C of 0.
func (t *terminal) skewed(a, n int) int { return (t.rng.IntN(a+1) | t.rng.IntN(n)) % n }

func (t *terminal) customer() int {
	const a = 1023
	return t.skewed(a, customers)
}

func (t *terminal) item() int {
	const a = 8191
	return t.skewed(a, items)
}

// elsewhere returns a warehouse, with a probability another one.
func (t *terminal) elsewhere(home int, probability float64) int {
	if t.warehouses == 1 || t.rng.Float64() >= probability {
		return home
	}
	return (home + 1 + t.rng.IntN(t.warehouses-1)) % t.warehouses
}

func (t *terminal) newOrder(home int) {
	const least, spread = 5, 11
	district := t.rng.IntN(districts)
	t.take(home, rowWarehouse, false)
	t.take(home, rowDistrict+district, true)
	t.take(home, rowCustomer+district*customers+t.customer(), false)
	for range least + t.rng.IntN(spread) {
		t.take(t.elsewhere(home, remoteItem), rowStock+t.item(), true)
	}
}

func (t *terminal) payment(home int) {
	district := t.rng.IntN(districts)
	t.take(home, rowWarehouse, true)
	t.take(home, rowDistrict+district, true)
	t.take(t.elsewhere(home, remotePayment), rowCustomer+t.rng.IntN(districts)*customers+t.customer(), true)
}

func (t *terminal) orderStatus(home int) {
	district, customer := t.rng.IntN(districts), t.customer()
	t.take(home, rowCustomer+district*customers+customer, false)
	t.take(home, rowOrder+district*customers+customer, false)
}

func (t *terminal) delivery(home int) {
	for district := range districts {
		customer := t.rng.IntN(customers)
		t.take(home, rowNewOrder+district*customers+customer, true)
		t.take(home, rowOrder+district*customers+customer, true)
		t.take(home, rowCustomer+district*customers+customer, true)
	}
}

func (t *terminal) stockLevel(home int) {
	const recent = 20
	t.take(home, rowDistrict+t.rng.IntN(districts), false)
	for range recent {
		t.take(home, rowStock+t.item(), false)
	}
}
