// Package pfabric has the hosts of pFabric (Alizadeh et al., SIGCOMM 2013), without I/O: flows start with a window of a
// bandwidth-delay product, every packet is acknowledged by itself, only a fixed timeout detects losses, and after
// several timeouts in a row a sender probes with tiny packets. Switches do the rest: they serve and drop by rank.
//
// What the paper leaves open is decided here as follows. The window is in slow start below its threshold and grows by
// one packet a round trip above it; the threshold begins at the initial window, and is never below two packets. The
// timer runs while packets or a probe are in flight; each new acknowledgement restarts it. A timeout counts all that is
// in flight as lost. In probe mode a probe is sent at each timeout, and any acknowledgement ends the mode. A host sends
// acknowledgements first, then the packet of the lowest rank.
package pfabric
