// Package observer follows what each endpoint of a reliable connection may have received and what it may owe, as far as
// a trace shows it. Frames may be lost after the tap of a single capture, and the tap may have missed frames. For each
// packet the observer decides whether an endpoint that follows the standard can have sent it, how many unseen frames
// that needs at least, and which rule is broken if even those do not explain it. ADR 17 (docs/internals/adr) explains
// why this is a package.
//
// # Sets of states
//
// A [tracker] keeps the set of states that an endpoint may be in after the latest packet that it sent. A state holds
// what the endpoint has received, owes and expects (requester.go, responder.go), and the oldest frame that may still
// arrive. Between two packets of an endpoint nothing is computed. When the endpoint sends the next packet, each way to
// receive or lose the frames since then leads to further states. Those that can send the packet are the new set.
//
// Of two states with the same contents, one that has received less, needs fewer unseen frames and is earlier can do all
// that the other can, since every frame may be lost after the tap. Only such states are kept. In ordinary traffic there
// is one, and [tracker] advances it in constant time.
//
// # Traces that show what arrives
//
// In mirror traces and pairs of captures an endpoint receives every frame that passed, in order, and a requester
// receives it within its host delay. A state then leads to those that received one more frame, and no frame may be
// skipped. After an event that changes what arrives, or when, nothing is judged.
//
// # Unseen frames
//
// States that need unseen frames are many and rarely needed. They are computed when the set becomes empty: the packets
// since the anchor, a set some dozen packets before, are followed once more with one and then with two unseen frames.
// The result becomes the set. [allowance] bounds the sum of unseen frames by the length of the trace.
//
// # Blindness
//
// An endpoint is not judged while too much about it is unknown: after a packet that nothing explains, at the start of a
// capture that may have begun after the connection, and where the sets become too large. It is judged again when its
// packets show its state.
package observer
