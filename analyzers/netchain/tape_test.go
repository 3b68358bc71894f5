package netchain

import (
	"net/netip"

	locks "candela.dev/candela/analyzers/lock"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

const (
	ns = clock.Nanosecond
	us = clock.Microsecond
)

// serverPort is that of the lock server; clients have lower ones.
const serverPort = 3

// tape is what taps of one switch, or two, show. Its functions take the time in ns and, where they are about a request,
// client, transaction and lock. Client c is at port c; numbers of packets count from 1.
type tape struct {
	facts   []lock.NetChain
	list    []func(j *Judge)
	packets []*locks.Packet
	sw      int
	serial  uint64
}

// newTape has switches with 12 lock ids of which 3 share a lock.
func newTape() *tape {
	s := lock.NetChain{IDs: 12, Slots: 4, Lease: 100 * us, Poll: 10 * us}
	for range serverPort + 1 {
		s.Ports = append(s.Ports, lock.Port{Rate: 40 * clock.Gbps, Framing: 24})
	}
	return &tape{facts: []lock.NetChain{s}}
}

func address(host int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(host)}) }

// packet shows a packet of the lock manager and returns it.
func (t *tape) packet(at int, stage trace.SwitchStage, op netlock.Op, client, tid, id int, answer bool) *locks.Packet {
	t.serial++
	p := &locks.Packet{Time: clock.Time(clock.Duration(at) * ns), ID: t.serial, Switch: t.sw, Port: client, Stage: stage,
		Size: 62, Lock: true, Src: address(client), Dst: address(serverPort), DstPort: netlock.Port,
		Header: netlock.Header{Op: op, Mode: netlock.Exclusive, Transaction: uint32(tid), Lock: uint32(id), Timestamp: 7}}
	if answer {
		p.Src, p.Dst, p.DstPort = p.Dst, p.Src, netlock.ReplyPort
	}
	t.packets = append(t.packets, p)
	t.list = append(t.list, func(j *Judge) { j.Packet(p) })
	return p
}

func (t *tape) ask(at, client, tid, id int) *locks.Packet {
	return t.packet(at, trace.Entered, netlock.Acquire, client, tid, id, false)
}

func (t *tape) release(at, client, tid, id int) {
	t.packet(at, trace.Entered, netlock.Release, client, tid, id, false)
}

func (t *tape) grant(at, client, tid, id int) {
	t.packet(at, trace.Left, netlock.Acquire, client, tid, id, true)
}

func (t *tape) reject(at, client, tid, id int) {
	t.packet(at, trace.Left, netlock.Reject, client, tid, id, true)
}

// busy has the port of client 0 send what is not for the switch, which takes 17.2 ns.
func (t *tape) busy(at int) {
	t.packet(at, trace.Entered, netlock.Acquire, 0, 9, 9, true).Port = serverPort
	t.packet(at, trace.Left, netlock.Acquire, 0, 9, 9, true)
}

// refuse shows an answer for which its port has no room.
func (t *tape) refuse(at int, op netlock.Op, client, tid, id int) *locks.Packet {
	return t.packet(at, trace.Dropped, op, client, tid, id, true)
}

// granted and rejected show a request with its answer.
func (t *tape) granted(at, client, tid, id int) {
	t.ask(at, client, tid, id)
	t.grant(at, client, tid, id)
}

func (t *tape) rejected(at, client, tid, id int) {
	t.ask(at, client, tid, id)
	t.reject(at, client, tid, id)
}

// other shows a packet of others.
func (t *tape) other(at int, stage trace.SwitchStage, digest uint64) {
	p := t.packet(at, stage, 0, serverPort, 0, 0, false)
	*p = locks.Packet{Time: p.Time, ID: p.ID, Port: p.Port, Stage: stage, Size: 1000, Flow: 1, Digest: digest}
}

// restart has the switch out of service between two times.
func (t *tape) restart(from, to int) {
	sw, at := t.sw, func(ns int) clock.Time { return clock.Time(clock.Duration(ns) * clock.Nanosecond) }
	t.list = append(t.list, func(j *Judge) { j.Stopping(at(from), sw) }, func(j *Judge) { j.Started(at(to), sw) })
}
