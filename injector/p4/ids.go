package p4

// Ids of the contract. Tests compare them with the P4Info.
const (
	TableConnectionV4 uint32 = 33554433
	TableConnectionV6 uint32 = 33554434
	TableEvent        uint32 = 33554435
	TableEventAny     uint32 = 33554436
	TableControlEvent uint32 = 33554437
	TableWatch        uint32 = 33554438
	TableWatchedEvent uint32 = 33554439
	TableL2Forward    uint32 = 33554440
	TableMirrorSlot   uint32 = 33554441
	TableMirror       uint32 = 33554442
	TableMirrorEgress uint32 = 33554448

	ActionNoAction      uint32 = 21257015
	ActionSetFlow       uint32 = 16777217
	ActionDrop          uint32 = 16777218
	ActionMarkECN       uint32 = 16777219
	ActionCorrupt       uint32 = 16777220
	ActionTrim          uint32 = 16777221
	ActionForward       uint32 = 16777222
	ActionFlood         uint32 = 16777223
	ActionSelectSession uint32 = 16777224
	ActionSetWatch      uint32 = 16777225
	ActionOpen          uint32 = 16777226
	ActionSetSnap       uint32 = 16777232

	CounterRoCERx   uint32 = 301989889
	CounterMirrored uint32 = 301989890
	CounterPauseRx  uint32 = 301989891
	CounterRoCETx   uint32 = 301989892
)

// Numbers that the contract fixes besides the P4Info; docs/internals/adr/0005-injector-keys.md gives the reasons.
const (
	// FloodGroup is the multicast group of flood().
	FloodGroup = 1
	// MaxFlows is how many flows have registers: flow indices are 0 … MaxFlows−1.
	MaxFlows = 4096
	// FlowIndexMask selects the index of the registers in a flow id; the bits above are options.
	FlowIndexMask = MaxFlows - 1
	// FlowMessageScope in set_flow's flow_id makes the flow's ITER count per message, as Lumina's prototype does.
	FlowMessageScope = 1 << 15
	// FlowControlClass, set in the flow field of event_any, addresses every control packet of the class in the psn field,
	// whatever its ordinal. It never occurs in set_flow.
	FlowControlClass = 1 << 14
	// MaxWatchSlots is how many slots count arrivals: 0 … MaxWatchSlots−1.
	MaxWatchSlots = 8192
	// WatchEvery marks a slot that does not count: watched_event is looked up with nth 0 at every arrival.
	WatchEvery = 1 << 15
	// CopyHeader is the length in bytes of the header before a mirror copy on its way to egress, where clone sessions cut
	// copies (Tofino 1); their lengths count it.
	CopyHeader = 16
	// Saturated is where ITER, ordinals and arrival counts stop; entries must not name it.
	Saturated = 1<<16 - 1
)
