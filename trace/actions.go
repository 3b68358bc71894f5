package trace

import (
	"fmt"

	"candela.dev/candela/packet"
)

// EventType says what the injector did to a packet; the values are those of the mirror encoding (Lumina's, extended).
type EventType uint8

// Event types of the mirror encoding.
const (
	EventNone      EventType = 0
	EventDrop      EventType = 1
	EventECN       EventType = 2
	EventCorrupt   EventType = 3
	EventTrim      EventType = 4
	EventDelay     EventType = 5
	EventDuplicate EventType = 6
	EventReorder   EventType = 7
	EventRewrite   EventType = 8

	// MaxEventType is the largest event type that a mirror copy's TTL may carry.
	MaxEventType = EventRewrite
)

// ReorderLimitNS bounds how long a packet waits for those that overtake it: none may follow the last packet of a flow,
// and nothing may get lost. It is far above a round trip and below the timeouts in use.
const ReorderLimitNS = 1_000_000

// An Action is what the injector can do to the packet of an event. Configuration, P4Info, pipeline, explanation,
// fuzzing and traces use this table. injector/pipeline/action.go changes the bytes of packets.
type Action struct {
	Event EventType
	Word  string // the event in configurations and reports
	Name  string // the action in the P4Info, and its id there
	ID    uint32
	Doc   string // for the reference, after the word
	Text  string // explains it: one verb of fmt for each parameter; empty: the word alone

	Software bool // only software targets have it
	DataOnly bool // control packets don't take it
	Params   []ActionParam
	// Check refuses values that are within their bounds one by one but invalid together. Optional.
	Check func(v []uint64) error
	// Departure says how the packet leaves, beyond what its mirror copy shows. Optional.
	Departure func(v []uint64) Departure

	Loses   bool // the receiver never gets the packet as it was sent
	Edits   bool // the packet that passes has other bytes than its mirror copy; in some packets there is nothing to edit
	Damages bool // the receiver finds the iCRC wrong
	Marks   bool // the packet that passes carries CE
	Late    bool // the packet leaves after later ones

	Draws int // turns among the actions that fuzzing draws; 0: only as the variant of another
}

// Printing says how people read the value of a parameter.
type Printing uint8

// Printings.
const (
	AsNumber Printing = iota
	AsDuration
	AsField
	AsHex
)

// An ActionParam is a parameter of an action.
type ActionParam struct {
	Name     string // in the P4Info, and its width there
	Bits     int
	Min, Max uint64 // Max 0: what the width holds
	Print    Printing
	Noun     string // that a number counts, in explanations

	Key      string // in configurations; empty: it has no key
	Doc      string // for the reference
	Default  uint64
	Required string // why there is no default; empty: there is one
	DefDoc   string // what the reference says of the default, if not its value

	// Fuzzing draws Low plus what is below Spread, shifted left by fewer than Magnitudes.
	Low, Spread, Magnitudes int64
}

// Actions are all actions, each event's most common one first.
var Actions = []Action{
	{Event: EventDrop, Word: "drop", Name: "drop", ID: 0x1000002, Loses: true, Draws: 4},
	{Event: EventCorrupt, Word: "corrupt", Name: "corrupt", ID: 0x1000004, Doc: "damage what the iCRC covers", Loses: true,
		Edits: true, Damages: true, Draws: 1},
	{Event: EventECN, Word: "ecn", Name: "mark_ecn", ID: 0x1000003, Doc: "set CE", Marks: true, Draws: 1},
	{Event: EventTrim, Word: "trim", Name: "trim", ID: 0x1000005, Doc: "cut off the payload", DataOnly: true,
		Loses: true, Edits: true, Draws: 1,
		Params: []ActionParam{{Name: "size", Bits: 16, Min: 1}, {Name: "dscp", Bits: 6}, {Name: "flags", Bits: 8}}},
	{Event: EventDelay, Word: "delay", Name: "delay", ID: 0x1000020, Text: "delay by %s", Software: true, Late: true,
		Draws: 2,
		Params: []ActionParam{{Name: "ns", Bits: 48, Min: 1, Max: 10_000_000_000, Print: AsDuration, Key: "delay-us",
			Doc:      "Of a delay: how long the packet is held while others pass; required.",
			Required: "a delay has to say how long it is", Low: 100, Spread: 900, Magnitudes: 10}},
		Departure: func(v []uint64) Departure { return Departure{DelayNS: int64(v[0])} }},
	{Event: EventDuplicate, Word: "duplicate", Name: "duplicate", ID: 0x1000021, Text: "%s", Software: true, Draws: 1,
		Params: []ActionParam{{Name: "n", Bits: 8, Min: 1, Noun: "duplicate", Key: "copies",
			Doc: "Of a duplicate: additional copies, sent directly after it.", Default: 1, Low: 1, Spread: 3}},
		Departure: func(v []uint64) Departure { return Departure{Copies: int(v[0])} }},
	{Event: EventReorder, Word: "reorder", Name: "reorder", ID: 0x1000022, Text: "reorder by %s",
		Doc: "later packets of the same direction overtake it", Software: true, Late: true, Draws: 1,
		Params: []ActionParam{{Name: "by", Bits: 16, Min: 1, Key: "by", Default: 1, Low: 1, Spread: 6,
			Doc: "Of a reorder: so many later packets of its direction overtake it; if they don't come it waits for 1 ms."}},
		Departure: func(v []uint64) Departure { return Departure{Behind: int(v[0]), LimitNS: ReorderLimitNS} }},
	{Event: EventRewrite, Word: "rewrite", Name: "rewrite", ID: 0x1000023, Text: "rewrite %s to %s",
		Doc: "set a header field; checksums and iCRC follow", Software: true, Edits: true, Draws: 1,
		Params: []ActionParam{
			{Name: "field", Bits: 8, Print: AsField, Key: "field", Doc: "Of a rewrite: the header field; required.",
				Required: "it takes "},
			{Name: "value", Bits: 64, Max: 1<<32 - 1, Key: "value", Required: "a rewrite has to say what the field is set to",
				Doc: "Of a rewrite: the new value; required. A psn counts from 1 like those of events."}},
		Check:     checkRewrite,
		Departure: func(v []uint64) Departure { return Departure{Field: packet.RewriteField(v[0]), Value: v[1]} }},
	{Event: EventCorrupt, Word: "corrupt", Name: "corrupt_payload", ID: 0x1000024, Text: "corrupt payload byte %s by %s",
		Software: true, DataOnly: true, Loses: true, Edits: true,
		Params: []ActionParam{
			{Name: "offset", Bits: 16, Key: "offset", DefDoc: "0 if xor is given", Spread: 256,
				Doc: "Of a corrupt: damage this byte of the payload, from 0, instead of the headers. Software targets only."},
			{Name: "xor", Bits: 8, Min: 1, Print: AsHex, Key: "xor", Default: 255, DefDoc: "255 if offset is given",
				Doc: "Of a corrupt: the bits that are flipped in the payload byte.", Low: 1, Spread: 255}}},
}

// MaxActionParams is the most parameters that an action has.
const MaxActionParams = 3

func checkRewrite(v []uint64) error {
	if f := packet.RewriteField(v[0]); f.Bits() == 0 || v[1]>>f.Bits() != 0 {
		return fmt.Errorf("field %v has %d bits, value %d needs more", f, f.Bits(), v[1])
	}
	return nil
}

// byEvent holds the first action of every event.
var byEvent = func() (rows [MaxEventType + 1]*Action) {
	rows[EventNone] = &Action{Word: "none", Name: "NoAction"}
	for i := len(Actions) - 1; i >= 0; i-- {
		rows[Actions[i].Event] = &Actions[i]
	}
	return rows
}()

// ActionOf returns the action of an event with so many parameters, the event's first if there is none.
func ActionOf(e EventType, params int) *Action {
	for i := range Actions {
		if a := &Actions[i]; a.Event == e && len(a.Params) == params {
			return a
		}
	}
	return e.Action()
}

// CheckParams refuses parameters that the contract can't hold or that mean nothing.
func (a *Action) CheckParams(v []uint64) error {
	if len(v) != len(a.Params) {
		return fmt.Errorf("%s: %d parameters, it takes %d", a.Name, len(v), len(a.Params))
	}
	for i := range a.Params {
		if p := &a.Params[i]; v[i] < p.Min || v[i] > p.most() {
			return fmt.Errorf("%s: %s %d is not in %d…%d", a.Name, p.Name, v[i], p.Min, p.most())
		}
	}
	if a.Check != nil {
		if err := a.Check(v); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	return nil
}

// most returns the largest value of a parameter.
func (p *ActionParam) most() uint64 {
	if p.Max != 0 {
		return p.Max
	}
	return 1<<p.Bits - 1
}

// Bounds returns the smallest and the largest value.
func (p *ActionParam) Bounds() (least, most int64) { return int64(p.Min), int64(p.most()) }

// Action returns the most common action of an event.
func (e EventType) Action() *Action {
	if e > MaxEventType {
		return byEvent[EventNone]
	}
	return byEvent[e]
}

// The properties of each event as bits, so that analyzers need one load for each record.
const (
	loses = 1 << iota
	edits
	damages
	marks
	late
	departs
)

var properties = func() (bits [256]uint8) {
	for e := range MaxEventType + 1 {
		a := e.Action()
		for bit, has := range map[uint8]bool{
			loses: a.Loses, edits: a.Edits, damages: a.Damages, marks: a.Marks, late: a.Late, departs: a.Departure != nil,
		} {
			if has {
				bits[e] |= bit
			}
		}
	}
	return bits
}()

// Loses reports whether the receiver never gets the packet as it was sent.
func (e EventType) Loses() bool { return properties[e]&loses != 0 }

// Edits reports whether the packet that passes has other bytes than its mirror copy. In some packets there is nothing
// to edit.
func (e EventType) Edits() bool { return properties[e]&edits != 0 }

// Arrives reports whether something of the packet reaches the receiver.
func (e EventType) Arrives() bool { return properties[e]&(loses|edits) != loses }

// Forges reports whether the receiver accepts the packet with other bytes than its mirror copy has.
func (e EventType) Forges() bool { return properties[e]&(loses|edits) == edits }

// Damages reports whether the receiver finds the iCRC wrong.
func (e EventType) Damages() bool { return properties[e]&damages != 0 }

// Marks reports whether the packet that passes carries CE.
func (e EventType) Marks() bool { return properties[e]&marks != 0 }

// Late reports whether the packet leaves after later ones.
func (e EventType) Late() bool { return properties[e]&late != 0 }

// Departs reports whether the trace needs to know how the packet left: see [Checked.WithDepartures].
func (e EventType) Departs() bool { return properties[e]&departs != 0 }

// String returns the event in the words of the configuration.
func (e EventType) String() string {
	if e <= MaxEventType {
		return e.Action().Word
	}
	return fmt.Sprintf("event(%d)", uint8(e))
}

// ParseEventType returns the event that a configuration names.
func ParseEventType(name string) (EventType, bool) {
	for i := range Actions {
		if Actions[i].Word == name {
			return Actions[i].Event, true
		}
	}
	return EventNone, false
}
