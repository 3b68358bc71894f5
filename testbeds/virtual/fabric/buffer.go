package fabric

// buffer is the traffic manager's shared memory.
type buffer struct {
	spec BufferSpec
	used int // bytes of packets in shared queues
}

// admit reports whether p may be queued by the queue's own limits and, with a shared buffer, by the dynamic threshold
// (Choudhury and Hahne, 1998): a queue may hold alpha times the free bytes.
func (sw *Switch) admit(port *Port, queue int, p *Packet) bool {
	q := &port.queues[queue]
	size := int(p.Size)
	if sw.losslessClasses != 0 && sw.lossless(p) && port.kind != RecirculationPort {
		return !port.failed && sw.headroom(q, p, size)
	}
	if !q.fits(size) {
		return false
	}
	b := &sw.buffer
	if b.spec.Bytes == 0 || !q.shared {
		return true
	}
	free := b.spec.Bytes - b.used
	if size > free {
		return false
	}
	return !q.dynamic || float64(q.bytes+size) <= q.config.Alpha*float64(free)
}

func (b *buffer) take(p *Packet, q *Queue) {
	if q.shared {
		b.used += int(p.Size)
	}
}
