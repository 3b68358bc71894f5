// Package pfabric has the hosts of pFabric (Alizadeh et al., SIGCOMM 2013), without I/O: flows start with a window of a
// bandwidth-delay product, every packet is acknowledged by itself, only a fixed timeout detects losses, and after
// several timeouts in a row a sender probes with tiny packets. Switches do the rest: they serve and drop by rank.
//
// What the paper leaves open is decided here as follows. The window is in slow start below its threshold; above it each
// acknowledgement adds 1/window, as in ns-2. The threshold begins at the initial window, as in the artefact of AIFO;
// the simulator of pHost's authors begins in slow start and limits the window instead. A timeout counts all that is in
// flight as lost, sets the threshold to half the window, at least two packets, and the window to one. The timer runs
// while packets or a probe are in flight; each new acknowledgement restarts it. In probe mode a probe is sent at each
// timeout, and any acknowledgement ends the mode. A rank is what remains of the flow from the packet on, as in AIFO;
// pHost's simulator takes what is unacknowledged as the packet is sent. A host sends acknowledgements first, then the
// packet of the lowest rank.
//
// The defaults fit a round trip of 14.6 us at 10 Gb/s: 12 packets are its bandwidth-delay product, 45 us three of it.
// Probes after 5 timeouts are also the setting of ns-2 scripts that others have published.
package pfabric
