package afpacket

// arena holds the frames of one round: queued frames must stay in place until they are flushed.
type arena struct {
	chunks [][]byte
	at     int // chunk in use
}

const chunkBytes = 1 << 20

// room returns an empty slice with room for n bytes; keep must follow before the next call.
func (a *arena) room(n int) []byte {
	for ; a.at < len(a.chunks); a.at++ {
		if c := a.chunks[a.at]; cap(c)-len(c) >= n {
			return c[len(c):len(c):cap(c)]
		}
	}
	a.chunks = append(a.chunks, make([]byte, 0, max(chunkBytes, n)))
	return a.chunks[a.at]
}

// keep makes b, which was built in room's slice, part of the arena, and returns it. A b that outgrew the room has its
// own memory.
func (a *arena) keep(b []byte) []byte {
	c := a.chunks[a.at]
	if len(b) > 0 && len(c)+len(b) <= cap(c) && &b[0] == &c[len(c) : len(c)+1][0] {
		a.chunks[a.at] = c[:len(c)+len(b)]
	}
	return b[:len(b):len(b)]
}

func (a *arena) reset() {
	for i := range a.chunks {
		a.chunks[i] = a.chunks[i][:0]
	}
	a.at = 0
}
