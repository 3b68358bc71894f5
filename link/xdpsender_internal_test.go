//go:build linux

package link

import (
	"testing"

	"golang.org/x/sys/unix"
)

// xdpKernel is the other end of a sender's rings.
type xdpKernel struct {
	s                *XDPSender
	written, taken   uint32
	done, collected  uint32
	at               uint32 // frames it has looked at
	late             bool   // reports what it took only when the ring is empty, as before Linux 6.17
	carrier          bool
	slots            int // frames that it has room for
	flying           []uint64
	sent, pauses     int
	perPause, budget int
}

func newXDPKernel(k *xdpKernel) *xdpKernel {
	k.budget = 32
	k.s = &XDPSender{
		name: "a", fd: -1, chunk: 2048, limit: 1518, umem: make([]byte, xdpFrames*2048),
		ring: make([]unix.XDPDesc, xdpFrames),
		done: make([]uint64, xdpFrames), written: &k.written, taken: &k.taken, finished: &k.done, collected: &k.collected,
		transmit: k.transmit, pause: k.pause,
	}
	for i := range xdpFrames {
		k.s.free = append(k.s.free, uint64(i*2048))
	}
	return k
}

func (k *xdpKernel) transmit() (code unix.Errno) {
	for budget := k.budget; ; budget-- {
		if k.at == k.written {
			k.taken = k.at
			return 0
		}
		if !k.late {
			defer func() { k.taken = k.at }()
		}
		switch {
		case budget == 0, k.carrier && len(k.flying) == k.slots:
			return unix.EAGAIN
		}
		chunk := k.s.ring[k.at%xdpFrames].Addr
		k.at++
		if !k.carrier {
			k.finish(chunk)
			return unix.EBUSY
		}
		k.flying = append(k.flying, chunk)
		k.sent++
	}
}

func (k *xdpKernel) finish(chunk uint64) {
	k.s.done[k.done%xdpFrames] = chunk
	k.done++
}

// pause lets the interface get some frames done.
func (k *xdpKernel) pause() error {
	k.pauses++
	for range min(k.perPause, len(k.flying)) {
		k.finish(k.flying[0])
		k.flying = k.flying[1:]
	}
	return nil
}

func TestAnInterfaceThatIsSlowerThanWhatComesIsWaitedFor(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, slots := range []int{10, 90, 1000} { // the socket's memory, or the chunks, run out first
			k := newXDPKernel(&xdpKernel{late: late, carrier: true, slots: slots, perPause: 1})
			const n = 2000
			for i := range n {
				if err := k.s.Queue(make([]byte, 100)); err != nil {
					t.Fatalf("late %v, %d slots, frame %d: %v", late, slots, i, err)
				}
			}
			if err := k.s.Flush(); err != nil || k.s.Sent() != n || k.sent != n {
				t.Errorf("late %v, %d slots: %v, %d of %d sent, %d counted", late, slots, err, k.sent, n, k.s.Sent())
			}
		}
	}
}

func TestAnInterfaceWithRoomIsNotWaitedForHoweverLateItSaysSo(t *testing.T) {
	k := newXDPKernel(&xdpKernel{late: true, carrier: true, slots: xdpFrames, perPause: xdpFrames})
	for range xdpFrames {
		if err := k.s.Queue(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.s.Flush(); err != nil || k.pauses != 0 || k.s.Sent() != xdpFrames {
		t.Errorf("%v, %d pauses, %d sent", err, k.pauses, k.s.Sent())
	}
}

func TestFramesThatFoundNoCarrierAreNotCountedHoweverLateTheKernelSaysSo(t *testing.T) {
	for _, late := range []bool{false, true} {
		k := newXDPKernel(&xdpKernel{late: late, slots: xdpFrames, perPause: 1})
		for range 500 {
			_ = k.s.Queue(make([]byte, 100))
		}
		if err := k.s.Flush(); err == nil || k.s.Sent() != 0 || k.pauses != 0 {
			t.Errorf("late %v: %v, %d count as sent, %d pauses", late, err, k.s.Sent(), k.pauses)
		}
		k.carrier = true
		if err := k.s.Queue(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if err := k.s.Flush(); err != nil || k.s.Sent() != 1 {
			t.Errorf("late %v, with a carrier again: %v, %d count as sent", late, err, k.s.Sent())
		}
	}
}

// TestAnInterfaceThatGetsNothingDoneIsWaitedForOnce: who forwards between several must go on with the others.
func TestAnInterfaceThatGetsNothingDoneIsWaitedForOnce(t *testing.T) {
	for _, slots := range []int{0, 50, 1000} {
		k := newXDPKernel(&xdpKernel{carrier: true, slots: slots})
		failures := 0
		for range 2000 {
			if err := k.s.Queue(make([]byte, 100)); err != nil {
				failures++
			}
		}
		if failures == 0 || k.pauses > 2*xdpTries+2000 || k.s.Sent() != uint64(k.sent) {
			t.Errorf("%d slots: %d failures, %d pauses, %d of %d count as sent", slots, failures, k.pauses, k.s.Sent(), k.sent)
		}
	}
}
