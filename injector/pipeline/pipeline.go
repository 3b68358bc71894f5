// Package pipeline is the injector's match-action pipeline in Go: parsed headers in, decisions out.
//
//	flow → arrivals → ITER or ordinal → event → mirror → forward
//
// [Pipeline.Process] never changes the packet. It decides; the owner then mirrors the packet as it arrived and lets
// [Result.Apply] edit the forwarded copy. There is no I/O, no clock and no randomness but a hash of seed and sequence,
// so the same packets and tables give the same results.
//
// # Which entry wins
//
// Each table is looked up at most once per packet, as hardware can, and a later one only if the earlier ones missed:
//
//	data packets     event (PSN, ITER)        → watched_event (slot, arrival) → event_any (PSN)
//	control packets  control_event (ordinal)  → watched_event (slot, arrival) → event_any (class, with FlowControlClass)
//
// Only the entry that wins counts a hit. Arrivals, ordinals and ITER advance whatever matches. They are 16 bits wide
// and stop at [p4.Saturated]. docs/internals/adr/0005-injector-keys.md says why the keys are as they are.
//
// # Ownership
//
// A Pipeline takes no locks. Its owner serialises everything, programming between packets included; in front of a
// P4Runtime server that is what switchd's Do is for.
package pipeline

import (
	"fmt"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// Limits of the contract's port and session numbers.
const (
	MaxPorts    = 512  // 9 bits
	MaxSessions = 1024 // size of the counter mirrored
)

// Config is what a Pipeline is built with.
type Config struct {
	Ports int    // number of ports; they are numbered from 0
	Seed  uint64 // of the UDP destination ports of mirror copies
}

// count is a counter of packets and bytes (frames without FCS).
type count struct{ packets, bytes uint64 }

func (c *count) add(bytes int) {
	c.packets++
	c.bytes += uint64(bytes)
}

// flow is the action data of a connection entry.
type flow struct {
	id    uint16
	epoch uint16
	ipsn  [2]packet.PSN // by space
}

// round is the state of one (flow, space): the registers r_epoch, r_last and r_iter of the contract.
type round struct {
	last  packet.PSN
	iter  uint16
	epoch uint16
	// filter has the filterBit of every PSN that an entry for data packets names, and possibly more: it saves most packets
	// the lookups, which miss the cache. Emptying whole tables clears it.
	filter uint64
}

// filterBit returns the bit of a PSN in filters: consecutive PSNs have different ones.
func filterBit(psn packet.PSN) uint64 { return 1 << (psn & 63) }

// arrivals is an arrival counter with its epoch in one register cell: the epoch is in the upper bits.
type arrivals uint32

// next counts one arrival in an epoch and returns its number, from 1.
func (a *arrivals) next(epoch uint16) uint16 {
	n := uint16(*a)
	if uint16(*a>>16) != epoch {
		n = 0
	}
	if n != p4.Saturated {
		n++
	}
	*a = arrivals(epoch)<<16 | arrivals(n)
	return n
}

// eventEntry is an entry of one of the four event tables, with its direct counter.
type eventEntry struct {
	action action
	hits   uint64
}

type eventTable = exact[uint64, eventEntry]

// Pipeline is one injector. Use [New].
type Pipeline struct {
	cfg Config

	v4            exact[v4Key, flow]
	v6            exact[v6Key, flow]
	event         eventTable
	eventAny      eventTable
	controlEvent  eventTable
	watch         exact[uint64, uint16] // → slot
	watchedEvent  eventTable
	l2            exact[uint64, uint16] // → port
	l2Default     int                   // port, or flood
	turns         []int32               // → session, or none
	slots         uint16                // of the open gate
	gateOpen      bool
	snap          uint32
	sessions      [MaxSessions][]uint16
	group         []uint16
	floodFrom     [][]uint16 // group less the ingress port, by ingress port
	rounds        [2 * p4.MaxFlows]round
	ordinals      [classes * p4.MaxFlows]arrivals // by flow and class
	watchArrivals [p4.MaxWatchSlots]arrivals
	seq           uint64
	turn          uint16
	runts         uint64

	usedFlows int // registers of flows from here on were never touched
	usedSlots int // those of watch slots neither

	roceRx, roceTx, pauseRx [MaxPorts]count
	mirrored                [MaxSessions]count
}

const (
	flood   = -1
	none    = -1
	classes = 16 // of packets: 4 bits
)

// New returns a pipeline with empty tables: it floods, and mirrors nothing.
func New(cfg Config) (*Pipeline, error) {
	if cfg.Ports < 1 || cfg.Ports > MaxPorts {
		return nil, fmt.Errorf("injector pipeline: %d ports, allowed are 1…%d", cfg.Ports, MaxPorts)
	}
	p := &Pipeline{cfg: cfg}
	p.Reset()
	return p, nil
}

// Reset clears tables, registers and counters, as after a push of the pipeline.
func (p *Pipeline) Reset() {
	p.v4, p.v6 = newExact[v4Key, flow](hashV4), newExact[v6Key, flow](hashV6)
	p.event, p.eventAny, p.controlEvent = newExact[uint64, eventEntry](hashInt), newExact[uint64, eventEntry](hashInt),
		newExact[uint64, eventEntry](hashInt)
	p.watch, p.watchedEvent = newExact[uint64, uint16](hashInt), newExact[uint64, eventEntry](hashInt)
	p.l2, p.l2Default = newExact[uint64, uint16](hashInt), flood
	p.turns, p.slots, p.gateOpen, p.snap = nil, 0, false, 0
	p.group, p.floodFrom = nil, make([][]uint16, p.cfg.Ports)
	p.seq, p.turn, p.runts = 0, 0, 0
	clear(p.sessions[:])
	clear(p.mirrored[:])
	clear(p.roceRx[:])
	clear(p.roceTx[:])
	clear(p.pauseRx[:])
	// Registers are a megabyte, of which most tests touch a few bytes.
	clear(p.rounds[:2*p.usedFlows])
	clear(p.ordinals[:classes*p.usedFlows])
	clear(p.watchArrivals[:p.usedSlots])
	p.usedFlows, p.usedSlots = 0, 0
}

// Reseed makes the pipeline continue as if it was created with this seed.
func (p *Pipeline) Reseed(seed uint64) { p.cfg.Seed = seed }

// Ports returns the number of ports.
func (p *Pipeline) Ports() int { return p.cfg.Ports }

// Runts returns how many packets an action let pass because there was nothing to cut or change. The contract has no
// counter for them; this is for the owner's diagnostics.
func (p *Pipeline) Runts() uint64 { return p.runts }

// Keys of the integer tables: the contract's fields side by side, with occupied on top.

func eventKey(flow uint16, space packet.Space, psn packet.PSN, iter uint16) uint64 {
	return occupied | uint64(flow)<<41 | uint64(space)<<40 | uint64(psn)<<16 | uint64(iter)
}

func eventAnyKey(flow uint16, space packet.Space, psn packet.PSN) uint64 {
	return occupied | uint64(flow)<<25 | uint64(space)<<24 | uint64(psn)
}

func controlKey(flow uint16, class packet.Class, ordinal uint16) uint64 {
	return occupied | uint64(flow)<<20 | uint64(class)<<16 | uint64(ordinal)
}

func watchKey(flow uint16, space packet.Space, class packet.Class, psn packet.PSN) uint64 {
	return occupied | uint64(flow)<<29 | uint64(space)<<28 | uint64(class)<<24 | uint64(psn)
}

func watchedKey(slot, nth uint16) uint64 { return occupied | uint64(slot)<<16 | uint64(nth) }

func macKey(m uint64) uint64 { return occupied | m }
