package lock

import (
	"fmt"
	"strings"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/lock"
)

// ChainBugs is a set of seeded bugs of NetChain.
type ChainBugs uint32

// Seeded bugs of NetChain. ChainTable has their names, and the rule that each breaks.
const (
	ChainGrantsHeld ChainBugs = 1 << iota
	ChainGrantsShared
	ChainFreesTooMuch
	ChainExpiresEarly
	ChainAnswersTwice
	ChainLosesRequests
	ChainRejectsFree
	ChainRejectsOwner
	ChainForgetsRelease
	ChainReleasesForAnybody
	ChainAsksServer
	ChainAliases
	ChainAnswersLate
	ChainNeverExpires
	ChainGrantsBeforeLease
)

// often is how many occasions there are for each that such a bug uses.
const often = 20

// Has reports whether a bug is in the set.
func (b ChainBugs) Has(bug ChainBugs) bool { return b&bug != 0 }

// ChainBug describes a seeded bug of NetChain.
type ChainBug struct {
	parameter.Bug
	Set ChainBugs // that has no other
}

// ChainTable returns all seeded bugs of NetChain.
func ChainTable() []ChainBug {
	of := func(bug ChainBugs, name, rule, doc string) ChainBug {
		return ChainBug{parameter.Bug{Name: name, Rule: rule, Doc: doc}, bug}
	}
	return []ChainBug{
		of(ChainGrantsHeld, "grants-held", lock.RuleChainExclusion, "Every 20th request for a held lock is granted."),
		of(ChainGrantsShared, "grants-shared", lock.RuleChainExclusion,
			"A shared request for a lock that is held for a shared request is granted."),
		of(ChainFreesTooMuch, "frees-too-much", lock.RuleChainExclusion,
			"The release of one lock id frees the lock, also if its owner uses other ids of it."),
		of(ChainExpiresEarly, "expires-early", lock.RuleChainExclusion, "Leases end after half their time."),
		of(ChainAnswersTwice, "answers-twice", lock.RuleChainOnce, "Every 50th answer is sent twice."),
		of(ChainLosesRequests, "loses-requests", lock.RuleChainLost, "Every 50th request gets no answer."),
		of(ChainRejectsFree, "rejects-free", lock.RuleChainRejection, "Every 20th request for a free lock is rejected."),
		of(ChainRejectsOwner, "rejects-owner", lock.RuleChainRejection,
			"A request of the owner for a lock id that it has is rejected."),
		of(ChainForgetsRelease, "forgets-release", lock.RuleChainRelease, "Every 20th release frees no lock."),
		of(ChainReleasesForAnybody, "releases-for-anybody", lock.RuleChainOwner,
			"A release frees the lock, whoever owns it."),
		of(ChainAsksServer, "asks-server", lock.RuleChainPlacement,
			"Every 20th request for a held lock is sent to the lock server."),
		of(ChainAliases, "aliases", lock.RuleChainPlacement, "Lock ids that are too large are taken for others."),
		of(ChainAnswersLate, "answers-late", lock.RuleChainDelay, "Every 50th answer is 5 us late."),
		of(ChainNeverExpires, "never-expires", lock.RuleChainLease, "Leases do not end."),
		of(ChainGrantsBeforeLease, "grants-before-lease", lock.RuleChainFailover,
			"A switch that has lost its registers grants before the leases of holders have ended."),
	}
}

// ParseChainBugs returns the bugs of names.
func ParseChainBugs(names ...string) (set ChainBugs, err error) {
	var known []string
	bugs := make(map[string]ChainBugs)
	for _, b := range ChainTable() {
		known = append(known, b.Name)
		bugs[b.Name] = b.Set
	}
	for _, name := range names {
		bug, ok := bugs[name]
		if !ok {
			return 0, fmt.Errorf("bug %q: want another of %s", name, strings.Join(known, ", "))
		}
		set |= bug
	}
	return set, nil
}
