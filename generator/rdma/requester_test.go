package rdma

import "testing"

// Each script tests one rule of the requester (IBTA volume 1, 9.7.2 to 9.7.6). The PSN wraps at the third packet.
func TestRequester(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"a message is cut at the MTU and its last packet demands an ACK", `
			post write 2500
				WRITE_FIRST 0 len=1024 va=0 dma=2500
				WRITE_MIDDLE 1 len=1024
				WRITE_LAST 2 len=452 ackreq
			recv ack 2
				done write 0 IBV_WC_SUCCESS`},
		{"the smallest messages are one packet", `
			post write 0
				WRITE_ONLY 0 va=0 dma=0 ackreq
			post write-imm 1024
				WRITE_ONLY_IMM 1 len=1024 va=0 dma=1024 ackreq
			post send 1
				SEND_ONLY 2 len=1 ackreq
			post send-imm 1025
				SEND_FIRST 3 len=1024
				SEND_LAST_IMM 4 len=1 ackreq
			recv ack 4
				done write 0 IBV_WC_SUCCESS
				done write-imm 1 IBV_WC_SUCCESS
				done send 2 IBV_WC_SUCCESS
				done send-imm 3 IBV_WC_SUCCESS`},
		{"an ACK acknowledges everything before it, even in the middle of a message", `
			post write 1024
				WRITE_ONLY 0 len=1024 va=0 dma=1024 ackreq
			post write 2048
				WRITE_FIRST 1 len=1024 va=0 dma=2048
				WRITE_LAST 2 len=1024 ackreq
			recv ack 1
				done write 0 IBV_WC_SUCCESS
			recv ack 0
			recv ack 2
				done write 1 IBV_WC_SUCCESS`},
		{"acknowledgements of packets never sent are ignored", `
			post write 1024
				WRITE_ONLY 0 len=1024 va=0 dma=1024 ackreq
			recv ack 1
			recv nak 1
			recv READ_RESPONSE_ONLY 1 len=4
			recv ack 0
				done write 0 IBV_WC_SUCCESS`},
		{"a NAK acknowledges what precedes it and restarts transmission there", `
			post write 1024
				WRITE_ONLY 0 len=1024 va=0 dma=1024 ackreq
			post write 3072
				WRITE_FIRST 1 len=1024 va=0 dma=3072
				WRITE_MIDDLE 2 len=1024
				WRITE_LAST 3 len=1024 ackreq
			recv nak 2
				done write 0 IBV_WC_SUCCESS
				WRITE_MIDDLE 2 len=1024
				WRITE_LAST 3 len=1024 ackreq
			recv ack 3
				done write 1 IBV_WC_SUCCESS`},
		{"silence makes everything unacknowledged be retransmitted, until the retries are exhausted", `
			post write 2048
				WRITE_FIRST 0 len=1024 va=0 dma=2048
				WRITE_LAST 1 len=1024 ackreq
			post write 4
				WRITE_ONLY 2 len=4 va=0 dma=4 ackreq
			wait 1030us
			wait 5us
				WRITE_FIRST 0 len=1024 va=0 dma=2048
				WRITE_LAST 1 len=1024 ackreq
				WRITE_ONLY 2 len=4 va=0 dma=4 ackreq
			wait 1060us
				WRITE_FIRST 0 len=1024 va=0 dma=2048
				WRITE_LAST 1 len=1024 ackreq
				WRITE_ONLY 2 len=4 va=0 dma=4 ackreq
			wait 1060us
				done write 0 IBV_WC_RETRY_EXC_ERR
				done write 1 IBV_WC_WR_FLUSH_ERR
			post write 4
				done write 2 IBV_WC_WR_FLUSH_ERR`},
		{"an ACK inside a message restarts the timer, but does not restore the retries", `
			post write 2048
				WRITE_FIRST 0 len=1024 va=0 dma=2048
				WRITE_LAST 1 len=1024 ackreq
			wait 2200us
				WRITE_FIRST 0 len=1024 va=0 dma=2048
				WRITE_LAST 1 len=1024 ackreq
				WRITE_FIRST 0 len=1024 va=0 dma=2048
				WRITE_LAST 1 len=1024 ackreq
			recv ack 0
			wait 1030us
			wait 20us
				done write 0 IBV_WC_RETRY_EXC_ERR`},
		{"a completed request restores the retries", `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			post write 4
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
			wait 2200us
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
			recv ack 0
				done write 0 IBV_WC_SUCCESS
			wait 3200us
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
				done write 1 IBV_WC_RETRY_EXC_ERR`},
		{"a NAK that names a later packet restores the retries", `
			post write 4096
				WRITE_FIRST 0 len=1024 va=0 dma=4096
				WRITE_MIDDLE 1 len=1024
				WRITE_MIDDLE 2 len=1024
				WRITE_LAST 3 len=1024 ackreq
			recv nak 0
				WRITE_FIRST 0 len=1024 va=0 dma=4096
				WRITE_MIDDLE 1 len=1024
				WRITE_MIDDLE 2 len=1024
				WRITE_LAST 3 len=1024 ackreq
			recv nak 1
				WRITE_MIDDLE 1 len=1024
				WRITE_MIDDLE 2 len=1024
				WRITE_LAST 3 len=1024 ackreq
			recv nak 2
				WRITE_MIDDLE 2 len=1024
				WRITE_LAST 3 len=1024 ackreq
			recv nak 3
				WRITE_LAST 3 len=1024 ackreq`},
		{"NAKs count against the retries", `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			recv nak 0
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			recv nak 0
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			recv nak 0
				done write 0 IBV_WC_RETRY_EXC_ERR`},
		{"a late ACK of the previous round shortens the repetition", `
			post write 3072
				WRITE_FIRST 0 len=1024 va=0 dma=3072
				WRITE_MIDDLE 1 len=1024
				WRITE_LAST 2 len=1024 ackreq
			wait 1039.8us
			recv ack 1
				WRITE_LAST 2 len=1024 ackreq`},
		{"an ACK of everything makes the repetition superfluous", `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			wait 1039.8us
			recv ack 0
				done write 0 IBV_WC_SUCCESS
			post write 4
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq`},
		{"a NAK that repeats one not yet obeyed costs no further retry", `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			+recv nak 0
			+recv nak 0
			recv nak 0
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			recv nak 0
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq`},
		{"a NAK that meets the repetition on its way there only acknowledges", `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			post write 4
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
			wait 1034.8us
			recv nak 1
				done write 0 IBV_WC_SUCCESS
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq`},
		{"receiver not ready: the request is repeated after the time that the NAK names", `
			post send 4
				SEND_ONLY 0 len=4 ackreq
			recv rnr 0 code=2
			wait 10us
			wait 1us
				SEND_ONLY 0 len=4 ackreq
			recv rnr 0 code=1
			wait 2us
				SEND_ONLY 0 len=4 ackreq
			recv rnr 0 code=1
				done send 0 IBV_WC_RNR_RETRY_EXC_ERR`},
		{"READ responses complete a READ in order and acknowledge what precedes it", `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			post read 2048
				READ_REQUEST 1 va=0 dma=2048 ackreq
			recv READ_RESPONSE_FIRST 1 len=1024
				done write 0 IBV_WC_SUCCESS
			recv READ_RESPONSE_LAST 2 len=1024
				done read 1 IBV_WC_SUCCESS`},
		{"a READ response ahead of its turn is an implied NAK, once: the rest is asked for again", `
			post read 4096
				READ_REQUEST 0 va=0 dma=4096 ackreq
			recv READ_RESPONSE_FIRST 0 len=1024
			recv READ_RESPONSE_MIDDLE 2 len=1024
				READ_REQUEST 1 va=1024 dma=3072 ackreq
			recv READ_RESPONSE_LAST 3 len=1024
			recv READ_RESPONSE_FIRST 1 len=1024
			recv READ_RESPONSE_MIDDLE 2 len=1024
			recv READ_RESPONSE_LAST 3 len=1024
				done read 0 IBV_WC_SUCCESS
			recv READ_RESPONSE_LAST 3 len=1024`},
		{"a replay that goes on with MIDDLE is accepted, as Linux sends it", `
			post read 3072
				READ_REQUEST 0 va=0 dma=3072 ackreq
			recv READ_RESPONSE_FIRST 0 len=1024
			recv READ_RESPONSE_LAST 2 len=1024
				READ_REQUEST 1 va=1024 dma=2048 ackreq
			recv READ_RESPONSE_MIDDLE 1 len=1024
			recv READ_RESPONSE_LAST 2 len=1024
				done read 0 IBV_WC_SUCCESS`},
		{"an ACK of a later request is an implied NAK of a READ without responses", `
			post read 1024
				READ_REQUEST 0 va=0 dma=1024 ackreq
			post write 4
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
			recv ack 1
				READ_REQUEST 0 va=0 dma=1024 ackreq
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
			recv READ_RESPONSE_ONLY 0 len=1024
				done read 0 IBV_WC_SUCCESS
			recv ack 1
				done write 1 IBV_WC_SUCCESS`},
		{"a READ response too long or at the wrong end is a bad response", `
			post read 2048
				READ_REQUEST 0 va=0 dma=2048 ackreq
			recv READ_RESPONSE_ONLY 0 len=1024
				done read 0 IBV_WC_BAD_RESP_ERR`},
		{"no more READs are outstanding than the responder can hold", `
			post read 4
				READ_REQUEST 0 va=0 dma=4 ackreq
			post read 4
				READ_REQUEST 1 va=0 dma=4 ackreq
			post read 4
			post write 4
			recv READ_RESPONSE_ONLY 0 len=4
				done read 0 IBV_WC_SUCCESS
				READ_REQUEST 2 va=0 dma=4 ackreq
				WRITE_ONLY 3 len=4 va=0 dma=4 ackreq`},
		{"an invalid request fails the request that the NAK names", `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			post write 4
				WRITE_ONLY 1 len=4 va=0 dma=4 ackreq
			post write 4
				WRITE_ONLY 2 len=4 va=0 dma=4 ackreq
			recv nak-inv 1
				done write 0 IBV_WC_SUCCESS
				done write 1 IBV_WC_REM_INV_REQ_ERR
				done write 2 IBV_WC_WR_FLUSH_ERR`},
		{"an access error has its status", `
			post read 4
				READ_REQUEST 0 va=0 dma=4 ackreq
			recv nak-acc 0
				done read 0 IBV_WC_REM_ACCESS_ERR`},
		{"an operational error has its status", `
			post compare-swap 8
				CMP_SWAP 0 ackreq
			recv nak-op 0
				done compare-swap 0 IBV_WC_REM_OP_ERR`},
		{"an atomic is completed by its own response only", `
			post fetch-add 8
				FETCH_ADD 0 ackreq
			recv ack 0
				FETCH_ADD 0 ackreq
			recv ATOMIC_ACKNOWLEDGE 0
				done fetch-add 0 IBV_WC_SUCCESS`},
	} {
		t.Run(c.name, func(t *testing.T) {
			qp := reliable()
			qp.RetryCount, qp.RNRRetry, qp.MaxReads = 2, 2, 2
			qp.FixIPSN, qp.IPSN = true, 0xfffffe
			newScript(t, qp, Bugs{}, NotificationPoint{}).run(c.script)
		})
	}
}

// Old and new PSNs must stay distinct: less than half of the PSN space is outstanding, whatever is posted.
func TestLessThanHalfThePSNSpaceIsOutstanding(t *testing.T) {
	qp := reliable()
	qp.MTU, qp.Timeout = 256, 0
	newScript(t, qp, Bugs{}, NotificationPoint{}).run(`
			post read 1500000000
				READ_REQUEST 0 va=0 dma=1500000000 ackreq
			post read 1500000000
			post write 4
			recv READ_RESPONSE_FIRST 0 len=256`)
}
