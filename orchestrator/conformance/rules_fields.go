package conformance

// fieldRules are about single fields of packets, and about what a retransmission repeats besides opcode, length and
// address.
var fieldRules = []Rule{
	{
		ID: "bth-version", Clause: "9.2", SectionOnly: true, Verbs: []string{"write", "send", "read", "atomic"},
		Statement: "The transport header version is 0.",
		Stimulus:  "requests of all kinds", Test: "mixed",
		Evidence: []Evidence{seen("READ_REQUEST"), seen("FETCH_ADD")},
		Judges:   []string{"fields.version"}, Everywhere: true,
	},
	{
		ID: "bth-reserved", Clause: "9.2", SectionOnly: true, Verbs: []string{"write", "send", "read", "atomic"},
		Statement: "The reserved bits of the BTH are 0.",
		Stimulus:  "requests of all kinds", Test: "mixed",
		Evidence: []Evidence{seen("READ_REQUEST"), seen("FETCH_ADD")},
		Judges:   []string{"fields.reserved"}, Everywhere: true,
	},
	{
		ID: "mig-req-constant", Clause: "17.2.8", SectionOnly: true, Verbs: []string{"write", "send", "read"},
		Statement: "A side of a connection whose path does not migrate sends the same MigReq in all packets.",
		Stimulus:  "WRITEs of ten packets", Test: "write",
		Evidence: []Evidence{seen("WRITE_FIRST"), seenTimes("ACKNOWLEDGE", 2)},
		Judges:   []string{"fields.mig-req"}, Everywhere: true,
	},
	{
		ID: "opcode-defined", Clause: "9.2", SectionOnly: true, Verbs: []string{"write", "send", "read"},
		Statement: "Every packet carries an opcode that the reliable connection service defines.",
		Stimulus:  "requests of all kinds", Test: "mixed",
		Evidence: []Evidence{seenTimes("ACKNOWLEDGE", 4)},
		Judges:   []string{"fields.opcode"}, Everywhere: true,
	},
	{
		ID: "marks-not-set", Clause: "A17.9", SectionOnly: true, Verbs: []string{"write", "send", "read"},
		Statement: "A host sets neither FECN nor CE, and BECN in CNPs only.",
		Stimulus:  "requests of all kinds", Test: "mixed",
		Evidence: []Evidence{seen("READ_REQUEST"), seen("FETCH_ADD")},
		Judges:   []string{"fields.notification"}, Everywhere: true,
	},
	{
		ID: "acknowledge-empty", Clause: "9.3", SectionOnly: true, Verbs: []string{"write", "send"},
		Statement: "An acknowledgement carries no payload.",
		Stimulus:  "WRITEs of ten packets", Test: "write",
		Evidence: []Evidence{seenTimes("ACKNOWLEDGE", 2)},
		Judges:   []string{"fields.payload"}, Everywhere: true,
	},
	{
		ID: "response-flags", Clause: "9.2", SectionOnly: true, Verbs: []string{"write", "send", "read"},
		Statement: "A response asks for neither an event nor an acknowledgement.",
		Stimulus:  "WRITEs of ten packets", Test: "write",
		Evidence: []Evidence{seenTimes("ACKNOWLEDGE", 2)},
		Judges:   []string{"fields.response-solicited", "fields.response-ack-request"}, Everywhere: true,
	},
	{
		ID: "retransmit-payload", Clause: "9.7.2", SectionOnly: true, Verbs: []string{"write"},
		Statement: "A packet that is retransmitted carries the same payload.",
		Stimulus:  "two WRITE packets are lost", Test: "write-loss",
		Evidence: []Evidence{events(), restart("NAK")},
		Judges:   []string{"fields.payload-changed"},
	},
	{
		ID: "retransmit-ecn", Clause: "A17.9", SectionOnly: true, Verbs: []string{"write"},
		Statement: "A packet that is retransmitted is as ECN-capable as the first time.",
		Stimulus:  "two WRITE packets are lost", Test: "write-loss",
		Evidence: []Evidence{events(), restart("NAK")},
		Judges:   []string{"fields.ecn"},
	},
	{
		ID: "retransmit-immediate-value", Clause: "9.7.2", SectionOnly: true, Verbs: []string{"immediate"},
		Statement: "The immediate of a packet that is retransmitted has the same value.",
		Stimulus:  "the last packets of messages with immediate are lost", Test: "immediate-loss",
		Evidence: []Evidence{events(), restart("NAK")},
		Judges:   []string{"fields.retransmission"},
	},
	{
		ID: "retransmit-operands", Clause: "9.7.2", SectionOnly: true, Verbs: []string{"atomic"},
		Statement: "An atomic request that is retransmitted has the same operands.",
		Stimulus:  "a lost atomic and lost atomic ACKs", Test: "atomic-loss",
		Evidence: []Evidence{events(), seenTimes("CMP_SWAP", 4)},
		Judges:   []string{"fields.retransmission"},
	},
	{
		ID: "atomic-alignment", Clause: "9.4.5", Verbs: []string{"atomic"},
		Statement: "An atomic request addresses a multiple of 8.",
		Stimulus:  "COMPARE SWAPs and FETCH ADDs", Test: "atomics",
		Evidence: []Evidence{seen("CMP_SWAP"), seen("FETCH_ADD")},
		Judges:   []string{"fields.atomic-alignment"},
	},
	{
		ID: "atomic-result", Clause: "9.4.5", Verbs: []string{"atomic"},
		Statement: "An atomic returns what the atomics before it have left in memory.",
		Stimulus:  "COMPARE SWAPs and FETCH ADDs at one address", Test: "atomics",
		Evidence: []Evidence{seenTimes("ATOMIC_ACKNOWLEDGE", 6)},
		Judges:   []string{"fields.atomic-result"},
	},
	{
		ID: "acknowledge-unprompted", Clause: "9.7.5.1", Verbs: []string{"write"},
		Statement: "A request that asks for an acknowledgement gets it without being repeated.",
		Stimulus:  "WRITEs of ten packets", Test: "write",
		Evidence: []Evidence{seenTimes("ACKNOWLEDGE", 2)},
		Judges:   []string{"retrans.ack-silence"},
	},
}
