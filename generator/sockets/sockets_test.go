//go:build linux

package sockets_test

import (
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"candela.dev/candela/generator/sockets"
)

func TestTransfersOfTheKernelFinishOrEndWithStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	ended := make(chan sockets.Ended, 8)
	g := sockets.New(func(e sockets.Ended) { ended <- e })
	defer g.Stop()
	local := netip.MustParseAddr("127.0.0.1")
	port := uint16(20000 + time.Now().UnixNano()%20000)
	finite := sockets.Transfer{Number: 1, From: local, To: local, Port: port, Bytes: 100_001, Congestion: "reno", DSCP: 8}
	endless := sockets.Transfer{Number: 2, From: local, To: local, Port: port + 1, Congestion: "reno"}
	for _, x := range []sockets.Transfer{finite, endless} {
		if err := g.Receive(x, sockets.Here); err != nil {
			t.Skipf("SKIP: %v", err)
		}
		g.Send(x, sockets.Here)
	}
	wrong := sockets.Transfer{Number: 3, From: local, To: local, Port: port, Bytes: 1, Congestion: "none of these"}
	g.Send(wrong, sockets.Here)
	failed := map[int]bool{}
	for range 2 {
		select {
		case e := <-ended:
			failed[e.Number] = e.Err != nil
		case <-time.After(20 * time.Second):
			t.Fatalf("only %v have ended", failed)
		}
	}
	if len(failed) != 2 || failed[1] || !failed[3] {
		t.Errorf("ended, by number, and whether they failed: %v", failed)
	}
	g.Stop()
	select {
	case e := <-ended:
		t.Errorf("after Stop %+v", e)
	default:
	}
}

func TestATransferLeavesWhenItIsEnded(t *testing.T) {
	defer goleak.VerifyNone(t)
	ended := make(chan sockets.Ended, 8)
	g := sockets.New(func(e sockets.Ended) { ended <- e })
	defer g.Stop()
	local := netip.MustParseAddr("127.0.0.1")
	x := sockets.Transfer{Number: 7, From: local, To: local, Port: uint16(20000 + time.Now().UnixNano()%20000),
		Congestion: "reno", Leaves: true}
	if err := g.Receive(x, sockets.Here); err != nil {
		t.Skipf("SKIP: %v", err)
	}
	g.Send(x, sockets.Here)
	for began := time.Now(); len(g.Trips()) == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it has not ended")
		}
		g.End(x.Number) // before or after it has begun
	}
	select {
	case e := <-ended:
		if e.Number != x.Number || e.Err != nil {
			t.Errorf("ended: %+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("its receiver does not know")
	}
	if trip := g.Trips()[x.Number]; trip <= 0 || trip > time.Minute {
		t.Errorf("the kernel measured an RTT of %v", trip)
	}
}
