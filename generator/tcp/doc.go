// Package tcp is a small TCP: data transfer of RFC 9293 without I/O. In switch tests it competes with trimming
// transports: it is window-based, loss slows it down, and large queues help it.
//
// It has
//
//   - slow start, congestion avoidance and an initial window of ten (RFC 5681, RFC 6928),
//   - CUBIC or Reno (RFC 9438, RFC 5681), with congestion windows in segments, as in Linux, or Swift (SIGCOMM 2020),
//   - loss detection and recovery by SACK (RFC 2018, RFC 6675),
//   - NewReno with limited transmit (RFC 6582, RFC 3042), loss detection by packet, or none but the timeout instead,
//   - a handshake and a limit of retries, if configured,
//   - detection of lost retransmissions after three later deliveries (as RFC 8985, but counted in packets, not time),
//   - Karn's algorithm and the timer of RFC 6298 with Linux's minimum of 200 ms,
//   - delayed ACKs after initial quick ACKs,
//   - ECN (RFC 3168) and DCTCP (RFC 8257), given as negotiated,
//   - flow control with a window that is always open.
//
// It omits features that do not change how a switch's queue fills:
//
//   - Connections never close. Without a handshake they are set up out of band, with a sequence number given to both
//     ends, and their timer starts at its minimum unless configured.
//   - A SYN that was retransmitted leaves the initial timeout as it is (RFC 6298, 5.7 sets it to 3 s).
//   - It has no urgent data, Nagle, F-RTO and HyStart.
//   - It has no tail loss probe: for a lone segment, Linux's comes no earlier than the timeout.
//   - An ACK carries one SACK block, that of the segment that caused it. The further blocks of RFC 2018 protect against
//     lost ACKs.
//   - A retransmission has the bounds of the original segment.
//   - A trimmed segment is dropped, because its checksum is wrong.
package tcp
