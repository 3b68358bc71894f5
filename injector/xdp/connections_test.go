//go:build linux

package xdp_test

import (
	"testing"

	"github.com/cilium/ebpf"

	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet"
)

// apart is the distance of two queue pair numbers whose connections use the same cell.
const apart = 4 * p4.MaxFlows

// pairOf are the numbers of two such connections of a Crowd.
var pairOf = [2]int{5, 5 + apart}

func TestConnectionsThatWantTheSameCellAreKeptApart(t *testing.T) {
	linktest.Namespace(t, func() {
		d, _ := open(t, xdp.Config{CPU: -1})
		if err := datapathtest.Program(d, datapathtest.Case{}); err != nil {
			t.Fatal(err)
		}
		c := newCellTest(t, d)
		c.want("no connection", 0, 0)
		c.set(0, 1)
		c.want("the first", 1, 0)
		c.set(1, 2)
		c.want("both", 1, 2)
		c.set(0, 3)
		c.want("the first is another flow", 3, 2)
		c.set(1, 4)
		c.want("the second is another flow", 3, 4)
		c.unset(0)
		c.want("the first is gone", 0, 4)
		c.set(0, 1)
		c.set(1, 2)
		c.want("the first comes back", 1, 2)
		c.unset(1)
		c.want("the second is gone", 1, 0)
		c.set(1, 3)
		c.unset(0)
		c.want("they change places", 0, 3)
		d.Reset()
		c.program()
		c.want("after a reset", 0, 0)
		for range apart { // more than there are slots
			c.set(0, 1)
		}
		c.set(0, 2)
		c.want("a connection that changes often", 2, 0)
	})
}

// cellTest has two connections that use the same cell, and an event in each possible flow.
type cellTest struct {
	*testing.T
	d      *xdp.Datapath
	keys   [2]p4.Key
	frames [2][]byte
	events [5]p4.Key // by flow
}

func newCellTest(t *testing.T, d *xdp.Datapath) *cellTest {
	c := &cellTest{T: t, d: d}
	crowd := datapathtest.Crowd(pairOf[1] + 1)
	psn := uint64(0)
	for i, n := range pairOf {
		c.keys[i], c.frames[i] = crowd[2*n].Key, datapathtest.FlowFrame(n)
		var p packet.Packet
		if err := p.Parse(c.frames[i]); err != nil {
			t.Fatal(err)
		}
		psn = uint64(p.BTH.PSN)
	}
	for flow := range uint64(len(c.events)) {
		c.events[flow] = p4.KeyOf(flow, 0, psn)
	}
	c.program()
	return c
}

func (c *cellTest) program() {
	c.Helper()
	for _, key := range c.events {
		if err := c.d.Set(p4.TableEventAny, key, p4.NewAction(p4.ActionMarkECN)); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cellTest) set(which int, flow uint64) {
	c.Helper()
	if err := c.d.Set(p4.TableConnectionV4, c.keys[which], p4.NewAction(p4.ActionSetFlow, flow, 0, 0, 1)); err != nil {
		c.Fatal(err)
	}
}

func (c *cellTest) unset(which int) { c.d.Unset(p4.TableConnectionV4, c.keys[which]) }

// want sends a packet of each connection and checks its flow; 0 is none.
func (c *cellTest) want(when string, flows ...int) {
	c.Helper()
	for which, flow := range flows {
		var want, got [len(c.events)]uint64
		for i, key := range c.events {
			want[i] = c.d.Hits(p4.TableEventAny, key)
		}
		if _, err := c.d.Program(0).Run(&ebpf.RunOptions{Data: c.frames[which], Repeat: 1}); err != nil {
			c.Fatal(err)
		}
		for i, key := range c.events {
			got[i] = c.d.Hits(p4.TableEventAny, key)
		}
		if flow > 0 {
			want[flow]++
		}
		if got != want {
			c.Errorf("%s: a packet of connection %d: hits by flow %d, want %d", when, which, got, want)
		}
	}
	if err := c.d.Fault(); err != nil {
		c.Error(err)
	}
}
