package trace

import (
	"context"
	"unsafe"

	"candela.dev/candela/packet"
)

// recording keeps what the check of a trace decoded, so that analyses need not read and decode the capture again: eight
// bytes for most packets, since a frame's template has the rest. It holds the start of a trace, up to a limit, so that
// memory does not grow with the length of the trace; the rest is read from the file.
//
// The word of a packet has, from the top: template (16 bits), PSN (24), ns since the packet before (16), and eight bits
// of flags. The words that flags and template require follow.
type recording struct {
	templates []template
	chunks    [][]uint64  // the words of a packet are in one chunk
	words     []uint64    // the last chunk
	odd       []oddRecord // those without a template, in order
	size      int         // bytes
	limit     int         // bytes
	id        uint64      // of the packet before
	timeNS    int64       // of the packet before
	full      bool

	connections *Connections // if they were inferred
	lastFrame   uint64       // the capture continues after it
	clock       TimeUnwrapper
}

// oddRecord is one without a template.
type oddRecord struct {
	Record
	key flowKey
}

const (
	// recordingLimit suffices for one and a half million packets, and leaves three quarters of the 64 MB that an analysis
	// may take.
	recordingLimit = 16 << 20
	firstChunk     = 1 << 6 // words; a short trace takes little
	largestChunk   = 1 << 13

	oddTemplate = 0xffff

	recordedAckReq = 1 << 0
	recordedJump   = 1 << 1 // number and time are in two further words
	recordedICRC   = 2      // shift
	recordedEvent  = 4      // shift

	maxWords = 7 // of one packet
)

// add records r, which d made of a frame just now.
func (p *recording) add(r *Record, d *Decoder, frame uint64) {
	if p.full {
		return
	}
	if p.size >= p.limit {
		p.full = true
		return
	}
	if cap(p.words)-len(p.words) < maxWords {
		p.grow()
	}
	p.lastFrame, p.clock = frame, d.clock
	if d.template < 0 {
		p.words = append(p.words, oddTemplate<<48)
		p.odd = append(p.odd, oddRecord{*r, d.key})
		p.size += int(unsafe.Sizeof(oddRecord{}))
	} else {
		p.size += 8 * p.templated(r, d.template, &d.templates.list[d.template])
	}
	p.id, p.timeNS = r.ID, r.TimeNS
}

// addTemplated does the same as add for a record of a template with extension ext, whose word is complete but for the
// time.
func (p *recording) addTemplated(ext extension, clock *TimeUnwrapper, frame, word, id uint64, ns int64, data []byte) {
	if p.full {
		return
	}
	if p.size >= p.limit {
		p.full = true
		return
	}
	if cap(p.words)-len(p.words) < maxWords {
		p.grow()
	}
	p.lastFrame, p.clock = frame, *clock
	w, n := p.words[:len(p.words)+maxWords], len(p.words)
	if since := uint64(ns - p.timeNS); since <= 0xffff && id == p.id+1 {
		w[n] = word | since<<8
		n++
	} else {
		w[n], w[n+1], w[n+2] = word|recordedJump, id, uint64(ns)
		n += 3
	}
	switch ext {
	case extRETH:
		w[n], w[n+1] = be64(data), be64(data[8:])
		n += 2
	case extAETH:
		w[n] = uint64(be32(data))
		n++
	default:
	}
	p.size += 8 * (n - len(p.words))
	p.words, p.id, p.timeNS = w[:n], id, ns
}

func (p *recording) grow() {
	if p.words != nil {
		p.chunks = append(p.chunks, p.words)
	}
	p.words = make([]uint64, 0, min(max(firstChunk, 2*cap(p.words)), largestChunk))
}

// templated writes the words of r and returns how many they are.
func (p *recording) templated(r *Record, index int, t *template) int {
	w := p.words
	word := uint64(index)<<48 | uint64(r.PSN)<<24 | uint64(r.ICRC)<<recordedICRC | uint64(r.Event)<<recordedEvent
	if r.Flags&AckReq != 0 {
		word |= recordedAckReq
	}
	if since := uint64(r.TimeNS - p.timeNS); since <= 0xffff && r.ID == p.id+1 {
		w = append(w, word|since<<8)
	} else {
		w = append(w, word|recordedJump, r.ID, uint64(r.TimeNS))
	}
	switch t.ext {
	case extRETH:
		w = append(w, r.VA, uint64(r.RKey)<<32|uint64(r.DMALen))
	case extAtomic:
		w = append(w, r.VA, uint64(r.RKey), r.Operand, r.Compare)
	case extIETH:
		w = append(w, uint64(r.RKey))
	case extAETH:
		w = append(w, uint64(r.Syndrome)<<24|uint64(r.MSN))
	case extAtomicAck:
		w = append(w, uint64(r.Syndrome)<<24|uint64(r.MSN), r.VA)
	case extNone:
	}
	if t.imm != 0 {
		w = append(w, r.Operand)
	}
	n := len(w) - len(p.words)
	p.words = w
	return n
}

// finish takes the templates of the decoder that made the records. If the decoder did not know the connections, the
// flows are those of c.
func (p *recording) finish(d *Decoder, c *Connections) {
	p.templates = d.templates.list
	if d.flows == nil {
		p.connections = c
		for i := range p.templates {
			t := &p.templates[i]
			t.record.Flow = c.flows.find(&t.key)
		}
		for i := range p.odd {
			r := &p.odd[i]
			r.Flow = c.flows.find(&r.key)
		}
	}
	p.chunks, p.words = append(p.chunks, p.words), nil
}

// replay is one pass over a recording.
type replay struct {
	*recording
	withICRC bool
	id       uint64
	timeNS   int64
	nextOdd  int
	reused   *reused
}

// forEach calls fn for every recorded packet.
func (p *recording) forEach(ctx context.Context, withICRC bool, fn func(*Record) error) error {
	s := replay{recording: p, withICRC: withICRC, reused: newReused(p.connections)}
	var r Record
	n := 0
	for _, words := range p.chunks {
		for len(words) > 0 {
			if n++; n%cancelEvery == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			words = words[s.next(words, &r):]
			if err := fn(&r); err != nil {
				return err
			}
		}
	}
	return nil
}

// forEachBatch adds every recorded packet to b.
func (p *recording) forEachBatch(ctx context.Context, withICRC bool, b *batcher) error {
	s := replay{recording: p, withICRC: withICRC, reused: newReused(p.connections)}
	n := 0
	for _, words := range p.chunks {
		for len(words) > 0 {
			if n++; n%cancelEvery == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r, err := b.next()
			if err != nil {
				return err
			}
			words = words[s.next(words, r):]
		}
	}
	return nil
}

// next makes r of the first words and returns how many they are.
func (s *replay) next(words []uint64, r *Record) int {
	word, n := words[0], 1
	if word>>48 == oddTemplate {
		*r = s.odd[s.nextOdd].Record
		s.nextOdd++
	} else {
		t := &s.templates[word>>48]
		*r = t.record
		r.PSN = packet.PSN(word >> 24 & maxUint24)
		r.Event, r.ICRC = EventType(word>>recordedEvent&0xf), packet.ICRCStatus(word>>recordedICRC&3)
		r.Flags |= Flags(word&recordedAckReq) * AckReq
		r.ID, r.TimeNS = s.id+1, s.timeNS+int64(word>>8&0xffff)
		if word&recordedJump != 0 {
			r.ID, r.TimeNS = words[1], int64(words[2])
			n = 3
		}
		if t.ext != extNone {
			n += recall(r, t.ext, words[n:])
		}
		if t.imm != 0 {
			r.Operand = words[n]
			n++
		}
	}
	s.id, s.timeNS = r.ID, r.TimeNS
	if s.reused != nil {
		s.reused.resolve(r)
	}
	if !s.withICRC {
		r.ICRC = packet.ICRCNotCheckable
	}
	return n
}

// recall reads the words of an extension and returns how many they are.
func recall(r *Record, ext extension, words []uint64) int {
	switch ext {
	case extRETH:
		r.VA, r.RKey, r.DMALen = words[0], uint32(words[1]>>32), uint32(words[1])
		return 2
	case extAtomic:
		r.VA, r.RKey, r.Operand, r.Compare = words[0], uint32(words[1]), words[2], words[3]
		return 4
	case extIETH:
		r.RKey = uint32(words[0])
		return 1
	case extAETH, extAtomicAck:
		r.Syndrome, r.MSN = packet.Syndrome(words[0]>>24), uint32(words[0]&maxUint24)
		if ext == extAtomicAck {
			r.VA = words[1]
			return 2
		}
		return 1
	case extNone:
	}
	return 0
}
