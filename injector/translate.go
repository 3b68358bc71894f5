package injector

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// ErrUnsupported is what errors about abilities that a target lacks answer to.
var ErrUnsupported = errors.New("not supported by the injection target")

// Options says for whom to translate.
type Options struct {
	Target string   // name of the target, for errors
	Info   *p4.Info // what the target serves; nil: the base contract
	Epoch  uint16   // of the run, not 0
}

// Entry is a table entry to be.
type Entry struct {
	Table  uint32
	Key    p4.Key
	Action p4.Action
	// Intent is the place of the entry's intent in the translated list, or −1. An intent counts its hits on exactly one
	// entry, the one with its event's action.
	Intent int
}

// Program is what a test needs in the injector's tables besides forwarding and mirroring. Entries are in the order in
// which they are to be written.
type Program struct {
	Target  string
	Epoch   uint16
	Info    *p4.Info
	Entries []Entry

	conns   []Connection
	intents []Intent
	watches map[uint16]p4.Key // slot → key of table watch
}

// Translate turns connections and events into table entries. It is pure: the same arguments give the same program. All
// errors are reported together; those about missing abilities match ErrUnsupported.
func Translate(conns []Connection, intents []Intent, opts Options) (*Program, error) {
	if opts.Info == nil {
		opts.Info = p4.Base()
	}
	if opts.Epoch == 0 {
		return nil, errors.New("translate events: epoch 0 is that of registers never used")
	}
	t := &translation{
		Program: Program{Target: opts.Target, Epoch: opts.Epoch, Info: opts.Info, conns: conns,
			intents: intents, watches: map[uint16]p4.Key{}},
		slots:  map[p4.Key]uint16{},
		scopes: map[trace.FlowID]int{},
		claims: newClaims(),
	}
	t.chooseScopes()
	t.connections()
	for i := range intents {
		t.intent(i)
	}
	t.checkCapacity()
	if err := errors.Join(t.errs...); err != nil {
		return nil, err
	}
	return &t.Program, nil
}

// translation is a Program in the making.
type translation struct {
	Program
	slots  map[p4.Key]uint16    // watch key → slot
	scopes map[trace.FlowID]int // flow → first intent that fixes its ITER rule
	claims claims
	errs   []error
}

func (t *translation) fail(format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf(format, args...))
}

// failIntent reports a problem of intent i as a path from the configuration to the cause.
func (t *translation) failIntent(i int, err error) {
	where := ""
	if w := t.intents[i].Where; w != "" {
		where = w + ": "
	}
	t.errs = append(t.errs, fmt.Errorf("%s%w", where, err))
}

// addressesITER reports whether the intent depends on the ITER rule of its flow.
func (in *Intent) addressesITER() bool {
	return in.Class == packet.ClassData && in.Nth != Any && in.Scope != IterPacket
}

// chooseScopes records which flows count ITER per message. A flow has one scope, so its events must agree.
func (t *translation) chooseScopes() {
	for i := range t.intents {
		in := &t.intents[i]
		if !in.addressesITER() {
			continue
		}
		first, ok := t.scopes[in.Flow]
		if !ok {
			t.scopes[in.Flow] = i
			continue
		}
		if t.intents[first].Scope != in.Scope {
			t.failIntent(i, fmt.Errorf("event %d (%s): iter-scope %s, but event %d on the same flow has %s", in.Index, in,
				in.Scope, t.intents[first].Index, t.intents[first].Scope))
		}
	}
}

// flowID returns the id of a flow in tables: its index and the options described in the ADR on keys.
func (t *translation) flowID(flow trace.FlowID) uint64 {
	id := uint64(flow)
	if i, ok := t.scopes[flow]; ok && t.intents[i].Scope == IterMessage {
		id |= p4.FlowMessageScope
	}
	return id
}

// initialPSN returns the first PSN of a space. Requests start at their sender's IPSN; responses have the PSNs of the
// requests that they answer, from the peer.
func (c Connection) initialPSN(reverse bool, space packet.Space) packet.PSN {
	if reverse == (space == packet.Requests) {
		return c.Responder.IPSN
	}
	return c.Requester.IPSN
}

func (t *translation) connections() {
	if limit := p4.MaxFlows / 2; len(t.conns) > limit {
		t.fail("program connections: %d connections, the injector keeps state for %d", len(t.conns), limit)
		return
	}
	taken := map[p4.Key]int{}
	for i, c := range t.conns {
		if id := connectionTable(c.Requester); t.Info.Table(id) == nil {
			t.errs = append(t.errs, fmt.Errorf("program connections: connection %d (%v → %v): target %q has no table %q: %w",
				i+1, c.Requester.IP, c.Responder.IP, t.Target, p4.Base().Table(id).Name, ErrUnsupported))
			return
		}
		for _, reverse := range []bool{false, true} {
			src, dst := c.Requester, c.Responder
			if reverse {
				src, dst = dst, src
			}
			if err := checkEndpoints(src, dst); err != nil {
				t.fail("program connections: connection %d: %w", i+1, err)
				break
			}
			e := t.connectionEntry(trace.NewFlowID(i+1, reverse), c, src, dst)
			if first, dup := taken[e.Key]; dup {
				t.fail("program connections: connection %d: packets %v → %v to QPN %v are already those of connection %d", i+1,
					src.IP, dst.IP, dst.QPN, first)
			}
			taken[e.Key] = i + 1
			t.Entries = append(t.Entries, e)
		}
	}
}

func checkEndpoints(src, dst Endpoint) error {
	switch {
	case !src.IP.IsValid() || !dst.IP.IsValid():
		return errors.New("an endpoint has no IP address")
	case src.IP.Is4In6() || dst.IP.Is4In6():
		return fmt.Errorf("addresses %v and %v: IPv4-mapped addresses do not occur in packets", src.IP, dst.IP)
	case src.IP.Is4() != dst.IP.Is4():
		return fmt.Errorf("addresses %v and %v are not of one IP version", src.IP, dst.IP)
	case dst.QPN > 1<<24-1:
		return fmt.Errorf("QPN %#x needs more than 24 bits", uint32(dst.QPN))
	}
	return nil
}

func (t *translation) connectionEntry(flow trace.FlowID, c Connection, src, dst Endpoint) Entry {
	return Entry{
		Table: connectionTable(src),
		Key:   p4.Key{p4.AddrValue(src.IP), p4.AddrValue(dst.IP), p4.Uint(uint64(dst.QPN))},
		Action: p4.NewAction(p4.ActionSetFlow, t.flowID(flow), uint64(c.initialPSN(flow.Reverse(), packet.Requests)),
			uint64(c.initialPSN(flow.Reverse(), packet.Responses)), uint64(t.Epoch)),
		Intent: -1,
	}
}

// connectionTable returns the table that has the connections of an endpoint.
func connectionTable(e Endpoint) uint32 {
	if e.IP.Is4() {
		return p4.TableConnectionV4
	}
	return p4.TableConnectionV6
}

// intent translates one event.
func (t *translation) intent(i int) {
	in := &t.intents[i]
	if err := t.checkIntent(in); err != nil {
		t.failIntent(i, fmt.Errorf("event %d (%s): %w", in.Index, in, err))
		return
	}
	if other, clash := t.claims.claim(in, i); clash {
		o := &t.intents[other]
		t.failIntent(i, fmt.Errorf("event %d (%s): two actions on one packet: event %d (%s) is %s, this one %s", in.Index, in,
			o.Index, o, o.Action.Type, in.Action.Type))
		return
	}
	table, key, err := t.place(in)
	if err == nil {
		err = t.offers(table, in)
	}
	if err != nil {
		t.failIntent(i, err)
		return
	}
	a := in.Action.Absolute(t.conns[in.Flow.Connection()-1].initialPSN(in.Flow.Reverse(), in.Space))
	t.Entries = append(t.Entries, Entry{table, key, p4.NewAction(a.Row().ID, a.Params...), i})
}

func (t *translation) checkIntent(in *Intent) error {
	const period = 1 << 24 // of PSNs
	switch {
	case in.Flow < 0 || in.Flow.Connection() > len(t.conns):
		return fmt.Errorf("there is no connection %d (the test has %d)", in.Flow.Connection(), len(t.conns))
	case in.Class > packet.ClassAtomicAck:
		return fmt.Errorf("packets of class %s can't be addressed", in.Class)
	case in.RelPSN < 0 || in.RelPSN > period:
		return fmt.Errorf("psn %d is not in 1…%d", in.RelPSN, period)
	case in.RelPSN == 0 && in.Class == packet.ClassData:
		return errors.New("a data packet is addressed by its psn")
	case in.RelPSN != 0 && in.Class == packet.ClassCNP:
		return errors.New("a cnp is outside the PSN stream: address it by nth alone")
	case in.RelPSN != 0 && in.Class != packet.ClassData && in.Space != spaceOf(in.Class):
		return fmt.Errorf("packets of class %s are in space %s, not %s", in.Class, spaceOf(in.Class), in.Space)
	case in.Nth == p4.Saturated:
		return fmt.Errorf("%d is where the injector's counts stop; at most %d can be addressed", in.Nth, p4.Saturated-1)
	}
	return in.Action.check()
}

// spaceOf returns the PSN space of a class of control packets.
func spaceOf(c packet.Class) packet.Space {
	if c == packet.ClassReadRequest || c == packet.ClassCNP {
		return packet.Requests
	}
	return packet.Responses
}

// place chooses the table and the key that address the intent's packet, and allocates a watch slot if it needs one.
func (t *translation) place(in *Intent) (uint32, p4.Key, error) {
	flow, nth := t.flowID(in.Flow), uint64(in.Nth)
	switch {
	case in.RelPSN == 0 && in.Nth == Any:
		return p4.TableEventAny, p4.KeyOf(flow|p4.FlowControlClass, 0, uint64(in.Class)), nil
	case in.RelPSN == 0:
		return p4.TableControlEvent, p4.KeyOf(flow, uint64(in.Class), nth), nil
	}
	c := t.conns[in.Flow.Connection()-1]
	psn := uint64(c.initialPSN(in.Flow.Reverse(), in.Space).Add(int(in.RelPSN - 1)))
	if in.Class == packet.ClassData && in.Nth == Any {
		return p4.TableEventAny, p4.KeyOf(flow, uint64(in.Space), psn), nil
	}
	if in.addressesITER() {
		return p4.TableEvent, p4.KeyOf(flow, uint64(in.Space), psn, nth), nil
	}
	if t.Info.Table(p4.TableWatch) == nil {
		return p4.TableWatch, p4.Key{}, nil // which offers refuses
	}
	slot, err := t.slot(p4.KeyOf(flow, uint64(in.Space), uint64(in.Class), psn), in.Nth == Any)
	return p4.TableWatchedEvent, p4.KeyOf(uint64(slot), nth), err
}

// slot returns the watch slot of a packet, a new one for a packet not yet watched.
func (t *translation) slot(watch p4.Key, every bool) (uint16, error) {
	if s, ok := t.slots[watch]; ok {
		return s, nil
	}
	if len(t.slots) >= p4.MaxWatchSlots {
		return 0, fmt.Errorf("program watch table: more than %d watched packets", p4.MaxWatchSlots)
	}
	s := uint16(len(t.slots))
	if every {
		s |= p4.WatchEvery
	}
	t.slots[watch], t.watches[s] = s, watch
	t.Entries = append(t.Entries, Entry{p4.TableWatch, watch, p4.NewAction(p4.ActionSetWatch, uint64(s)), -1})
	return s, nil
}

// offers checks that the target's table has the intent's action.
func (t *translation) offers(table uint32, in *Intent) error {
	info, name := t.Info.Table(table), in.Action.Row().Name
	if info == nil {
		return fmt.Errorf("program event %d (%s): target %q has no table %q: %w", in.Index, in, t.Target,
			p4.Base().Table(table).Name, ErrUnsupported)
	}
	if slices.Contains(info.EntryActions(), name) {
		return nil
	}
	return &unsupportedActionError{table: info.Name, index: in.Index, event: in.String(), target: t.Target, action: name,
		offered: info.EntryActions()}
}

func (t *translation) checkCapacity() {
	used := map[uint32]int{}
	for _, e := range t.Entries {
		used[e.Table]++
	}
	for _, table := range t.Info.Tables() { // entries for tables that it lacks were refused
		if used[table.ID] > table.Size {
			t.fail("program %s table: %d entries, target %q has room for %d", table.Name, used[table.ID], t.Target,
				table.Size)
		}
	}
}

// unsupportedActionError says that a table of a target lacks an action.
type unsupportedActionError struct {
	table          string
	index          int
	event          string
	target, action string
	offered        []string
}

// Error names event, target, action, and what there is instead.
func (e *unsupportedActionError) Error() string {
	return fmt.Sprintf("program %s table: entry %d (%s): target %q offers no %q (it has: %s)", e.table, e.index, e.event,
		e.target, e.action, strings.Join(e.offered, ", "))
}

// Is makes it an ErrUnsupported.
func (e *unsupportedActionError) Is(target error) bool { return target == ErrUnsupported }
