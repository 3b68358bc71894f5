// Package ndp is the end host of NDP, a receiver-driven transport for networks whose switches trim (Handley et al.,
// SIGCOMM 2017; shared specification "trimming", section 5), as a core without I/O: time is an argument and packets are
// handed in and taken out, so that a simulator, a live host and a fuzzer drive the same code.
//
// A Host is one NIC with all its senders and receivers. A sender starts with a window of packets at line rate and then
// sends one packet for each PULL: what was NACKed or returned first, lowest number first, then new data. A receiver
// answers a whole packet with an ACK and a trimmed header with a NACK, and either one with one PULL; the PULLs of all
// connections to the host leave through one pacer, a packet time apart, connections taking turns.
package ndp
