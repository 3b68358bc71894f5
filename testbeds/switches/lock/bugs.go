package lock

import (
	"fmt"
	"strings"
)

// Bugs is a set of seeded bugs.
type Bugs uint64

// Seeded bugs. Table has their names, and the rule of section 10 that each breaks.
const (
	SharedBesideExclusive Bugs = 1 << iota
	IgnoresTID
	GrantsWhileTaking
	ForgetsOwner
	LeavesHolders
	NoDedup
	GrantsTwice
	DoublePushBack
	LosesTail
	ForgetsOver
	ChainSkipsOne
	ChainStops
	NeverRepeats
	KeepsBuffer
	NewestFirst
	OvertakesExclusive
	OverflowOvertakes
	PushWhileBusy
	PriorityIgnored
	LowestFirst
	BuffersEarly
	Aliases
	QuotaOffByOne
	QuotaShared
	NeverExpires
	ExpiresEarly
	ExpiresAnother
	GrantsBeforeLease
	ServerGrantsEarly
	AllocatesByRate
	MovesSilently
	ForgetsBackup
	KeepsYielded
	KeepsServing
	KeepsGranting
	QueuesQuery
	LosesQuery
	AnswersBoth
	GrantsAsShared
	ForgetsWaiting
	TellsOnce
	KeepsReleases
	CountsNoLosses
	ServerForgetsQueue
	ServerOneByOne
	ServerNoDedup
	ServerCountsCopies
	UsesRemoved
	KeepsExclusive
	ForwardsTwice
	OtherDatabase
	AsksForFewer
	ServerBuffersCopies
)

const (
	// aliases is how many lock ids Aliases tells apart.
	aliases = 2
	// seldom is how many grants GrantsTwice has for each that it makes twice.
	seldom = 50
)

// ofServers are the bugs of lock servers.
const ofServers = KeepsBuffer | ServerGrantsEarly | KeepsGranting | ServerForgetsQueue | ServerOneByOne |
	ServerNoDedup | ServerCountsCopies | ServerBuffersCopies

// Has reports whether a bug is in the set.
func (b Bugs) Has(bug Bugs) bool { return b&bug != 0 }

// Bug describes a seeded bug.
type Bug struct {
	Bug  Bugs
	Name string
	Rule string // of section 10: N1 to N15, or a section
	Doc  string
}

// Table returns all seeded bugs.
func Table() []Bug {
	return []Bug{
		{SharedBesideExclusive, "grants-shared-beside-exclusive", "N1",
			"Shared requests that arrive are granted at once, whoever holds the lock."},
		{IgnoresTID, "ignores-tid", "N1", "A release removes the oldest entry, also if its transaction holds nothing."},
		{GrantsWhileTaking, "grants-while-taking", "N1",
			"A lock that moves to the switch is granted while its former owner has holders."},
		{ForgetsOwner, "forgets-owner", "N1", "A lock that moves to the switch is served without its former owner's answer."},
		{LeavesHolders, "leaves-holders", "N1", "A lock moves to the server while it has holders in the switch."},
		{NoDedup, "no-dedup", "N2", "Requests that are already queued are queued again."},
		{GrantsTwice, "grants-twice", "N2", "Every 50th grant is sent twice."},
		{DoublePushBack, "double-push-back", "N2", "A request that the server pushes back twice is queued twice."},
		{LosesTail, "loses-tail", "N3", "A request that would take the last slot of a queue is not queued."},
		{ForgetsOver, "forgets-over", "N3", "The switch does not count the requests that the server buffers."},
		{ChainSkipsOne, "chain-skips-one", "N3", "A chain of grants leaves out every second request."},
		{ChainStops, "chain-stops", "N7", "A chain of grants ends after its first one."},
		{NeverRepeats, "never-repeats", "N3", "A push request that was lost is not repeated."},
		{KeepsBuffer, "keeps-buffer", "N13", "A server keeps what it buffers when the switch has lost its registers."},
		{NewestFirst, "newest-first", "N4", "After an exclusive release the newest request is next."},
		{OvertakesExclusive, "overtakes-exclusive", "N4",
			"Shared requests are granted beside shared holders while exclusive ones wait."},
		{OverflowOvertakes, "overflow-overtakes", "N5",
			"New requests get free slots while the server buffers older ones."},
		{PushWhileBusy, "push-while-busy", "N5", "The switch asks for buffered requests as soon as a slot is free."},
		{PriorityIgnored, "priority-ignored", "N6", "All requests have the lowest priority."},
		{LowestFirst, "lowest-first", "N6", "After a release the lowest priority is served first."},
		{BuffersEarly, "buffers-early", "N9", "Requests are buffered while one slot is free."},
		{Aliases, "aliases", "N10", "Lock ids that are not installed are taken for installed ones with the same lowest bit."},
		{QuotaOffByOne, "quota-off-by-one", "N11", "A tenant gets one request more than its quota."},
		{QuotaShared, "quota-shared", "N11", "Two tenants share a counter, which ends the quota of both early."},
		{NeverExpires, "never-expires", "N12", "Leases do not end."},
		{ExpiresEarly, "expires-early", "N1", "Leases end after half their time."},
		{ExpiresAnother, "expires-another", "N1", "When a lease ends, the oldest entry is removed instead of its own."},
		{GrantsBeforeLease, "grants-before-lease", "N13",
			"A switch that has lost its registers grants before the leases of holders have ended."},
		{ServerGrantsEarly, "server-grants-early", "N13",
			"A server that replaces a failed one grants before the leases of holders have ended."},
		{ForgetsBackup, "forgets-backup", "N13",
			"A switch that returns grants locks whose queues at the backup are not empty."},
		{KeepsYielded, "keeps-yielded", "N13",
			"A backup says at once that its queue is empty, and goes on to grant what waits in it."},
		{QueuesQuery, "queues-query", "5.3",
			"What the database is asked is queued with a request that waits, whose grant goes there."},
		{LosesQuery, "loses-query", "5.3",
			"What the database is asked is dropped also of requests that are granted at once."},
		{AnswersBoth, "answers-both", "N2", "A grant that goes to the database goes to the client, too."},
		{GrantsAsShared, "grants-as-shared", "N2", "Grants of exclusive locks say that they are shared."},
		{ForgetsWaiting, "forgets-waiting", "N3",
			"A lock that has come to the switch is not granted to those who have waited for it meanwhile."},
		{TellsOnce, "tells-once", "N3", "What the switch tells a server about the move of a lock is not repeated."},
		{AllocatesByRate, "allocates-by-rate", "N14", "Slots go to the locks that are asked for most, whatever they need."},
		{MovesSilently, "moves-silently", "N4",
			"While a lock moves to the switch, only PUSH_REQ, which may be lost, tells the server to buffer."},
		{UsesRemoved, "uses-removed", "N3",
			"The switch finds locks that it has given to the server by a number that it remembers, and queues requests there."},
		{KeepsExclusive, "keeps-exclusive", "N3",
			"With priorities, a lock stays exclusive when its holder was the last request of a queue."},
		{ForwardsTwice, "forwards-twice", "N2", "Requests to be buffered are sent twice."},
		{OtherDatabase, "other-database", "5.3", "Grants go to the database of the next lock."},
		{KeepsServing, "keeps-serving", "N10", "The switch goes on to serve a lock that it has given to the server."},
		{KeepsReleases, "keeps-releases", "N3", "While a lock moves, releases of what the server has granted are dropped."},
		{CountsNoLosses, "counts-no-losses", "N9",
			"The switch does not learn from answers of servers how many requests to be buffered were lost."},
		{ServerForgetsQueue, "server-forgets-queue", "N3",
			"When a hold ends, the server forgets who else has the lock and who waits."},
		{ServerOneByOne, "server-one-by-one", "N7",
			"Whatever happens to a lock, the server grants at most one request of it."},
		{ServerNoDedup, "server-no-dedup", "N2", "Servers queue requests that are already queued again."},
		{ServerCountsCopies, "server-counts-copies", "N3",
			"Servers count requests that they do not buffer, as they have them already, as received."},
		{AsksForFewer, "asks-for-fewer", "N9", "The switch asks for one request less than there are slots."},
		{ServerBuffersCopies, "server-buffers-copies", "N2", "Servers buffer requests that they have already again."},
		{KeepsGranting, "keeps-granting", "N10", "A server goes on to grant a lock that it has given to the switch."},
	}
}

// ParseBugs returns the bugs of names.
func ParseBugs(names ...string) (set Bugs, err error) {
	known := make([]string, 0, len(Table()))
	for _, b := range Table() {
		known = append(known, b.Name)
	}
	for _, name := range names {
		before := set
		for _, b := range Table() {
			if b.Name == name {
				set |= b.Bug
			}
		}
		if set == before {
			return 0, fmt.Errorf("bug %q: want another of %s", name, strings.Join(known, ", "))
		}
	}
	return set, nil
}
