// Package gbn judges Go-back-N on every reliable connection of a trace: does the requester send, retransmit and stop,
// and does the responder acknowledge, NACK and answer, as IBTA volume 1, chapter 9 and Lumina's finite state machines
// require?
//
// # The observer
//
// The trace was taken at a switch between the two endpoints, not inside either. Each direction is FIFO. A record that
// is trace.Sent proves what its sender did before that time. A record that is trace.Passed and was delivered bounds
// what its receiver may know some time after it. So X sent a packet after it had received some prefix of what had
// passed towards X, and the trace does not show which: an ACK and a timeout cross, new data leaves just before a NACK
// arrives, an acknowledgement reflects an old state.
//
// For each endpoint the analyzer therefore keeps an interval of prefixes. The most is everything that has passed. The
// least is what the endpoint's own packets prove that it has received. A packet is a violation only if no prefix in the
// interval explains it; otherwise the least becomes the smallest prefix that does. The smallest is the safest choice:
// the true prefix is the smallest or a longer one, and explanations of later packets need the true prefix or a longer
// one. What lies before the least is folded into state and discarded, so memory is bounded by what is in flight.
//
// For a requester (interval.go) a prefix matters through one number, the oldest unacknowledged PSN after it, which only
// jumps show. A requester that never jumps shows nothing; there time bounds the interval: it knows what passed towards
// it more than two host delays ago ([Config].HostDelayNS, or a generous assumption). For a responder (arrivals.go) a
// prefix is its Go-back-N state: expected PSN, whether a NAK was sent, MSN. Its responses are in the order of its
// requests, so each response folds the requests that it proves answered. Responses that were due for these and were not
// sent are missing.
//
// # What is not exact
//
// A responder may send an RNR NAK at any time: later requests are then judged again. A plain capture does not show
// losses after its tap and may lack packets; an event that delays, reorders or duplicates hides what was delivered.
// There uncertain.go judges what holds whatever was delivered, and gaps are notes.
//
// # Tables
//
// The machines in fsm.go are tables: state × input → state, or a violated rule. requester.go and responder.go determine
// the input of a packet. Coverage counts the legal edges over all connections. The rules are in rules.go, each with
// clause and statement.
package gbn
