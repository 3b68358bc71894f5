// Package ndp is the end host of NDP, a receiver-driven transport for networks with trimming switches (Handley et al.,
// SIGCOMM 2017; shared specification "trimming", section 5). It is a core without I/O: the caller brings time and
// packets, so that a simulator, a live host and a fuzzer run the same code.
//
// A Host is one NIC with all its senders and receivers. A sender starts with a window of packets at line rate and then
// sends one packet for each PULL: first NACKed or returned packets, lowest number first, then new data. A receiver
// answers a whole packet with an ACK, a trimmed header with a NACK, and each of them with one PULL. One pacer sends the
// PULLs of all connections to the host, one per packet time, round-robin.
package ndp
