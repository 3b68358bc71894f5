// Package tcp is a small TCP: the protocol machine of RFC 9293's data transfer, without I/O. It exists so that tests of
// switches have the ordinary competitor of trimming transports: window-based, slowed down by loss, helped by large
// queues.
//
// It has slow start, congestion avoidance and an initial window of ten (RFC 5681, RFC 6928), CUBIC or Reno (RFC 9438,
// RFC 5681), loss detection and recovery by SACK (RFC 2018, RFC 6675), detection of lost retransmissions after three
// later deliveries (the idea of RFC 8985, counted in packets instead of time), Karn's algorithm and the timer of RFC
// 6298 with Linux's minimum of 200 ms, delayed ACKs that begin with quick ones, and flow control with a window that is
// always open. Congestion windows count segments, as Linux does.
//
// It leaves out what does not change how a switch's queue fills: connections are made out of band and are established
// from the start, at a sequence number that both ends were given, and their timer begins at its minimum; they never
// close. There is no urgent data, no Nagle, no ECN, no tail loss probe (for a lone segment Linux's comes no earlier
// than the timeout), no F-RTO and no HyStart. An ACK carries one SACK block, that of the segment that caused it; the
// further ones of RFC 2018 are insurance against lost ACKs. A segment is retransmitted with the bounds that it was sent
// with first. A trimmed segment is a damaged one: dropped, as a checksum would have it.
package tcp
