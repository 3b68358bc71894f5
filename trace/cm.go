package trace

import (
	"candela.dev/candela/packet"
)

// exchanges follows the connection manager: a REQ and its REP name both queue pairs of a connection and their settings
// (IBTA volume 1, 12.9).
type exchanges struct {
	pending map[exchangeKey]packet.CM
	agreed  []agreement
	tooMany bool
}

// exchangeKey names a REQ by its way and the sender's communication id.
type exchangeKey struct {
	way flowKey
	id  uint32
}

// agreement is an agreed connection.
type agreement struct {
	way      flowKey // of the REQ
	req, rep packet.CM
}

// maxExchanges bounds what a hostile capture can make us remember.
const maxExchanges = 1 << 14

// add follows a message in a frame with that key.
func (e *exchanges) add(key flowKey, c *packet.CM) {
	way := key
	way.qpn &^= maxUint24
	switch c.Attribute {
	case packet.CMConnectRequest:
		if len(e.pending) >= maxExchanges {
			e.tooMany = true
			return
		}
		if e.pending == nil {
			e.pending = make(map[exchangeKey]packet.CM)
		}
		e.pending[exchangeKey{way, c.LocalID}] = *c
	case packet.CMConnectReply:
		k := exchangeKey{way.reverse(), c.RemoteID}
		req, ok := e.pending[k]
		if !ok || req.QPN == 0 || c.QPN == 0 {
			return
		}
		delete(e.pending, k)
		if len(e.agreed) >= maxExchanges {
			e.tooMany = true
			return
		}
		e.agreed = append(e.agreed, agreement{way.reverse(), req, *c})
	case packet.CMReject:
		delete(e.pending, exchangeKey{way.reverse(), c.RemoteID})
	default:
	}
}

// keys returns the flow keys of packets in the direction of the REQ and back.
func (x *agreement) keys() (toward, back flowKey) {
	toward, back = x.way, x.way.reverse()
	toward.qpn |= uint64(x.rep.QPN)
	back.qpn |= uint64(x.req.QPN)
	return toward, back
}

// settings returns the settings of both requesters. The timer and retry_cnt of the REQ apply to both; each side
// announces the rnr_retry of the other, of which the larger is kept.
func (x *agreement) settings() Settings {
	timeout, retry, rnr := int(x.req.Timeout), int(x.req.Retry), int(max(x.req.RNRRetry, x.rep.RNRRetry))
	return Settings{Timeout: &timeout, Retry: &retry, RNRRetry: &rnr}
}

// byExchange pairs the flows of agreed connections. A pair of queue pairs with two exchanges was reused within the
// trace: neither exchange gives its numbers.
func (p *pairing) byExchange() {
	p.agreed = make(map[int]*agreement)
	e := &p.inf.exchanges
	if e.tooMany {
		p.note("more than %d connections were set up; the connection manager's messages about the others are not used",
			maxExchanges)
	}
	reused := 0
	for i := range e.agreed {
		x := &e.agreed[i]
		toward, back := x.keys()
		a, b := int(p.inf.table.find(&toward)), int(p.inf.table.find(&back))
		if a < 0 && b < 0 {
			continue // set up, but silent
		}
		a, b = p.present(a, toward), p.present(b, back)
		if a < 0 || b < 0 || p.mate[a] != noMate && p.mate[a] != b || p.mate[b] != noMate && p.mate[b] != a {
			reused++
			continue
		}
		if p.agreed[a] != nil && (p.agreed[a].req != x.req || p.agreed[a].rep != x.rep) {
			p.agreed[a], p.agreed[b] = nil, nil
			reused++
			continue
		}
		p.join(a, b)
		p.agreed[a], p.agreed[b] = x, x
	}
	if reused > 0 {
		p.note("%d connections use queue pairs again that were used before in the capture; their numbers are inferred from "+
			"the packets", reused)
	}
}

// present returns the half with that key, a new one if i is negative.
func (p *pairing) present(i int, key flowKey) int {
	if i < 0 {
		if i = p.inf.find(key); i >= 0 {
			p.mate = append(p.mate, noMate)
		}
	}
	return i
}

// adopt takes what the two sides of a connection agreed on. toward is the half to the responder.
func (p *pairing) adopt(c *Connection, x *agreement, toward *half) {
	req, rep := x.req.StartingPSN, x.rep.StartingPSN // what the receiver of each message starts with
	a, _ := x.keys()
	if toward.key == a {
		c.Requester.QPN, c.Responder.QPN, c.Requester.IPSN, c.Responder.IPSN = x.req.QPN, x.rep.QPN, rep, req
	} else {
		c.Requester.QPN, c.Responder.QPN, c.Requester.IPSN, c.Responder.IPSN = x.rep.QPN, x.req.QPN, req, rep
	}
	if c.Requester.IP, c.Responder.IP, _ = toward.key.addrs(); x.req.MTU != 0 {
		c.MTU = int(x.req.MTU)
	}
	c.Settings, c.Exchanged = x.settings(), true
}
