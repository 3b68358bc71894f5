// Package gbn judges Go-back-N on every reliable connection of a trace: does the requester send, resend and stop, and
// does the responder acknowledge, NACK and answer, exactly as IBTA volume 1, chapter 9 and Lumina's finite state
// machines say?
//
// # The observer
//
// The trace was taken at a switch between the two endpoints, not inside either. Each direction is FIFO. A record that
// is trace.Sent proves what its sender did, before that instant. A record that trace.Passed and was delivered bounds
// what its receiver may know, some time after that instant. So a packet seen from X was sent when X had received some
// prefix of what had passed towards X before, and nobody can say which: an ACK and a timeout cross, new data leaves
// behind a NACK's back, an acknowledgement reflects a state of long ago.
//
// For each endpoint the analyzer therefore keeps an interval of prefixes. The most is everything that has passed. The
// least is what the endpoint's own packets prove that it has received. An emission is a violation only if no prefix in
// the interval explains it; otherwise the least is raised to the smallest prefix that does. The smallest is the choice
// that commits least: explanations of later packets must lie at or behind the true prefix, which itself lies at or
// behind the smallest. What lies before the least is folded into state and discarded, so memory is bounded by what is
// in flight.
//
// For a requester (interval.go) a prefix matters through one number, the oldest unacknowledged PSN after it, and only
// jumps show it. A requester that never jumps shows nothing; there time bounds the interval: what passed towards it
// more than two host delays ago ([Config].HostDelayNS, or a generous assumption) is known to it. For a responder
// (arrivals.go) a prefix is its Go-back-N state: expected PSN, whether a NAK is out, MSN. Its responses keep the order
// of its requests, so each response folds the requests that it proves answered, and what those were owed and did not
// get is missing.
//
// # What is not exact
//
// An RNR NAK is the responder's free choice: requests behind it are judged anew when it is seen. A plain capture shows
// no losses behind its tap and may lack packets itself; an event that delays, reorders or duplicates hides what was
// delivered. There uncertain.go judges what holds whatever was delivered, and gaps are notes.
//
// # Tables
//
// The machines in fsm.go are declared as tables: state × input → state, or a violated rule. Requester.go and
// responder.go work out which input an observation amounts to. Coverage counts the legal edges over all connections.
// The rules are in rules.go, each with clause and statement.
package gbn
