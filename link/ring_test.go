//go:build linux

package link_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

// numbered returns a frame of n bytes with a number after the Ethernet header and invented addresses.
func numbered(number uint32, n int) []byte {
	f := make([]byte, n)
	copy(f, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}) // IEEE 802 local experimental EtherType
	binary.BigEndian.PutUint32(f[14:], number)
	return f
}

// collect reads a ring until it has n frames or nothing arrives for a second.
func collect(t *testing.T, r *link.Ring, n int) [][]byte {
	t.Helper()
	var frames [][]byte
	for len(frames) < n {
		b, err := r.Wait(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return frames
		}
		for f := range b.Frames() {
			frames = append(frames, bytes.Clone(f.Data))
		}
		b.Release()
	}
	return frames
}

func open(t *testing.T, cfg link.RingConfig) *link.Ring {
	t.Helper()
	r, err := link.OpenRing(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func send(t *testing.T, name string, frames ...[]byte) {
	t.Helper()
	sender(t, name)(frames...)
}

// sender returns a function that sends frames. Closing a socket waits for the kernel's readers (RCU) for some 10 ms, so
// tests that send one frame at a time share one.
func sender(t *testing.T, name string) func(frames ...[]byte) {
	t.Helper()
	s, err := link.OpenSender(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	sent := uint64(0)
	return func(frames ...[]byte) {
		t.Helper()
		for _, f := range frames {
			if err := s.Queue(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if sent += uint64(len(frames)); s.Sent() != sent {
			t.Fatalf("sent %d frames of %d", s.Sent(), sent)
		}
	}
}

func TestFramesArriveWholeAndInOrder(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		r := open(t, link.RingConfig{Interface: "b", Promiscuous: true})
		const n = 1000
		var sent [][]byte
		for i := range n {
			sent = append(sent, numbered(uint32(i), 60+i))
		}
		send(t, "a", sent...)
		got := collect(t, r, n)
		if len(got) != n {
			t.Fatalf("%d frames arrived of %d", len(got), n)
		}
		for i := range got {
			if !bytes.Equal(got[i], sent[i]) {
				t.Fatalf("frame %d differs: got % x…, want % x…", i, got[i][:20], sent[i][:20])
			}
		}
		stats, err := r.Stats()
		if err != nil || stats.Frames != n || stats.Dropped != 0 {
			t.Errorf("statistics %+v, %v; want %d frames, none dropped", stats, err, n)
		}
	})
}

func TestATagIsWhereItWasOnTheWire(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		r := open(t, link.RingConfig{Interface: "b", Promiscuous: true})
		tagged := numbered(7, 100)
		binary.BigEndian.PutUint16(tagged[12:], 0x8100)
		binary.BigEndian.PutUint16(tagged[14:], 3<<13|42)
		binary.BigEndian.PutUint16(tagged[16:], 0x88b5)
		send(t, "a", tagged)
		if got := collect(t, r, 1); len(got) != 1 || !bytes.Equal(got[0], tagged) {
			t.Fatalf("got % x, want % x", got, tagged)
		}
	})
}

func TestASnappedFrameKnowsItsLength(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		r := open(t, link.RingConfig{Interface: "b", Promiscuous: true, Snap: 64})
		send(t, "a", numbered(1, 1000))
		b, err := r.Wait(time.Second)
		if err != nil || b == nil {
			t.Fatal("no frame", err)
		}
		for f := range b.Frames() {
			if len(f.Data) != 64 || f.Length != 1000 {
				t.Errorf("%d bytes of %d, want 64 of 1000", len(f.Data), f.Length)
			}
		}
		b.Release()
	})
}

func TestAFullRingCountsWhatItLoses(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		r := open(t, link.RingConfig{Interface: "b", Promiscuous: true, BlockBytes: 4096, Blocks: 2})
		const n = 100
		var frames [][]byte
		for i := range n {
			frames = append(frames, numbered(uint32(i), 1000))
		}
		send(t, "a", frames...)
		got := collect(t, r, n)
		stats, err := r.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if stats.Dropped == 0 || len(got)+int(stats.Dropped) != n {
			t.Errorf("%d frames read, %+v; want %d in all, some dropped", len(got), stats, n)
		}
	})
}

func TestRingsOfAGroupShareTheFrames(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		group := &link.Fanout{Group: 7, Mode: link.FanoutRoundRobin}
		first := open(t, link.RingConfig{Interface: "b", Promiscuous: true, Fanout: group})
		second := open(t, link.RingConfig{Interface: "b", Promiscuous: true, Fanout: group})
		const n = 10
		var frames [][]byte
		for i := range n {
			frames = append(frames, numbered(uint32(i), 100))
		}
		send(t, "a", frames...)
		if a, b := len(collect(t, first, n/2)), len(collect(t, second, n/2)); a != n/2 || b != n/2 {
			t.Errorf("%d and %d frames, want %d each", a, b, n/2)
		}
	})
}

func TestStopEndsAWaitingReader(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		r := open(t, link.RingConfig{Interface: "b"})
		ended := make(chan error, 1)
		go func() {
			_, err := r.Wait(-1)
			ended <- err
		}()
		r.Stop()
		select {
		case err := <-ended:
			if !errors.Is(err, link.ErrStopped) {
				t.Errorf("Wait returned %v, want ErrStopped", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Wait still waits a minute after Stop")
		}
	})
}

func TestOffloadsAreOffAfterwardsAndOnWhenRestored(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		before, err := link.ActiveOffloads("a")
		if err != nil {
			t.Fatal(err)
		}
		if len(before) == 0 {
			t.Fatal("a fresh veth has no offload on: the test tests nothing")
		}
		off, err := link.DisableOffloads("a")
		if err != nil {
			t.Fatal(err)
		}
		if len(off.Remaining) > 0 {
			t.Errorf("still on: %v", off.Remaining)
		}
		if err := off.Restore(); err != nil {
			t.Fatal(err)
		}
		after, err := link.ActiveOffloads("a")
		if err != nil {
			t.Fatal(err)
		}
		if len(after) != len(before) {
			t.Errorf("on before: %v\non after:  %v", before, after)
		}
	})
}

func TestAnInterfaceThatIsNotThereIsNamed(t *testing.T) {
	_, err := link.OpenRing(link.RingConfig{Interface: "nowhere0"})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("nowhere0")) {
		t.Errorf("error %v does not name the interface", err)
	}
}
