//go:build linux

package main

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"candela.dev/candela/framelog"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
)

// A box is a device in a cable. It forwards frames in both directions and harms one RoCE frame.
type box struct {
	taps    [2]*link.Tap
	senders [2]*link.Sender
	waiter  *link.Waiter
	stopped atomic.Bool

	mu    sync.Mutex
	from  int    // end at which the frame to harm arrives
	nth   int    // its number among the frames of that end, from 1
	fault string // lose, duplicate, reorder, or flip
	bit   int    // to flip
	seen  int
	held  []byte
	hits  atomic.Int64
	copy  bool // the frames are mirror copies, which may have any port

	mangle mangler // replaces the fault of a single frame; nil: none
	late   []lateFrame
}

// newBox puts a box between the interfaces a and b; it stops with the test.
func newBox(t *testing.T, a, b string) *box {
	t.Helper()
	x := &box{}
	for i, name := range []string{a, b} {
		var err error
		if x.taps[i], err = link.OpenTap(link.TapConfig{Interface: name}); err != nil {
			t.Fatal(err)
		}
		if x.senders[i], err = link.OpenSender(name); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if x.waiter, err = link.NewWaiter(x.taps[:]...); err != nil {
		t.Fatal(err)
	}
	return x
}

// set sets the fault and the frame, counted from now on.
func (x *box) set(from, nth int, fault string, bit int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.from, x.nth, x.fault, x.bit, x.seen, x.held = from, nth, fault, bit, 0, nil
	x.hits.Store(0)
}

// A lateFrame leaves the box at time at.
type lateFrame struct {
	to    int // end
	at    time.Time
	frame []byte
}

// corrupt sets the mangler for the frames of an end, counted from now on; nil: none.
func (x *box) corrupt(from int, m mangler) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.from, x.mangle, x.seen, x.late = from, m, 0, nil
}

// due removes and returns the late frames that are due.
func (x *box) due(now time.Time) (list []lateFrame) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.late = slices.DeleteFunc(x.late, func(l lateFrame) bool {
		if !l.at.After(now) {
			list = append(list, l)
			return true
		}
		return false
	})
	return list
}

// run forwards frames until the test ends.
func (x *box) run(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !x.stopped.Load() {
			if err := x.waiter.Wait(10 * time.Millisecond); err != nil {
				t.Errorf("box: %v", err)
				return
			}
			x.round(t)
		}
	}()
	t.Cleanup(func() {
		x.stopped.Store(true)
		<-done
		for i := range x.taps {
			_, _ = x.taps[i].Close(), x.senders[i].Close()
		}
		_ = x.waiter.Close()
	})
}

func (x *box) round(t *testing.T) {
	for _, l := range x.due(time.Now()) {
		x.send(t, l.to, l.frame)
	}
	for i := range x.taps {
		for {
			f, ok := x.taps[i].Next()
			if !ok {
				break
			}
			for _, frame := range x.pass(i, slices.Clone(f.Data)) {
				x.send(t, 1-i, frame)
			}
			x.taps[i].Release()
		}
	}
}

func (x *box) send(t *testing.T, end int, frame []byte) {
	err := x.senders[end].Queue(frame)
	if err == nil {
		err = x.senders[end].Flush()
	}
	if err != nil {
		t.Errorf("box: %v", err)
	}
}

// pass returns the frames to send for an arriving one.
func (x *box) pass(end int, frame []byte) [][]byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	if end != x.from || x.fault == "" && x.mangle == nil || !x.concerns(frame) {
		return [][]byte{frame}
	}
	x.seen++
	if x.mangle != nil {
		now, late := x.mangle(x.seen, frame)
		if late != nil {
			x.late = append(x.late, lateFrame{1 - end, time.Now().Add(lateness), late})
		}
		return now
	}
	if x.held != nil {
		held := x.held
		x.held = nil
		return [][]byte{frame, held}
	}
	if x.seen != x.nth {
		return [][]byte{frame}
	}
	x.hits.Add(1)
	switch x.fault {
	case "lose":
		return nil
	case "duplicate":
		return [][]byte{frame, slices.Clone(frame)}
	case "reorder":
		x.held = frame
		return nil
	}
	if bit := min(x.bit, 8*len(frame)-1); bit >= 0 {
		frame[bit/8] ^= 1 << (bit % 8)
	}
	return [][]byte{frame}
}

func (x *box) concerns(frame []byte) bool {
	if x.copy {
		return len(frame) > 42 && frame[12] == 8 && frame[13] == 0
	}
	_, ok := framelog.Destination(frame)
	return ok && !framelog.IsProbe(frame)
}

func TestABoxHarmsTheFrameThatItShall(t *testing.T) {
	frame := func(n byte) []byte {
		ip := netip.AddrFrom4([4]byte{10, 0, 0, 1})
		f := framelog.Probe(framelog.Route{From: ip, To: ip.Next()})
		f[len(f)-20] = n // no probe any more
		return f
	}
	for fault, want := range map[string][]byte{"lose": {1, 3, 4}, "duplicate": {1, 2, 2, 3, 4}, "reorder": {1, 3, 2, 4}} {
		x := &box{from: 0, nth: 2, fault: fault}
		var got []byte
		for n := byte(1); n <= 4; n++ {
			for _, f := range x.pass(0, frame(n)) {
				got = append(got, f[len(f)-20])
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %v, want %v", fault, got, want)
		}
	}
	x := &box{from: 0, nth: 1, fault: "flip", bit: 8*(packet.EthernetLen+1) + 3}
	want := frame(1)
	want[packet.EthernetLen+1] ^= 8
	if got := x.pass(0, frame(1)); !bytes.Equal(got[0], want) {
		t.Errorf("flip: % x, want % x", got[0], want)
	}
}
