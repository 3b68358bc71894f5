//go:build linux

package link_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

func openTap(t *testing.T, cfg link.TapConfig) (*link.Tap, *link.Waiter) {
	t.Helper()
	tap, err := link.OpenTap(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := link.NewWaiter(tap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := tap.Close(); err != nil {
			t.Error(err)
		}
	})
	return tap, w
}

func TestATapHandsOverEachFrameAsItComes(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		tap, w := openTap(t, link.TapConfig{Interface: "b", Frames: 64})
		const n = 1000
		send := sender(t, "a")
		for i := range uint32(n) {
			frame := numbered(i, 60+int(i%9000))
			if i%3 == 0 {
				frame = numbered(i, 100)
				binary.BigEndian.PutUint16(frame[12:], 0x8100)
				binary.BigEndian.PutUint16(frame[14:], 5)
			}
			send(frame)
			if err := w.Wait(time.Second); err != nil {
				t.Fatal(err)
			}
			f, ok := tap.Next()
			if !ok || !bytes.Equal(f.Data, frame) || f.Length != len(frame) {
				t.Fatalf("frame %d: got %d bytes (%v), want %d", i, len(f.Data), ok, len(frame))
			}
			tap.Release()
			if _, ok := tap.Next(); ok {
				t.Fatalf("frame %d came twice", i)
			}
		}
		if s, err := tap.Stats(); err != nil || s.Frames != n || s.Dropped != 0 {
			t.Errorf("statistics %+v, %v", s, err)
		}
	})
}

func TestATapKeepsFramesUntilTheyAreReleased(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		const slots = 64
		send := sender(t, "a")
		tap, w := openTap(t, link.TapConfig{Interface: "b", Frames: slots})
		for round := range uint32(5) {
			const n = 48 // the second round goes over the ring's end
			var kept [][]byte
			for i := range uint32(n) {
				send(numbered(round*n+i, 200))
			}
			for len(kept) < n {
				f, ok := tap.Next()
				if !ok {
					if err := w.Wait(time.Second); err != nil {
						t.Fatal(err)
					}
					continue
				}
				kept = append(kept, f.Data)
				tap.Keep()
			}
			for i, frame := range kept {
				if !bytes.Equal(frame, numbered(round*n+uint32(i), 200)) {
					t.Errorf("round %d: frame %d is another", round, i)
				}
			}
			tap.ReleaseKept()
		}
		for i := range uint32(slots + 10) {
			send(numbered(i, 200))
		}
		n := 0
		for ; n <= slots; n++ {
			if _, ok := tap.Next(); !ok {
				break
			}
			tap.Keep()
		}
		if n != slots {
			t.Errorf("%d frames kept in %d slots", n, slots)
		}
		if s, err := tap.Stats(); err != nil || s.Dropped != 10 {
			t.Errorf("statistics %+v, %v", s, err)
		}
	})
}

func TestAWokenWaiterReturns(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		_, w := openTap(t, link.TapConfig{Interface: "b", Frames: 64})
		w.Wake()
		start := time.Now()
		if err := w.Wait(time.Minute); err != nil || time.Since(start) > time.Minute/2 {
			t.Errorf("Wait returned %v after %v", err, time.Since(start))
		}
	})
}
