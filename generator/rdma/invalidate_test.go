package rdma

import (
	"testing"

	"candela.dev/candela/generator"
)

func TestSENDWithInvalidate(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"the last packet of the message carries the key", `
			post send-invalidate 10
				SEND_ONLY_INV 0 inv=7 len=10 ackreq
			post send-invalidate 2000
				SEND_FIRST 1 len=1024
				SEND_LAST_INV 2 inv=7 len=976 ackreq
			recv ack 2
				done send-invalidate 0 IBV_WC_SUCCESS
				done send-invalidate 1 IBV_WC_SUCCESS`},
		{"it waits for the READs before it, which could not be repeated without the key", `
			post read 10
				READ_REQUEST 0 va=0 dma=10 ackreq
			post send-invalidate 10
			post write 10
			recv READ_RESPONSE_ONLY 0 len=10
				done read 0 IBV_WC_SUCCESS
				SEND_ONLY_INV 1 inv=7 len=10 ackreq
				WRITE_ONLY 2 len=10 va=0 dma=10 ackreq
			recv ack 2
				done send-invalidate 1 IBV_WC_SUCCESS
				done write 2 IBV_WC_SUCCESS`},
		{"the key gives no right any more, its successor does", `
			postrecv 100
			recv SEND_ONLY_INV 0 len=10 ackreq
				done recv IBV_WC_SUCCESS len=10
				ack 0 msn=1
			recv WRITE_ONLY 1 len=10 dma=10 ackreq
				ack 1 msn=2
			recv WRITE_ONLY 2 len=10 dma=10 ackreq rkey=old
				nak-acc 2 msn=2`},
		{"READs are refused, too", `
			postrecv 100
			recv SEND_ONLY_INV 0 len=10 ackreq
				done recv IBV_WC_SUCCESS len=10
				ack 0 msn=1
			recv READ_REQUEST 1 dma=10 rkey=old
				nak-acc 1 msn=1`},
		{"a duplicate invalidates nothing", `
			postrecv 100
			recv SEND_ONLY_INV 0 len=10 ackreq
				done recv IBV_WC_SUCCESS len=10
				ack 0 msn=1
			recv SEND_ONLY_INV 0 len=10 ackreq
				ack 0 msn=1
			recv WRITE_ONLY 1 len=10 dma=10 ackreq
				ack 1 msn=2`},
		{"before the last packet the key is valid", `
			postrecv 2000
			recv SEND_FIRST 0 len=1024
			recv SEND_LAST_INV 2 len=10 ackreq
				nak 1 msn=0
			recv SEND_LAST_INV 1 len=10 ackreq
				done recv IBV_WC_SUCCESS len=1034
				ack 1 msn=1
			recv WRITE_ONLY 2 len=10 dma=10 ackreq
				ack 2 msn=2`},
		{"a key that gives no right can't be invalidated", `
			postrecv 100
			recv SEND_ONLY_INV 0 len=10 ackreq rkey=bad
				done recv IBV_WC_WR_FLUSH_ERR
				nak-acc 0 msn=0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			qp := reliable()
			qp.RegionLength = 4096
			newScript(t, qp, Bugs{}, NotificationPoint{}).run(c.script)
		})
	}
}

func TestKeysAreTurnedInTheirLowEightBits(t *testing.T) {
	for _, c := range []struct {
		key  uint32
		n    int
		want uint32
	}{{0x12345678, 1, 0x12345679}, {0x123456ff, 1, 0x12345600}, {0x12345600, -1, 0x123456ff}, {7, 256, 7}, {7, 0, 7}} {
		if got := generator.TurnedRKey(c.key, c.n); got != c.want {
			t.Errorf("key %#x turned %d times is %#x, want %#x", c.key, c.n, got, c.want)
		}
	}
}
