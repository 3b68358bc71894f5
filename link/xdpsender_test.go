//go:build linux

package link_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

// xdpSender opens one on a veth whose ends have an MTU.
func xdpSender(t *testing.T, mtu int) *link.XDPSender {
	t.Helper()
	linktest.Veth(t, "a", "b")
	linktest.SetMTU(t, "a", mtu)
	linktest.SetMTU(t, "b", mtu)
	s, err := link.OpenXDPSender("a")
	if err != nil {
		t.Skipf("no XDP socket: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestFramesThroughAnXDPSocketArriveWholeAndInOrder(t *testing.T) {
	for _, mtu := range []int{1500, 4000} {
		linktest.Namespace(t, func() {
			s := xdpSender(t, mtu)
			r := open(t, link.RingConfig{Interface: "b", Promiscuous: true, Blocks: 64, BlockTimeout: 100 * time.Millisecond})
			const n = 5000 // many times the memory of the socket
			var sent [][]byte
			for i := range n {
				f := numbered(uint32(i), 60+i%(mtu-60))
				sent = append(sent, bytes.Clone(f))
				if err := s.Queue(f); err != nil {
					t.Fatal(err)
				}
				clear(f) // it was copied
			}
			if err := s.Flush(); err != nil || s.Sent() != n || s.Pending() != 0 {
				t.Fatalf("%v, %d frames sent, %d pending", err, s.Sent(), s.Pending())
			}
			got := collect(t, r, n)
			if len(got) != n {
				t.Fatalf("%d frames arrived of %d", len(got), n)
			}
			for i := range got {
				if !bytes.Equal(got[i], sent[i]) {
					t.Fatalf("frame %d differs: got % x…, want % x…", i, got[i][:20], sent[i][:20])
				}
			}
		})
	}
}

func TestFramesForAnInterfaceThatIsDownAreNotCountedAsSent(t *testing.T) {
	linktest.Namespace(t, func() {
		s := xdpSender(t, 1500)
		linktest.SetDown(t, "a")
		failures := 0
		for range 2000 { // far more than wait at most
			if err := errors.Join(s.Queue(numbered(1, 100)), s.Flush()); err != nil {
				failures++
				if !strings.Contains(err.Error(), `"a"`) {
					t.Fatal(err)
				}
			}
		}
		if failures != 2000 || s.Sent() != 0 {
			t.Fatalf("%d of 2000 frames failed, %d sent", failures, s.Sent())
		}
		linktest.SetUp(t, "a")
		before := s.Sent()
		if err := s.Queue(numbered(2, 100)); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(); err != nil || s.Sent() == before {
			t.Errorf("up again: %v, %d sent", err, s.Sent())
		}
	})
}

func TestWhatAnXDPSocketCantSendIsRefused(t *testing.T) {
	linktest.Namespace(t, func() {
		s := xdpSender(t, 1500)
		for _, n := range []int{0, 5000} {
			if err := s.Queue(make([]byte, n)); err == nil {
				t.Errorf("a frame of %d bytes is taken", n)
			}
		}
		linktest.Veth(t, "c", "d") // MTU 9000
		if _, err := link.OpenXDPSender("c"); err == nil || !strings.Contains(err.Error(), "MTU of 9000") {
			t.Errorf("error %v", err)
		}
		if _, err := link.OpenXDPSender("a"); err == nil {
			t.Error("a second one on the same queue is opened")
		}
		if _, err := link.OpenXDPSender("nobody"); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
			t.Errorf("error %v", err)
		}
	})
}

func TestFramesForAnInterfaceWithoutACarrierAreNotCountedAsSent(t *testing.T) {
	linktest.Namespace(t, func() {
		s := xdpSender(t, 1500)
		linktest.SetDown(t, "b") // the carrier of a is gone, and a is up
		const n = 500
		for range n {
			_ = s.Queue(numbered(1, 100))
		}
		if err := s.Flush(); err == nil || s.Sent() != 0 {
			t.Errorf("%v, %d of %d frames count as sent", err, s.Sent(), n)
		}
	})
}

func TestFramesBeyondTheMTUAreRefusedWhereADriverWouldDropThem(t *testing.T) {
	linktest.Namespace(t, func() {
		s := xdpSender(t, 1500)
		for n, want := range map[int]bool{1514: true, 1518: true, 1523: false, 2000: false} {
			if err := s.Queue(numbered(1, n)); (err == nil) != want {
				t.Errorf("a frame of %d bytes: %v", n, err)
			}
		}
	})
}
