// Package ndp checks NDP from the outside: what hosts do, and whether the network delivers every packet whole or its
// header to one end.
//
// The observer is at the first switch of each host. What passes towards a host at t reaches it later, at most
// Config.RoundTrip before the host's reaction passes back; links are FIFO. So a host certainly knows what passed
// towards it longer ago than that, may know what has passed since, and cannot know what has not passed. A rule is
// violated only if no state in between explains what the host sent: packets that cross in flight are not a fault.
package ndp
