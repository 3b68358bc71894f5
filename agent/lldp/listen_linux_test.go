package lldp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"candela.dev/candela/agent/lldp"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

func TestNeighboursAreHeardOnAnInterface(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		sender, err := link.OpenSender("b")
		if err != nil {
			t.Error(err)
			return
		}
		defer sender.Close()
		own, err := link.OpenSender("a")
		if err != nil {
			t.Error(err)
			return
		}
		defer own.Close()
		enough := errors.New("enough")
		var got []lldp.Neighbour
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		// Listen opens its socket on this thread, in the namespace; frames are repeated until it has.
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				for _, s := range []struct {
					to    *link.Sender
					frame []byte
				}{
					{own, frame(mac, tlv(2, "\x05own"), ttl)}, {sender, []byte("no frame of anybody's")},
					{sender, frame(mac, tlv(2, "\x05broken"))},
					{sender, frame(mac, tlv(2, "\x05leaving"), tlv(3, "\x00\x00"))}, {sender, frame(mac, eth1, ttl)},
					{sender, frame(mac, eth1, ttl, tlv(5, "rack-7"))},
				} {
					if err := errors.Join(s.to.Queue(s.frame), s.to.Flush()); err != nil {
						t.Error(err)
						return
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}()
		err = lldp.Listen(ctx, "a", func(n lldp.Neighbour) error {
			got = append(got, n)
			if len(got) == 2 {
				cancel()
				return enough
			}
			return nil
		})
		<-ended
		if !errors.Is(err, enough) || got[0].Port != "Ethernet1/7" || got[0].System != "" || got[1].System != "rack-7" {
			t.Errorf("%v, heard %v", err, got)
		}
	})
}

func TestListeningEndsInTimeAndOnInterfacesThatAreNotThere(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		nobody := func(n lldp.Neighbour) error { t.Errorf("heard %v", n); return nil }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := lldp.Listen(ctx, "a", nobody); err != nil {
			t.Errorf("nobody there: %v", err)
		}
		if err := lldp.Listen(t.Context(), "nowhere", nobody); err == nil {
			t.Error("an interface that is not there")
		}
	})
}
