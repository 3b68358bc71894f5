package rounds

// txEntry is the latest transmission of one packet.
type txEntry struct {
	ns    int64
	psn   uint32 // low bits of the place plus one, to recognise stale entries; 0: empty
	tries uint8
	lost  bool
	timer bool
}

// txLog keeps the latest transmission of each packet that may be retransmitted: a ring indexed by place, which grows
// with what is in flight up to maxInFlight. Older packets are dropped and get no latencies.
type txLog struct {
	ring []txEntry
	puts int
}

const (
	// fewInFlight is the initial length of a ring: an idle connection takes little memory. Up to minInFlight a ring grows
	// rather than drop a packet.
	fewInFlight = 4
	minInFlight = 64
	maxInFlight = 1 << 16
	// placesPerPut bounds the ring by the packets seen, so that a few arbitrary PSNs on each of many connections cannot
	// take much memory. A READ request takes as many places as response packets.
	placesPerPut = 1024
)

func tag(place int64) uint32 { return uint32(place&(1<<30-1)) + 1 }

// put remembers a transmission of place; oldest is the first place that still matters.
func (l *txLog) put(place, oldest int64, e txEntry) {
	l.puts++
	if n := max(place-oldest, 0) + 1; n > int64(len(l.ring)) && len(l.ring) < min(maxInFlight, l.puts*placesPerPut) {
		l.grow(n)
	}
	e.psn = tag(place)
	slot := &l.ring[place&int64(len(l.ring)-1)]
	for len(l.ring) < minInFlight && slot.psn != 0 && slot.psn != e.psn { // a long ring is written to without being read
		l.grow(int64(2 * len(l.ring)))
		slot = &l.ring[place&int64(len(l.ring)-1)]
	}
	*slot = e
}

// grow makes room for n places. Entries keep their place modulo the new size, which their tag identifies.
func (l *txLog) grow(n int64) {
	size := max(fewInFlight, 2*len(l.ring))
	for int64(size) < n && size < min(maxInFlight, l.puts*placesPerPut) {
		size *= 2
	}
	ring := make([]txEntry, size)
	for _, e := range l.ring {
		if e.psn != 0 {
			ring[(e.psn-1)&uint32(size-1)] = e
		}
	}
	l.ring = ring
}

// get returns the latest transmission of place, if it is remembered.
func (l *txLog) get(place int64) Transmission {
	if len(l.ring) == 0 {
		return Transmission{}
	}
	e := &l.ring[place&int64(len(l.ring)-1)]
	if e.psn != tag(place) {
		return Transmission{}
	}
	return Transmission{NS: e.ns, Known: true, Lost: e.lost, Tries: e.tries, timer: e.timer}
}
