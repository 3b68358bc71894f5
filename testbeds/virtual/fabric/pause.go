package fabric

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
)

// pauseFrame is the size of a PFC frame without FCS (IEEE 802.1Q clause 36, minimum Ethernet frame).
const pauseFrame = 60

// pauseState is priority flow control for the packets received by one port: the buffer bytes held by each class, and
// the paused classes.
type pauseState struct {
	held   [8]int
	paused uint8
}

// lossless reports whether p's class is under PFC at this switch.
func (sw *Switch) lossless(p *Packet) bool {
	return p.Class < 8 && sw.losslessClasses&(1<<p.Class) != 0
}

// headroom reports whether a packet of a lossless class has room in a queue: its port may hold XOff plus the headroom,
// and the shared buffer is never exceeded.
func (sw *Switch) headroom(q *Queue, p *Packet, size int) bool {
	held := sw.ports[p.Ingress].pause.held[p.Class]
	if b := &sw.buffer; b.spec.Bytes > 0 && q.shared && b.used+size > b.spec.Bytes {
		return false
	}
	return held+size <= sw.config.PFC.XOff+sw.config.PFC.Headroom
}

// CheckHeadroom refuses headroom that the shared buffer cannot hold. A network may have it: lossless packets are then
// lost when the buffer is full.
func (sw *Switch) CheckHeadroom() error {
	s, ports := sw.config, sw.front
	p, classes := &s.PFC, bits.OnesCount8(s.PFC.Classes)
	if s.Buffer.Bytes == 0 || classes == 0 {
		return nil
	}
	if need := ports * classes * p.Headroom; need > s.Buffer.Bytes {
		return &FieldError{"switch.pfc.headroom", p.Headroom, fmt.Sprintf("%d ports with %d lossless classes need "+
			"%d bytes of headroom, and the shared buffer has %d", ports, classes, need, s.Buffer.Bytes)}
	}
	if need := p.XOff + p.Headroom; need > s.Buffer.Bytes {
		return &FieldError{"switch.pfc.xoff", p.XOff, fmt.Sprintf("with the headroom one port may hold %d bytes of a class, "+
			"and the shared buffer has %d", need, s.Buffer.Bytes)}
	}
	return nil
}

// account charges the queued packet p to the port that received it, and pauses the sender there if the port holds too
// much.
func (sw *Switch) account(now clock.Time, p *Packet) {
	if !sw.lossless(p) {
		return
	}
	in := &sw.ports[p.Ingress]
	s := in.pause
	s.held[p.Class] += int(p.Size)
	in.counters.MaxIngressUsed = max(in.counters.MaxIngressUsed, s.held[p.Class])
	in.counters.HeadroomBytes = max(in.counters.HeadroomBytes, s.held[p.Class]-sw.config.PFC.XOff)
	if s.held[p.Class] > sw.config.PFC.XOff && s.paused&(1<<p.Class) == 0 {
		s.paused |= 1 << p.Class
		in.signal(now)
	}
}

// release undoes account for p, which left its queue, and resumes the sender if enough has drained.
func (sw *Switch) release(now clock.Time, p *Packet) {
	if !sw.lossless(p) {
		return
	}
	in := &sw.ports[p.Ingress]
	s := in.pause
	s.held[p.Class] -= int(p.Size)
	if s.held[p.Class] <= sw.config.PFC.XOn && s.paused&(1<<p.Class) != 0 {
		s.paused &^= 1 << p.Class
		in.signal(now)
	}
}

// signal sends the peer a PFC frame with the paused classes, before everything but the frame on the wire. Quanta are
// not modelled: a class stays paused until another frame, as if every pause were refreshed in time.
func (pt *Port) signal(now clock.Time) {
	if pt.sw.stopped || pt.failed {
		return
	}
	p := pt.part().pool.get()
	p.ID = pt.sw.ids.next()
	p.Protocol, p.Size, p.Original = PFC, pauseFrame, pauseFrame
	p.Meta = uint32(pt.pause.paused)
	pt.counters.PausesSent++
	pt.part().sent[p.Kind()]++
	pt.control.push(p)
	pt.urgent = true
	pt.resume(now)
}

func (pt *Port) handlePause(now clock.Time, p *Packet) {
	if from := pt.net.ports[pt.peer].sw; from == nil || !from.stopped { // a link that is down cannot pause
		pt.paused = uint8(p.Meta)
	}
	pt.counters.PausesReceived++
	pt.part().delivered[p.Kind()]++
	pt.part().pool.put(p)
	pt.resume(now)
}

// Paused returns the set of classes, one bit each, that the peer has paused.
func (pt *Port) Paused() uint8 { return pt.paused }

// resume sends if the wire is idle, or schedules sending for when it is.
func (pt *Port) resume(now clock.Time) {
	if pt.idle(now) {
		pt.ready(now)
		return
	}
	pt.wait(&pt.part().engine)
}

// nextControl removes and returns the next PFC frame to send.
func (pt *Port) nextControl() *Packet {
	p := pt.control.pop()
	pt.urgent = pt.control.first != nil
	return p
}

// appendPause appends a PFC frame: MAC control, opcode 0x0101, class enable vector, one timer per class in quanta of
// 512 bit times.
func (p *Packet) appendPause(b []byte) []byte {
	start := len(b)
	b = append(b, 0x01, 0x80, 0xc2, 0, 0, 1) // multicast address of MAC control (IEEE 802.3 annex 31B)
	b = append(b, 0x02, 0xca, 0xde, 0xff, 0xff, 0xff)
	b = binary.BigEndian.AppendUint16(b, 0x8808)
	b = binary.BigEndian.AppendUint16(b, 0x0101)
	b = binary.BigEndian.AppendUint16(b, 0x00ff)
	for class := range 8 {
		quanta := uint16(0)
		if p.Meta&(1<<class) != 0 {
			quanta = 0xffff
		}
		b = binary.BigEndian.AppendUint16(b, quanta)
	}
	return wire.Fit(b, start, int(p.Size))
}
