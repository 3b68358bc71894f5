package trace

// rememberedFrames is how many frames of the second capture are remembered, to recognise copies of them.
const rememberedFrames = 1 << 12

// passedFrames remembers the latest frames that both captures hold, where IPv4 identifications distinguish frames. A
// later frame with the same content and identification is a copy that was made between the taps: no host sent it.
type passedFrames struct {
	seen map[passedFrame]int // how often it is in the ring
	ring []passedFrame
	next int
}

type passedFrame struct {
	class
	ipID uint16
}

func (f *passedFrames) add(o *observation) {
	if f.seen == nil {
		f.seen = make(map[passedFrame]int)
	}
	key := passedFrame{classOf(o), o.ipID}
	if len(f.ring) < rememberedFrames {
		f.ring = append(f.ring, key)
	} else {
		old := &f.ring[f.next]
		if f.seen[*old]--; f.seen[*old] == 0 {
			delete(f.seen, *old)
		}
		*old = key
		f.next = (f.next + 1) % rememberedFrames
	}
	f.seen[key]++
}

func (f *passedFrames) has(o *observation) bool { return f.seen[passedFrame{classOf(o), o.ipID}] > 0 }
