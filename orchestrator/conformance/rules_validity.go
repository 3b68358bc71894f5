package conformance

// validityRules are about requests that must not be executed, and about NAKs that end a connection. The injector makes
// the requests invalid.
var validityRules = []Rule{
	{
		ID: "invalid-opcode-nak", Clause: "9.7.4.1.2", Verbs: []string{"write"},
		Statement: "A WRITE packet whose opcode is out of sequence is answered by the NAK for invalid requests, and not " +
			"executed.",
		Stimulus: "a MIDDLE becomes a LAST on the way", Test: "invalid-opcode",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code"},
	},
	{
		ID: "invalid-opcode-nak-send", Clause: "9.7.4.1.2", Verbs: []string{"send"},
		Statement: "The same holds for SENDs.",
		Stimulus:  "a MIDDLE becomes a LAST on the way", Test: "invalid-opcode-send",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code"},
	},
	{
		ID: "invalid-length-nak", Clause: "9.7.4.1.6", Verbs: []string{"write"},
		Statement: "A WRITE whose payload does not add up to its DMA length is answered by the NAK for invalid requests.",
		Stimulus:  "a DMA length grows by one on the way", Test: "invalid-length",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code"},
	},
	{
		ID: "invalid-read-length-nak", Clause: "9.7.4.1.6", Verbs: []string{"read"},
		Statement: "A READ of more than 2^31 bytes is answered by the NAK for invalid requests.",
		Stimulus:  "a READ request grows on the way", Test: "invalid-read-length",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code"},
	},
	{
		ID: "access-nak-write", Clause: "9.7.4.1.5", Verbs: []string{"write"},
		Statement: "A WRITE without the right to the memory is answered by the NAK for remote access errors, and not " +
			"executed.",
		Stimulus: "the remote key changes on the way", Test: "foreign-rkey-write",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code"},
	},
	{
		ID: "access-nak-read", Clause: "9.7.4.1.5", Verbs: []string{"read"},
		Statement: "A READ without the right to the memory is answered by the NAK for remote access errors, not by data.",
		Stimulus:  "the remote key changes on the way", Test: "foreign-rkey-read",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code"},
	},
	{
		ID: "access-nak-atomic", Clause: "9.7.4.1.5", Verbs: []string{"atomic"},
		Statement: "An atomic without the right to the memory is answered by the NAK for remote access errors.",
		Stimulus:  "the remote key changes on the way", Test: "foreign-rkey-atomic",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code"},
	},
	{
		ID: "invalidate-revokes", Clause: "9.4.1.1", SectionOnly: true, Verbs: []string{"send", "write"},
		Statement: "A SEND with invalidate takes the right away: a WRITE with that key is answered by the NAK for remote " +
			"access errors.",
		Stimulus: "a WRITE with the key that the SEND before it has invalidated", Test: "invalidate-stale",
		Evidence: []Evidence{seen("SEND_LAST_INV"), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code", "expect.completion"},
	},
	{
		ID: "invalidate-revokes-read", Clause: "9.4.1.1", SectionOnly: true, Verbs: []string{"send", "read"},
		Statement: "The same holds for READs: no data is read with that key.",
		Stimulus:  "a READ with the key that the SEND before it has invalidated", Test: "invalidate-stale-read",
		Evidence: []Evidence{seen("SEND_LAST_INV"), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.nak-fatal-missing", "gbn.nak-code", "expect.completion"},
	},
	{
		ID: "invalidate-only-that", Clause: "9.4.1.1", SectionOnly: true, Verbs: []string{"send", "write", "read"},
		Statement: "A SEND with invalidate completes like any other, and memory that is registered again is accessible " +
			"under its new key.",
		Stimulus: "WRITEs and READs between SENDs with invalidate", Test: "invalidate",
		Evidence: []Evidence{seenTimes("SEND_LAST_INV", 4), seen("WRITE_LAST"), seen("READ_RESPONSE_LAST")},
		Judges:   []string{"gbn.ack-missing", "gbn.nak-unprovoked", "expect.completion"},
	},
	{
		ID: "access-not-without-bytes", Clause: "9.7.4.1.5", Verbs: []string{"write"},
		Statement: "The remote key of a request for no bytes is not checked.",
		Stimulus:  "the remote key of an empty WRITE changes on the way", Test: "foreign-rkey-empty",
		Evidence: []Evidence{events(), seen(seenEmpty)},
		Judges:   []string{"expect.completion", "gbn.nak-unprovoked", "gbn.nak-code"},
	},
	{
		ID: "nak-ends-responder", Clause: "9.7.5.2", SectionOnly: true, Verbs: []string{"write"},
		Statement: "After such a NAK the responder answers nothing more.",
		Stimulus:  "the remote key changes in transit, with three packets after it", Test: "foreign-rkey-write",
		Evidence: []Evidence{events(), transition("responder: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.after-error"}, Everywhere: true,
	},
	{
		ID: "nak-ends-requester", Clause: "9.9.2", SectionOnly: true, Verbs: []string{"write"},
		Statement: "After such a NAK the requester sends nothing more and repeats nothing.",
		Stimulus:  "the remote key changes on the way", Test: "foreign-rkey-write",
		Evidence: []Evidence{events(), transition("requester: * + fatal-nak -> failed")},
		Judges:   []string{"gbn.after-error", "retrans.timeout-early"},
	},
	{
		ID: "access-error-status", Clause: "9.9.2", SectionOnly: true, Verbs: []string{"write"},
		Statement: "The request that was refused completes with a remote access error.",
		Stimulus:  "the remote key changes on the way", Test: "foreign-rkey-write",
		Evidence: []Evidence{events(), transition("requester: * + fatal-nak -> failed")},
		Judges:   []string{"expect.completion"},
	},
	{
		ID: "invalid-request-status", Clause: "9.9.2", SectionOnly: true, Verbs: []string{"write"},
		Statement: "A request that was invalid completes with a remote invalid request error.",
		Stimulus:  "a MIDDLE becomes a LAST on the way", Test: "invalid-opcode",
		Evidence: []Evidence{events(), transition("requester: * + fatal-nak -> failed")},
		Judges:   []string{"expect.completion"},
	},
	{
		ID: "operation-error-status", Clause: "9.9.2", SectionOnly: true, Verbs: []string{"write"},
		Statement: "The NAK for a remote operational error ends the connection, and the request completes with that status.",
		Stimulus:  "an ACK becomes that NAK on the way", Test: "operation-error",
		Evidence: []Evidence{events(), transition("requester: * + fatal-nak -> failed")},
		Judges:   []string{"expect.completion", "gbn.after-error"},
	},
	{
		ID: "partition-checked", Clause: "9.6.1", SectionOnly: true, Verbs: []string{"write"},
		Statement: "A packet of another partition is dropped silently, as if it was lost.",
		Stimulus:  "the partition key changes on the way", Test: "foreign-partition",
		Evidence: []Evidence{events(), restart("NAK")},
		Judges: []string{"gbn.ack-beyond", "gbn.nak-missing", "gbn.nak-unprovoked", "gbn.p-key-changed",
			"expect.completion"},
	},
	{
		ID: "partition-member", Clause: "9.6.1", SectionOnly: true, Verbs: []string{"write"},
		Statement: "A packet of a limited member of the partition is accepted by a full one.",
		Stimulus:  "the top bit of the partition key is cleared on the way", Test: "limited-member",
		Evidence: []Evidence{events(), seenTimes("ACKNOWLEDGE", 3)},
		Judges:   []string{"gbn.ack-missing", "gbn.nak-unprovoked", "expect.completion"},
	},
	{
		ID: "credits-accepted", Clause: "9.7.7", SectionOnly: true, Verbs: []string{"write"},
		Statement: "An ACK acknowledges whatever its credit count is.",
		Stimulus:  "an ACK has credits", Test: "credits",
		Evidence: []Evidence{events(), seenTimes("ACKNOWLEDGE", 3)},
		Judges:   []string{"gbn.resend-acknowledged", "gbn.timeout-early", "expect.completion"},
	},
	{
		ID: "solicited-accepted", Clause: "9.2", SectionOnly: true, Verbs: []string{"send"},
		Statement: "The solicited event bit makes no difference to the transport.",
		Stimulus:  "it is set on the way in the last packet of a SEND", Test: "solicited",
		Evidence: []Evidence{events(), seenTimes("ACKNOWLEDGE", 3)},
		Judges:   []string{"gbn.nak-unprovoked", "gbn.ack-missing", "expect.completion"},
	},
	{
		ID: "solicited-place", Clause: "9.2", SectionOnly: true, Verbs: []string{"send", "immediate"},
		Statement: "Only packets that end a SEND, or a WRITE with immediate, ask for a solicited event.",
		Stimulus:  "messages with immediate", Test: "immediate",
		Evidence:   []Evidence{seen(seenSolicited)},
		Judges:     []string{"gbn.solicited"},
		Everywhere: true,
	},
}
