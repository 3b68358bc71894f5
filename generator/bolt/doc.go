// Package bolt has the hosts of Bolt (Arslan et al., "Bolt: Sub-RTT Congestion Control for Ultra-Low Latency", NSDI
// 2023), without I/O. Switches answer data with SRC packets, which shrink the window of its sender before the receiver
// has seen the data (section 3.1), and say by the flag INC how often a window may grow (3.2, 3.3).
//
// Sources are the paper and the authors' simulator (github.com/serhatarslan-hub/bolt_cc_ns3): bolt-l4-protocol.cc for
// hosts, pfifo-bolt-queue-disc.cc for switches. What both leave open, or hosts of Pony Express and of the simulator do
// differently, is decided here as follows:
//
//   - Windows are in packets, and a whole part of one counts. Below one packet the next follows after RTT / window.
//   - The RTT is the latest one. Before the first, rates are those of the NIC, as in the simulator.
//   - Every data packet is acknowledged by itself, with the number up to which all have arrived. A packet is lost if a
//     later transmission is acknowledged that many packets after it (`reorder`), or if the timer runs out. Only what is
//     lost is retransmitted; the simulator goes back N.
//   - A loss halves the window, at most once an RTT (MaxMd of the simulator). SRC packets and losses share the time of
//     the last decrease, as there.
//   - Retransmissions have neither FIRST nor LAST nor INC.
//   - A host sends acknowledgements first, then the packets of its flows by turns.
package bolt
