package rdma

import "testing"

// Each script tests one rule of the responder (IBTA volume 1, 9.7.4 and 9.7.5).
func TestResponder(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"only a packet that demands it is acknowledged", `
			recv WRITE_FIRST 0 len=1024 dma=2000
			recv WRITE_LAST 1 len=976 ackreq
				ack 1 msn=1
			recv WRITE_ONLY 2 len=10 dma=10
			recv WRITE_ONLY 3 len=0 dma=0 ackreq
				ack 3 msn=3`},
		{"an ACK that still waits is brought up to date instead of followed by another", `
			+recv WRITE_ONLY 0 len=4 dma=4 ackreq
			+recv WRITE_ONLY 1 len=4 dma=4 ackreq
			recv WRITE_ONLY 2 len=4 dma=4 ackreq
				ack 2 msn=3`},
		{"a NAK that still waits acknowledges duplicates, too", `
			recv WRITE_ONLY 0 len=4 dma=4
			+recv WRITE_ONLY 2 len=4 dma=4
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				nak 1 msn=1`},
		{"an ACK waits for the READ responses before it", `
			+recv READ_REQUEST 0 dma=2048
			recv WRITE_ONLY 2 len=4 dma=4 ackreq
				READ_RESPONSE_FIRST 0 msn=1 len=1024
				READ_RESPONSE_LAST 1 msn=1 len=1024
				ack 2 msn=2`},
		{"the MSN never goes back, even if a READ that waits is asked for again", `
			+recv READ_REQUEST 0 dma=2048
			+recv FETCH_ADD 2
			+recv READ_REQUEST 0 dma=2048
			recv FETCH_ADD 2
				READ_RESPONSE_FIRST 0 msn=2 len=1024
				READ_RESPONSE_LAST 1 msn=2 len=1024
				ATOMIC_ACKNOWLEDGE 2 msn=2 original=0`},
		{"a NAK that still waits is withdrawn when the missing packet arrives", `
			+recv READ_REQUEST 0 dma=4
			+recv WRITE_ONLY 2 len=4 dma=4 ackreq
			+recv WRITE_ONLY 1 len=4 dma=4 ackreq
			recv WRITE_ONLY 2 len=4 dma=4 ackreq
				READ_RESPONSE_ONLY 0 msn=1 len=4
				ack 2 msn=3`},
		{"requests are answered in the order of their arrival, repeated ones, too", `
			recv READ_REQUEST 0 dma=4
				READ_RESPONSE_ONLY 0 msn=1 len=4
			+recv READ_REQUEST 1 dma=4
			+recv FETCH_ADD 2
			+recv READ_REQUEST 0 dma=4
			+recv READ_REQUEST 1 dma=4
			recv FETCH_ADD 2
				READ_RESPONSE_ONLY 1 msn=2 len=4
				ATOMIC_ACKNOWLEDGE 2 msn=3 original=0
				READ_RESPONSE_ONLY 0 msn=3 len=4
				READ_RESPONSE_ONLY 1 msn=3 len=4
				ATOMIC_ACKNOWLEDGE 2 msn=3 original=0`},
		{"repeating everything twice does not double the answers that wait", `
			recv READ_REQUEST 0 dma=4
				READ_RESPONSE_ONLY 0 msn=1 len=4
			+recv READ_REQUEST 1 dma=4
			+recv READ_REQUEST 0 dma=4
			+recv READ_REQUEST 1 dma=4
			+recv READ_REQUEST 0 dma=4
			recv READ_REQUEST 1 dma=4
				READ_RESPONSE_ONLY 1 msn=2 len=4
				READ_RESPONSE_ONLY 0 msn=2 len=4
				READ_RESPONSE_ONLY 1 msn=2 len=4`},
		{"a READ repeated before its answer began is answered once", `
			+recv READ_REQUEST 0 dma=2048
			recv READ_REQUEST 0 dma=2048
				READ_RESPONSE_FIRST 0 msn=1 len=1024
				READ_RESPONSE_LAST 1 msn=1 len=1024`},
		{"a gap is NAKed once, with the expected PSN, and then nothing is said until that packet arrives", `
			recv WRITE_ONLY 0 len=4 dma=4
			recv WRITE_ONLY 2 len=4 dma=4 ackreq
				nak 1 msn=1
			recv WRITE_ONLY 3 len=4 dma=4 ackreq
			recv WRITE_ONLY 2 len=4 dma=4 ackreq
			recv WRITE_ONLY 1 len=4 dma=4 ackreq
				ack 1 msn=2
			recv WRITE_ONLY 3 len=4 dma=4 ackreq
				nak 2 msn=2`},
		{"a duplicate WRITE is acknowledged again with the last PSN received in order, and not executed", `
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 0 msn=1
			recv WRITE_ONLY 1 len=4 dma=4 ackreq
				ack 1 msn=2
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 1 msn=2`},
		{"a duplicate during an open message does not disturb it", `
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 0 msn=1
			recv WRITE_FIRST 1 len=1024 dma=2048
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 1 msn=1
			recv WRITE_LAST 2 len=1024 ackreq
				ack 2 msn=2`},
		{"a READ is answered with as many PSNs as it has packets", `
			recv READ_REQUEST 0 dma=2500 ackreq
				READ_RESPONSE_FIRST 0 msn=1 len=1024
				READ_RESPONSE_MIDDLE 1 len=1024
				READ_RESPONSE_LAST 2 msn=1 len=452
			recv WRITE_ONLY 3 len=1 dma=1 ackreq
				ack 3 msn=2
			recv READ_REQUEST 4 dma=0
				READ_RESPONSE_ONLY 4 msn=3`},
		{"a duplicate READ is executed again from where it asks", `
			recv READ_REQUEST 0 dma=2500
				READ_RESPONSE_FIRST 0 msn=1 len=1024
				READ_RESPONSE_MIDDLE 1 len=1024
				READ_RESPONSE_LAST 2 msn=1 len=452
			recv READ_REQUEST 1 va=1024 dma=1476
				READ_RESPONSE_FIRST 1 msn=1 len=1024
				READ_RESPONSE_LAST 2 msn=1 len=452
			recv READ_REQUEST 2 va=2048 dma=452
				READ_RESPONSE_ONLY 2 msn=1 len=452`},
		{"a READ replayed inside an open WRITE leaves it open", `
			recv READ_REQUEST 0 dma=1024
				READ_RESPONSE_ONLY 0 msn=1 len=1024
			recv WRITE_FIRST 1 len=1024 dma=2048
			recv READ_REQUEST 0 dma=1024
				READ_RESPONSE_ONLY 0 msn=1 len=1024
			recv WRITE_LAST 2 len=1024 ackreq
				ack 2 msn=2
			recv WRITE_FIRST 1 len=1024 dma=2048
				ack 2 msn=2`},
		{"a duplicate READ that reaches beyond what was received is dropped", `
			recv READ_REQUEST 0 dma=1024
				READ_RESPONSE_ONLY 0 msn=1 len=1024
			recv READ_REQUEST 0 dma=2048
			recv READ_REQUEST 0 dma=1024 rkey=bad`},
		{"an atomic executes once, and its result is repeated", `
			recv FETCH_ADD 0
				ATOMIC_ACKNOWLEDGE 0 msn=1 original=0
			recv FETCH_ADD 1
				ATOMIC_ACKNOWLEDGE 1 msn=2 original=1
			recv FETCH_ADD 0
				ATOMIC_ACKNOWLEDGE 0 msn=2 original=0
			recv FETCH_ADD 2
				ATOMIC_ACKNOWLEDGE 2 msn=3 original=2`},
		{"a SEND without a receive buffer is put off, and what follows it is dropped silently", `
			recv SEND_ONLY 0 len=10 ackreq
				rnr 0 msn=0
			recv SEND_ONLY 1 len=10 ackreq
			postrecv 10
			recv SEND_ONLY 0 len=10 ackreq
				done recv IBV_WC_SUCCESS len=10
				ack 0 msn=1`},
		{"a WRITE with immediate needs a receive buffer only for its last packet", `
			recv WRITE_FIRST 0 len=1024 dma=1030
			recv WRITE_LAST_IMM 1 len=6 imm=9 ackreq
				rnr 1 msn=0
			postrecv 0
			recv WRITE_LAST_IMM 1 len=6 imm=9 ackreq
				done recv IBV_WC_SUCCESS len=1030 imm=9
				ack 1 msn=1`},
		{"a SEND of several packets fills one buffer", `
			postrecv 4096
			recv SEND_FIRST 0 len=1024
			recv SEND_MIDDLE 1 len=1024
			recv SEND_LAST_IMM 2 len=1 imm=3 ackreq
				done recv IBV_WC_SUCCESS len=2049 imm=3
				ack 2 msn=1`},
		{"a SEND longer than its buffer is an invalid request", `
			postrecv 1500
			recv SEND_FIRST 0 len=1024
			recv SEND_LAST 1 len=1024 ackreq
				done recv IBV_WC_WR_FLUSH_ERR
				nak-inv 1 msn=0
			recv WRITE_ONLY 2 len=4 dma=4 ackreq`},
		{"MIDDLE without FIRST is an invalid request", `
			recv WRITE_MIDDLE 0 len=1024
				nak-inv 0 msn=0`},
		{"FIRST inside a message is an invalid request", `
			recv WRITE_FIRST 0 len=1024 dma=4096
			recv WRITE_FIRST 1 len=1024 dma=4096
				nak-inv 1 msn=0`},
		{"a SEND cannot continue a WRITE", `
			postrecv 4096
			recv WRITE_FIRST 0 len=1024 dma=4096
			recv SEND_MIDDLE 1 len=1024
				done recv IBV_WC_WR_FLUSH_ERR
				nak-inv 1 msn=0`},
		{"a READ inside a message is an invalid request", `
			recv WRITE_FIRST 0 len=1024 dma=4096
			recv READ_REQUEST 1 dma=10
				nak-inv 1 msn=0`},
		{"a FIRST shorter than the MTU is an invalid request", `
			recv WRITE_FIRST 0 len=1000 dma=4096
				nak-inv 0 msn=0`},
		{"an ONLY longer than the MTU is an invalid request", `
			recv WRITE_ONLY 0 len=1028 dma=1028
				nak-inv 0 msn=0`},
		{"an empty LAST is an invalid request", `
			recv WRITE_FIRST 0 len=1024 dma=1024
				nak-inv 0 msn=0`},
		{"a WRITE that ends before its DMA length is an invalid request", `
			recv WRITE_FIRST 0 len=1024 dma=3000
			recv WRITE_LAST 1 len=1024 ackreq
				nak-inv 1 msn=0`},
		{"a WRITE that exceeds its DMA length is an invalid request", `
			recv WRITE_FIRST 0 len=1024 dma=2000
			recv WRITE_MIDDLE 1 len=1024
				nak-inv 1 msn=0`},
		{"a wrong key is an access error", `
			recv WRITE_ONLY 0 len=4 dma=4 rkey=bad ackreq
				nak-acc 0 msn=0`},
		{"without bytes the key is not looked at", `
			recv WRITE_ONLY 0 len=0 dma=0 rkey=bad ackreq
				ack 0 msn=1`},
		{"memory outside the region is an access error", `
			recv READ_REQUEST 0 va=4000 dma=97
				nak-acc 0 msn=0`},
		{"an atomic on an odd address is an invalid request", `
			recv FETCH_ADD 0 va=4
				nak-inv 0 msn=0`},
		{"a reserved opcode is an invalid request if its turn has come", `
			recv OPCODE_0x15 0
				nak-inv 0 msn=0`},
		{"after a fatal NAK everything posted is flushed and the queue pair is silent", `
			postrecv 10
			postrecv 10
			recv WRITE_LAST 0 len=4
				done recv IBV_WC_WR_FLUSH_ERR
				done recv IBV_WC_WR_FLUSH_ERR
				nak-inv 0 msn=0
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
			postrecv 10
				done recv IBV_WC_WR_FLUSH_ERR
			post write 10
				done write 0 IBV_WC_WR_FLUSH_ERR`},
		{"packets from before the connection are duplicates", `
			recv WRITE_ONLY -1 len=4 dma=4 ackreq
				ack -1 msn=0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			qp := reliable()
			qp.RegionLength = 4096
			newScript(t, qp, Bugs{}, NotificationPoint{}).run(c.script)
		})
	}
}

func TestMSNWraps(t *testing.T) {
	s := newScript(t, reliable(), Bugs{}, NotificationPoint{})
	s.qp.resp.msn = 0xffffff
	s.run(`
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 0 msn=0
			recv READ_REQUEST 1 dma=4
				READ_RESPONSE_ONLY 1 msn=1 len=4`)
}
