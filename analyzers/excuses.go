package analyzers

import "slices"

// An Excuse says that a closer look at a restart leaves room for what other analyzers, which know less of what a response may mean to a
// requester, take for a fault. Run drops the findings that are excused, so that all analyzers judge by the same knowledge.
type Excuse struct {
	Connection int
	Packet     uint64 // ID of the request
	Kind       ExcuseKind
}

// ExcuseKind is what an excuse is about.
type ExcuseKind uint8

// Kinds of excuse.
const (
	// ExcusesInstant: a response may be behind the restart, so that its instant says nothing about the retry timer or an RNR timer.
	ExcusesInstant ExcuseKind = iota + 1
	// ExcusesCount: the retries without progress that certainly count are not more than the limits allow.
	ExcusesCount
)

// excusable are the rules whose findings an excuse takes back.
var excusable = map[string]ExcuseKind{
	"retrans.timeout-early": ExcusesInstant, "retrans.timer-off": ExcusesInstant, "retrans.rnr-early": ExcusesInstant,
	"retrans.retry-exceeded": ExcusesCount, "retrans.rnr-retry-exceeded": ExcusesCount,
}

// Excusable lists those rules, for tests.
func Excusable() []string {
	list := make([]string, 0, len(excusable))
	for rule := range excusable {
		list = append(list, rule)
	}
	slices.Sort(list)
	return list
}

// withoutExcused drops the findings that excuses take back.
func withoutExcused(findings []Finding, excuses []Excuse) []Finding {
	if len(excuses) == 0 {
		return findings
	}
	known := make(map[Excuse]bool, len(excuses))
	for _, e := range excuses {
		known[e] = true
	}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		kind, ok := excusable[f.Rule]
		return ok && len(f.Packets) > 0 && known[Excuse{f.Connection, f.Packets[0], kind}]
	})
}
