// Package observer follows what each endpoint of a reliable connection may have received and what it may owe, as far as
// a trace shows it. Frames may be lost after the tap of a single capture, and the tap itself may have missed frames.
// For each packet the observer says whether an endpoint that follows the standard can have sent it, how many unseen
// frames that needs at least, and what is wrong if not even those explain it. ADR 17 (docs/internals/adr) says
// why this is a package of its own.
//
// # Sets of states
//
// A [tracker] keeps the set of states that an endpoint may be in after the latest packet that it sent. A state says
// what the endpoint has received, what it owes and what it expects (requester.go, responder.go); it remembers the
// oldest frame towards the endpoint that may still arrive. Between two packets of an endpoint nothing is done. When it
// sends the next one, every way to receive or lose what passed before leads to further states, and those that can send
// the packet are the new set.
//
// A state that has received less, needs fewer unseen frames and is earlier can do all that another one with the same
// contents can, since every frame may be lost behind the tap. Only such states are kept. In ordinary traffic that is
// one, and [tracker] moves it on in constant time.
//
// # Traces that show what arrives
//
// In mirror traces and pairs of captures an endpoint receives every frame that passed, in order, and a requester
// within its host delay: a state is followed by those that receive one more frame, and none may be skipped. After an
// event that changes what arrives, or when, nothing is judged.
//
// # Unseen frames
//
// States that need unseen frames are many and seldom of interest. They are worked out when the set becomes empty: then
// the packets since the anchor, a set some dozen packets back, are followed once more with one and with two unseen
// frames. What remains stays the set. [allowance] bounds the sum of unseen frames by the length of the trace.
//
// # Blindness
//
// An endpoint of which too much is unknown is not judged until its packets show again where it is: after a packet that
// nothing explains, at the begin of a capture that may have begun after the connection, and where the sets become too
// large.
package observer
