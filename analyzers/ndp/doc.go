// Package ndp checks NDP from the outside: what hosts do, and whether the network keeps its promise that every packet
// is delivered whole or its header reaches an end.
//
// The observer stands at the first switch of each host. What passes towards a host at t reaches it later, at most
// Config.RoundTrip before the host's reaction passes back; links are FIFOs. So a host certainly knows what passed
// towards it longer than that ago, perhaps knows what passed since, and cannot know what has not passed yet. A rule is
// violated only if no state of knowledge in between explains what the host sent: packets that cross on the wire are
// nobody's fault.
package ndp
