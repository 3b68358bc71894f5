package conformance

// duplicateRules are about how duplicates are treated, and READs and atomics that need repair.
var duplicateRules = []Rule{
	{
		ID: "duplicate-read-in-message", Clause: "9.7.5.1.3", Verbs: []string{"read", "write"},
		Statement: "A duplicate READ request leaves the message alone that is being received: its packets are accepted.",
		Stimulus:  "a lost READ response while a WRITE is under way", Test: "read-in-write",
		Evidence: []Evidence{events(), transition("responder: * + read-replay* -> *"), seen("WRITE_MIDDLE")},
		Judges:   []string{"expect.completion", "gbn.nak-unprovoked"},
	},
	{
		ID: "duplicate-reack", Clause: "9.7.5.1.3", Verbs: []string{"write", "send"},
		Statement: "A duplicate SEND or WRITE is acknowledged again.",
		Stimulus:  "lost ACKs", Test: "ack-loss",
		Evidence: []Evidence{events(), transition("responder: * + duplicate -> *"), transition("responder: * + ack-again -> *")},
		Judges:   []string{"gbn.ack-missing"},
	},
	{
		ID: "duplicate-no-nak", Clause: "9.7.4.1.1", Verbs: []string{"write", "send"},
		Statement: "A duplicate request is not NAKed.",
		Stimulus:  "lost ACKs", Test: "ack-loss",
		Evidence: []Evidence{events(), transition("responder: * + duplicate -> *")},
		Judges:   []string{"gbn.nak-duplicate", "gbn.nak-unprovoked"},
	},
	{
		ID: "duplicate-no-rnr", Clause: "9.7.5.1.3", Verbs: []string{"send"},
		Statement: "A duplicate SEND needs no receive: it draws no RNR NAK.",
		Stimulus:  "lost ACKs", Test: "ack-loss",
		Evidence: []Evidence{events(), transition("responder: * + duplicate -> *")},
		Judges:   []string{"gbn.rnr-unprovoked"},
	},
	{
		ID: "duplicate-read", Clause: "9.7.5.1.3", Verbs: []string{"read"},
		Statement: "A duplicate READ request is executed again and answered.",
		Stimulus:  "the last response is lost", Test: "read-tail-loss",
		Evidence: []Evidence{events(), transition("responder: * + read-replay -> *")},
		Judges:   []string{"gbn.read-missing", "gbn.read-unexpected"},
	},
	{
		ID: "duplicate-read-opcodes", Clause: "9.4.4", Verbs: []string{"read"},
		Statement: "The responses to a repeated READ are those of a READ of its own: they begin with FIRST or ONLY.",
		Stimulus:  "responses in the middle are lost", Test: "read-loss",
		Evidence: []Evidence{events(), transition("responder: * + read-replay* -> *")},
		Judges:   []string{"gbn.replay-opcode"},
	},
	{
		ID: "duplicate-atomic", Clause: "9.4.5", Verbs: []string{"atomic"},
		Statement: "A duplicate atomic is answered, once for each duplicate. (That the answer is the saved result is not judged: " +
			"records of the trace do not hold it.)",
		Stimulus: "lost atomic ACKs", Test: "atomic-loss",
		Evidence: []Evidence{events(), transition("responder: * + duplicate -> *")},
		Judges:   []string{"gbn.atomic-unexpected", "gbn.read-missing"},
	},
	{
		ID: "implied-nak-read", Clause: "9.7.6.1", SectionOnly: true, Verbs: []string{"read"},
		Statement: "A READ response that comes too early shows that one is missing; the requester asks for it without " +
			"waiting for its timer.",
		Stimulus: "responses in the middle are lost", Test: "read-loss",
		Evidence: []Evidence{events(), transition("requester: sending + implied-nak -> nacked"), restart("implied NAK")},
		Judges:   []string{"gbn.retransmit-first", "gbn.nak-unanswered", "expect.retrans.nack-generation-us"},
	},
	{
		ID: "read-restart", Clause: "9.4.4", Verbs: []string{"read"},
		Statement: "A repeated READ request begins at the first missing response, with address and length moved accordingly.",
		Stimulus:  "responses in the middle are lost", Test: "read-loss",
		Evidence: []Evidence{events(), restart("implied NAK"), seenTimes("READ_REQUEST", 4)},
		Judges:   []string{"gbn.read-restart"},
	},
	{
		ID: "read-restart-timeout", Clause: "9.7.6.1.3", Verbs: []string{"read"},
		Statement: "After a timeout, too, a READ is repeated from the first missing response on.",
		Stimulus:  "the last response is lost", Test: "read-tail-loss",
		Evidence: []Evidence{events(), restart("timeout")},
		Judges:   []string{"gbn.read-restart", "gbn.timeout-start"},
	},
	{
		ID: "read-request-timeout", Clause: "9.7.6.1.3", Verbs: []string{"read"},
		Statement: "A READ request without any response is repeated after the local ACK timeout.",
		Stimulus:  "the last READ request is lost", Test: "read-request-loss",
		Evidence: []Evidence{events(), restart("timeout")},
		Judges:   []string{"gbn.timeout-start", "gbn.incomplete", "expect.completion"},
	},
	{
		ID: "read-wrap-restart", Clause: "9.4.4", Verbs: []string{"read"},
		Statement: "A READ that crosses the wrap is repeated like any other.",
		Stimulus:  "a response behind the wrap is lost", Test: "read-wrap",
		Evidence: []Evidence{events(), seen(seenWrap), restart("implied NAK")},
		Judges:   []string{"gbn.read-restart", "gbn.read-unexpected"},
	},
	{
		ID: "atomic-lost", Clause: "9.7.6.1", SectionOnly: true, Verbs: []string{"atomic"},
		Statement: "A lost atomic is repeated as the same packet.",
		Stimulus:  "a lost atomic and lost atomic ACKs", Test: "atomic-loss",
		Evidence: []Evidence{events(), seenTimes("CMP_SWAP", 4)},
		Judges:   []string{"gbn.retransmit-changed", "gbn.incomplete"},
	},
	{
		ID: "everything-completes", Clause: "9.7.1", Verbs: []string{"write", "send", "read", "atomic"},
		Statement: "Every request is delivered and acknowledged in the end.",
		Stimulus:  "losses in a mixture of verbs", Test: "mixed-loss",
		Evidence:   []Evidence{events(), transition("requester: resending + ack-all -> idle")},
		Judges:     []string{"gbn.incomplete", "expect.completion"},
		Everywhere: true,
	},
}
