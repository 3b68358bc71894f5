package deflect

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// marks judges what senders mark, as their packets come into the first switch.
type marks struct {
	judge *Judge
	flows map[flowKey]*marked
}

// marked is what a flow has sent.
type marked struct {
	begun       bool
	flowlet     uint16
	latest      sent // of the packets of the flowlet that were new
	some        bool // there is one
	packets     map[uint64]sent
	numbers     []uint64 // of packets, the oldest first
	data, any   clock.Time
	least, most uint8 // Ret of new packets
	many        bool
	values      []uint32 // of the flowlet's packets, in the order in which they were new
}

type sent struct {
	number uint64
	mark   deflect.Mark
}

// mostMarked bounds the packets of a flow that are remembered.
const mostMarked = 4096

// mostValues bounds the packets of a flowlet of which is known whether they have arrived.
const mostValues = 1 << 16

func newMarks(j *Judge) marks { return marks{j, make(map[flowKey]*marked)} }

// observe judges the mark of a packet that comes from its sender.
func (m *marks) observe(d *device, t *trace.SwitchTap) {
	set := d.set
	host, ok := d.hostAt(t.Port)
	if !ok || host != t.Src || t.Flags&(trace.Made|trace.Mirrored|trace.Returned) != 0 || !m.judge.exact ||
		set.Scheme != deflect.PD && set.Scheme != deflect.Vertigo {
		return
	}
	if t.Flags&trace.Ranked == 0 {
		return
	}
	key := flowKey{t.Src, t.Dst, t.Flow, t.Protocol, t.IPv6}
	f := m.flows[key]
	if f == nil {
		f = &marked{packets: make(map[uint64]sent), data: -1, any: -1}
		m.flows[key] = f
	}
	mark := deflect.MarkOf(t.Rank)
	at := place{d.who, t.Port, t.ID}
	if mark.Control {
		if mark != (deflect.Mark{Control: true}) {
			d.tellTap(t, markedControl(at))
		}
		f.any = t.Time
		return
	}
	m.judge.coverage.marks++
	before, again := f.packets[t.Number]
	switch {
	case again:
		m.retransmitted(d, f, t, before.mark, mark)
	case f.many && f.some && t.Number < f.latest.number: // it may have been forgotten
	default:
		m.fresh(d, f, t, mark)
	}
	f.data, f.any = t.Time, t.Time
	f.remember(sent{t.Number, mark})
}

// remember keeps the latest mark of a packet.
func (f *marked) remember(s sent) {
	if _, known := f.packets[s.number]; !known {
		f.numbers = append(f.numbers, s.number)
	}
	f.packets[s.number] = s
	if len(f.numbers) > mostMarked {
		f.many = true
		half := len(f.numbers) / 2
		for _, n := range f.numbers[:half] {
			delete(f.packets, n)
		}
		f.numbers = append(f.numbers[:0], f.numbers[half:]...)
	}
}

// paused reports whether a flow may have sent nothing for longer than the gap, and whether it certainly has. When it
// sent is not known to the picosecond: its NIC was busy with other packets.
func (f *marked) paused(now clock.Time, gap clock.Duration) (may, must bool) {
	if f.data < 0 {
		return true, true
	}
	return now.Sub(f.data) > gap/2, now.Sub(f.any) > 2*gap
}

// retransmitted judges the mark of a packet that was sent before.
func (m *marks) retransmitted(d *device, f *marked, t *trace.SwitchTap, before, mark deflect.Mark) {
	want := before
	if d.set.Priority != deflect.LAS { // classes are the switches': hosts mark what is left
		want.Ret = min(before.Ret+1, deflect.MaxRet)
		may, must := f.paused(t.Time, d.set.Gap)
		if may && before.Flowlet == f.flowlet {
			f.most = min(f.most+1, deflect.MaxRet)
		}
		if must && before.Flowlet == f.flowlet {
			f.least = min(f.least+1, deflect.MaxRet)
		}
	}
	if mark != want {
		d.tellTap(t, otherMark(place{d.who, t.Port, t.ID}, mark, want))
	}
}

// fresh judges the mark of a packet that was not sent before.
func (m *marks) fresh(d *device, f *marked, t *trace.SwitchTap, mark deflect.Mark) {
	at := place{d.who, t.Port, t.ID}
	las := d.set.Priority == deflect.LAS
	flowlet := f.flowlet
	switch {
	case !f.begun:
		flowlet = 0
		if !mark.First {
			d.tellTap(t, badFirst(at, false))
		}
	case mark.First:
		flowlet = (f.flowlet + 1) % (deflect.MaxFlowlet + 1)
	}
	if las && f.begun && mark.First {
		if may, _ := f.paused(t.Time, d.set.Gap); !may {
			d.tellTap(t, badFirst(at, true))
		}
	} else if las && f.begun {
		if _, must := f.paused(t.Time, d.set.Gap); must {
			d.tellTap(t, badFirst(at, false))
		}
	}
	if mark.Flowlet != flowlet {
		d.tellTap(t, badFlowlet(at, mark.Flowlet, flowlet))
	}
	if mark.First || !f.begun {
		f.least, f.most, f.some, f.values = 0, 0, false, nil
	}
	if len(f.values) < mostValues {
		f.values = append(f.values, mark.Value)
	}
	f.begun, f.flowlet = true, mark.Flowlet
	most := f.most
	if las {
		f.least, most = 0, 0
	}
	if mark.Ret < f.least || mark.Ret > most {
		d.tellTap(t, badRet(at, mark.Ret, cause.Between{Least: int64(f.least), Most: int64(most)}))
	}
	switch {
	case mark.Value == 0 && !las, mark.First && las && mark.Value != 0:
		d.tellTap(t, badValue(at, mark.Value))
	case f.some && mark.Value != deflect.MaxValue:
		later := t.Number > f.latest.number
		if las { // bytes before it, in the order in which it is sent
			later = false
		}
		if later != (mark.Value < f.latest.mark.Value) || mark.Value == f.latest.mark.Value {
			d.tellTap(t, notFalling(at, mark.Value, f.latest.mark.Value))
		}
	}
	f.latest, f.some = sent{t.Number, mark}, true
}
