package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// committed is a packet in the transmit pipeline. It can be neither cancelled nor overtaken.
type committed struct {
	packet  packet.Packet
	q       *QP
	request bool
	demands bool // a request with AckReq
}

// commit fills the transmit pipeline from all queue pairs in turn. Fetching is faster than any wire, so the pipeline is
// full whenever there is enough to send. A retransmission enters it after all committed packets.
func (n *NIC) commit(now clock.Time) {
	for n.pipe.len() < n.profile.PipelineDepth && n.data.len() > 0 {
		q := n.data.pop()
		q.inData = false
		c := n.pipe.extend()
		response, ok := q.pollData(now, &c.packet)
		if ok {
			c.q, c.request, c.demands = q, !response, !response && c.packet.BTH.AckReq
			if response {
				q.responsesInPipe++
			}
		} else {
			n.pipe.shrink()
		}
		q.schedule(now)
	}
}

// pollPipeline fills p with the oldest committed packet. It discards requests of a queue pair that has failed since.
func (n *NIC) pollPipeline(now clock.Time, p *packet.Packet) bool {
	n.commit(now)
	for n.pipe.len() > 0 {
		c := n.pipe.at(0)
		q, request, demands := c.q, c.request, c.demands
		leaves := !request || q.state == stateReady
		if leaves {
			*p = c.packet
		}
		n.pipe.drop()
		if !request {
			q.responsesInPipe--
		}
		if leaves && demands {
			q.req.demanded(now)
		}
		q.schedule(now)
		if leaves {
			return true
		}
	}
	return false
}
