package switchtest

import (
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// connections says which flow a packet belongs to.
type connections struct {
	speaks [256]*transport.Transport // by protocol
	named  map[uint64]int            // flow number of every connection, of requests and responses, too
	owner  map[uint64]int32          // flow number less 1, by protocol, sender and connection
}

func newConnections(p *Plan) *connections {
	c := &connections{named: make(map[uint64]int), owner: make(map[uint64]int32)}
	for _, t := range transports() {
		if c.speaks[t.Protocol] == nil || p.speaks(&t) { // the kernel's TCP and ours are one protocol, and share no test
			c.speaks[t.Protocol] = &t
		}
	}
	return c
}

// Name implements transport.Books.
func (c *connections) Name(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int) {
	c.named[ownerKey(protocol, sender, connection)] = flow
}

// Own implements transport.Books.
func (c *connections) Own(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int) {
	c.owner[ownerKey(protocol, sender, connection)] = int32(flow - 1)
}

// Turn implements transport.Books: only taps ask.
func (c *connections) Turn(fabric.Protocol, fabric.HostID, uint32, int) {}

func ownerKey(protocol fabric.Protocol, sender fabric.HostID, connection uint32) uint64 {
	return uint64(protocol)<<56 | uint64(sender)<<32 | uint64(connection)
}

// flowOfConnection returns the number of the flow that the data of a sender's connection belong to, 0 if none.
func (c *connections) flowOfConnection(protocol fabric.Protocol, sender fabric.HostID, connection uint32) int {
	i, ok := c.owner[ownerKey(protocol, sender, connection)]
	if !ok {
		return 0
	}
	return int(i) + 1
}
