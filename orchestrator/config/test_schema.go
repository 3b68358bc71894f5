package config

import (
	"math"
	"net/netip"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Limits of the injector contract (P4Info) and of IBTA volume 1.
const (
	maxConnections = 2048        // two flows each in a connection table of 4096
	maxEvents      = 8192        // size of the event table
	maxIter        = 1<<16 - 1   // ITER, ordinals and watch slots have 16 bits
	maxMessageSize = 1 << 31     // bytes; the longest message of IBTA volume 1
	maxPSN         = 1<<24 - 1   // 24 bits
	maxRelPSN      = 1 << 53     // JSON tools represent it exactly
	minTrimSize    = 40 + 8 + 12 // IPv6, UDP and BTH must remain
	maxTrimSize    = 9216
)

const (
	atMostConnections = "each connection takes two of the injector's 4096 connection entries"
	psnFrom1          = "qpn 1 is the first connection, psn 1 its first data packet, iter 1 the first transmission"
)

var (
	nameForm = text{newPattern(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`),
		"a name of at most 64 lower-case letters, digits and inner hyphens"}
	wordForm = text{newPattern(`^[a-z0-9][a-z0-9.-]{0,63}$`), "a name of lower-case letters, digits, dots and hyphens"}
	fileForm = text{newPattern(`^[^\x00-\x1f]{1,1000}$`), "a file name, or virtual for the built-in description"}
)

const randomRefused = "a random event differs from run to run; name the packets that it should meet"

// refusedEventKeys are keys that request random events, and names from other tools.
var refusedEventKeys = map[string]string{
	"probability": randomRefused, "rate": randomRefused, "percent": randomRefused, "random": randomRefused,
	"ratio": randomRefused, "seed": randomRefused,
}

var refusedActions = map[string]string{
	"random": randomRefused, "loss": "the action is called drop", "bit-error": "the action is called corrupt here",
	"lose": "the action is called drop", "mark": "the action is called ecn", "ce": "the action is called ecn",
	"ecn-mark": "the action is called ecn", "mark-ecn": "the action is called ecn",
}

const laboratoryKey = "it describes a place, not a test: it belongs in the testbed description"

func testSchema() *object {
	return &object{
		title: "The test file",
		doc:   "One file is one test.",
		refused: map[string]string{
			"sweep":       "matrices of tests come with a later version; write one file for each point",
			"num-repeats": "use candela run --repeat N", "repeat": "use candela run --repeat N",
			"switch": laboratoryKey + "; a test of a switch has switch-under-test and workload, and no traffic",
			"links":  laboratoryKey, "dumpers": laboratoryKey,
			"requester-mirror": laboratoryKey, "responder-mirror": laboratoryKey,
			"nic": "each host has its own: requester.nic and responder.nic",
		},
		alias: map[string]string{
			"timeout": "deadline-ms", "deadline": "deadline-ms", "client": "requester", "sender": "requester",
			"server": "responder", "receiver": "responder", "expected": "expect", "expectations": "expect",
		},
		fields: []field{
			{key: "name", doc: "Name of the test, of its run directory and in reports.", kind: nameForm, required: true,
				at: at(func(t *Test) *string { return &t.Name })},
			{key: "metadata", doc: "Information for people; it is in every report.",
				kind: optional[Metadata]{metadataSchema()}, defDoc: "none",
				at: at(func(t *Test) **Metadata { return &t.Metadata })},
			{key: "testbed", doc: "Testbed description: a file, searched next to this file and then in the working " +
				"directory, or `virtual` for the built-in one.",
				kind: fileForm, def: "virtual", at: at(func(t *Test) *string { return &t.TestbedFile })},
			{key: "testbeds", doc: "Kinds of testbeds that can run the test; others refuse it. Use it if the " +
				"expectations hold only there, such as bounds in " +
				"microseconds on machines with software hosts.",
				kind: list[TestbedKind]{of: enum[TestbedKind]{values: []TestbedKind{KindVirtual, KindNetns, KindLab, KindVM}},
					min: 1, max: 4, omit: true}, defDoc: "all",
				at: at(func(t *Test) *[]TestbedKind { return &t.Testbeds })},
			{key: "seed", doc: "Everything random, such as QPNs and initial PSNs, is drawn from the seed. The same seed gives " +
				"the same bytes.",
				kind: integer{min: 0, max: math.MaxInt64}, def: "1", at: at(func(t *Test) *uint64 { return &t.Seed })},
			{key: "deadline-ms", doc: "Longest duration of the run, in testbed time.",
				kind: quantity{unit: "ms", scale: int64(clock.Millisecond), min: 1, max: 86_400_000}, def: "60000",
				at: at(func(t *Test) *clock.Duration { return &t.Deadline })},
			{key: "requester", doc: "The host that posts requests.", kind: hostSchema("requester"), def: "{}",
				at: at(func(t *Test) *Host { return &t.Requester })},
			{key: "responder", doc: "The host that answers them.", kind: hostSchema("responder"), def: "{}",
				at: at(func(t *Test) *Host { return &t.Responder })},
			{key: "traffic", doc: "Traffic between the hosts, and events on its packets.", kind: trafficSchema(), required: true,
				at: at(func(t *Test) *Traffic { return &t.Traffic })},
			{key: "injector", doc: "Options of the event injector.", kind: injectorSchema(), def: "{}",
				at: at(func(t *Test) *Injector { return &t.Injector })},
			{key: "expect", doc: "Expectations by analyzer. Analyzers that are not named are expected to pass.",
				kind: expectSchema(), def: "{}", at: at(func(t *Test) *Expect { return &t.Expect })},
			{key: "compare", doc: "Run the test a second time with a change, and compare the measurements.",
				kind: compareSchema(), def: "{}",
				at: at(func(t *Test) *Compare { return &t.Compare })},
			{key: "sweep",
				doc: "Run the test once for every combination of values, such as `traffic.message-size: [1024, 10240]`. " +
					"Paths joined by commas vary together. Each point is checked, run and judged on its own.", kind: sweepKind{},
				at: parent},
		},
	}
}

func hostSchema(side string) *object {
	lists := map[string]string{"requester": "[10.0.0.2/24]", "responder": "[10.0.0.1/24]"}
	return &object{
		title: side,
		doc:   "A host under test.",
		refused: map[string]string{
			"workspace": laboratoryKey, "control-ip": laboratoryKey, "username": laboratoryKey,
			"ssh-key-filepath": laboratoryKey,
			"bugs":             "seeded bugs belong to the nic",
		},
		fields: []field{
			{key: "nic", doc: "The network adapter.", kind: nicSchema(lists[side]), def: "{}",
				at: at(func(h *Host) *NIC { return &h.NIC })},
			{key: "roce-parameters", doc: "Transport parameters. The profile defines the defaults.",
				kind: roceSchema(), def: "{}", at: at(func(h *Host) *RoCE { return &h.RoCE }),
				preset: func(d *decoder, parent any) {
					h := parent.(*Host)
					h.RoCE = d.options.defaults(h.NIC.Profile)
				}},
		},
	}
}

func nicSchema(ips string) *object {
	return &object{
		title: "nic",
		doc:   "The network adapter of a host.",
		refused: map[string]string{
			"type": "the model is called profile here", "if-name": laboratoryKey, "switch-port": laboratoryKey,
			"pci-addr": laboratoryKey, "ib-device": laboratoryKey, "ib-port": laboratoryKey,
			"prio-dscp-map": "it is called dscp-prio here, and maps DSCPs to priorities", "sysfs": "files are the agent's to " +
				"choose: cnp-dscp, trust and roce-parameters find theirs",
		},
		fields: append([]field{
			{key: "profile", doc: "Model of the NIC. `spec` follows IBTA volume 1 to the letter.", kind: wordForm, def: "spec",
				at: at(func(n *NIC) *string { return &n.Profile })},
			{key: "bugs", doc: "Seeded bugs of the model, for tests of the harness itself.",
				kind: list[string]{of: wordForm, max: 64}, def: "[]", at: at(func(n *NIC) *[]string { return &n.Bugs })},
			{key: "ip-list",
				doc:  "Addresses with prefix lengths. Connections use the first, or with multi-gid all of them in turn.",
				kind: list[netip.Prefix]{of: prefix{}, min: 1, max: 4096}, def: ips,
				at: at(func(n *NIC) *[]netip.Prefix { return &n.IPs })},
			{key: "mac", doc: "Ethernet address; by default the testbed chooses one.", kind: optional[packet.MAC]{mac{}},
				at: at(func(n *NIC) **packet.MAC { return &n.MAC })},
		}, nicSettingFields()...),
	}
}

func roceSchema() *object {
	profiles := "the profile's"
	return &object{
		title:   "roce-parameters",
		doc:     "Transport parameters of a host.",
		refused: map[string]string{"dcqcn-enable": "give dcqcn-rp-enable and dcqcn-np-enable"},
		fields: []field{
			{key: "dcqcn-rp-enable", doc: "Slow down on CNPs (DCQCN reaction point).", kind: boolean{}, defDoc: profiles,
				at: at(func(r *RoCE) *bool { return &r.DCQCNRP })},
			{key: "dcqcn-np-enable", doc: "Answer CE-marked data packets with CNPs (DCQCN notification point).", kind: boolean{},
				defDoc: profiles, at: at(func(r *RoCE) *bool { return &r.DCQCNNP })},
			{key: "min-time-between-cnps",
				doc:    "Microseconds between two CNPs of one pacing group; 0: one CNP for every trigger.",
				kind:   quantity{unit: "us", scale: int64(clock.Microsecond), max: int64(LongestBetweenCNPs / clock.Microsecond)},
				defDoc: profiles,
				at:     at(func(r *RoCE) *clock.Duration { return &r.MinTimeBetween })},
			{key: "cnp-pacing", doc: "Which CNPs form a pacing group. The destination IP is that of the CNP, the data sender.",
				kind: enum[CNPPacing]{values: pacings()}, defDoc: profiles, at: at(func(r *RoCE) *CNPPacing { return &r.Pacing })},
			{key: "adaptive-retrans", doc: "Adaptive retransmission timeouts instead of the fixed one.", kind: boolean{},
				defDoc: profiles, at: at(func(r *RoCE) *bool { return &r.AdaptiveRetrans })},
			{key: "slow-restart", doc: "Together with dcqcn-np-enable: also send a CNP with each NAK.", kind: boolean{},
				defDoc: profiles, at: at(func(r *RoCE) *bool { return &r.SlowRestart })},
			{key: "trim-reaction", doc: "Recognise trimmed headers by their DSCP and ask at once for what they name: requests " +
				"by a NAK, READ responses by " +
				"repeating the READ request. Without it a trimmed packet is a damaged one.", kind: boolean{},
				defDoc: profiles, at: at(func(r *RoCE) *bool { return &r.TrimReaction })},
			{key: "trim-dscp", doc: "DSCP by which trimmed headers are recognised.",
				kind:   integer{min: 0, max: 63, why: "DSCP has 6 bits"},
				defDoc: profiles, at: at(func(r *RoCE) *int { return &r.TrimDSCP })},
		},
	}
}

func pacings() []CNPPacing { return []CNPPacing{PerPort, PerDestinationIP, PerIPPair, PerQP} }

func verbs() []generator.Verb {
	return []generator.Verb{
		generator.Write, generator.WriteImm, generator.Send, generator.SendImm, generator.Read, generator.CompareSwap,
		generator.FetchAdd, generator.SendInvalidate,
	}
}

func trafficSchema() *object {
	verb := enum[generator.Verb]{values: verbs(), refused: map[string]string{
		"send_read": "write rdma-verb: [send, read] with verbs-by: connection (every second connection reads)",
		"atomic":    "it is compare-swap or fetch-add", "random": "the schedule of messages is fixed; write a list of verbs",
	}}
	return &object{
		title: "traffic",
		doc:   "Traffic over reliable connections, and events of the injector.",
		refused: map[string]string{
			"num-qps": "it is called num-connections here", "dscp-list": "it is dscp here, one value",
			"listen-port": laboratoryKey,
		},
		alias: map[string]string{
			"qps": "num-connections", "events": "data-pkt-events", "data-events": "data-pkt-events",
			"control-events": "control-pkt-events", "messages": "num-msgs-per-qp", "num-messages": "num-msgs-per-qp",
			"num-msgs": "num-msgs-per-qp", "operation": "rdma-verb", "op": "rdma-verb", "verbs": "rdma-verb",
		},
		fields: append([]field{
			{key: "num-connections", doc: "RC connections, one queue pair on either side each.",
				kind: integer{min: 1, max: maxConnections, why: atMostConnections}, def: "1",
				at: at(func(t *Traffic) *int { return &t.Connections })},
			{key: "rdma-verb", doc: "Operation of every message, or a list that is dealt out cyclically.",
				kind: list[generator.Verb]{of: verb, min: 1, max: 256, single: true}, def: "write",
				at: at(func(t *Traffic) *[]generator.Verb { return &t.Verbs })},
			{key: "verbs-by",
				doc:  "What takes the verbs of the list in turn: the messages of each connection, or the connections.",
				kind: enum[VerbsBy]{values: []VerbsBy{ByMessage, ByConnection}}, def: "message",
				at: at(func(t *Traffic) *VerbsBy { return &t.VerbsBy })},
			{key: "num-msgs-per-qp", doc: "Messages of each connection.", kind: integer{min: 1, max: 1_000_000_000}, def: "1",
				at: at(func(t *Traffic) *int { return &t.Messages })},
			{key: "message-size", doc: "Bytes of each message; 0 is allowed. Atomics always work on 8 bytes.",
				kind: integer{min: 0, max: maxMessageSize, unit: "bytes", why: "IBTA volume 1 limits a message to 2^31 bytes"},
				def:  "10240", at: at(func(t *Traffic) *int { return &t.MessageSize })},
			{key: "mtu", doc: "Path MTU: payload bytes of a packet.",
				kind: choice{values: []int{256, 512, 1024, 2048, 4096}, why: "these are the path MTUs of IBTA volume 1",
					unit: "bytes"}, def: "1024",
				at: at(func(t *Traffic) *int { return &t.MTU })},
			{key: "external", doc: "An application of yours on the hosts makes the traffic, not Candela. Its connections are " +
				"numbered by the requester's QPNs. rdma-verb, mtu, retries, timeouts and addresses are then those of the " +
				"application.", kind: optional[External]{externalSchema()}, defDoc: "none",
				at: at(func(t *Traffic) **External { return &t.External })},
			{key: "bidirectional", doc: "Both hosts post requests on every connection.", kind: boolean{}, def: "false",
				at: at(func(t *Traffic) *bool { return &t.Bidirectional })},
			{key: "multi-gid", doc: "Deal out the hosts' addresses to the connections in turn, as if there were several hosts.",
				kind: boolean{}, def: "false", at: at(func(t *Traffic) *bool { return &t.MultiGID })},
			{key: "barrier-sync",
				doc:  "Post the next round of messages only when the current one is complete on all connections.",
				kind: boolean{}, def: "false", at: at(func(t *Traffic) *bool { return &t.BarrierSync })},
			{key: "tx-depth", doc: "Outstanding requests of each queue pair.", kind: integer{min: 1, max: 65536}, def: "1",
				at: at(func(t *Traffic) *int { return &t.TxDepth })},
			{key: "rx-depth",
				doc:  "Receives that a host keeps posted on each queue pair, for send, send-imm, send-invalidate and write-imm.",
				kind: integer{min: 1, max: 65536}, def: "50", at: at(func(t *Traffic) *int { return &t.RxDepth })},
			{key: "stale-rkey", doc: "Requests go on with the remote key of the start after a send-invalidate has taken it " +
				"away, and must be refused. " +
				"Otherwise they use the key under which the memory was registered again.", kind: boolean{}, def: "false",
				at: at(func(t *Traffic) *bool { return &t.StaleRKey })},
			{key: "rx-repost-delay-us",
				doc:  "Time from the completion of a receive to its reposting. With a small rx-depth it provokes RNR NAKs.",
				kind: quantity{unit: "us", scale: int64(clock.Microsecond), max: 10_000_000}, def: "0",
				at: at(func(t *Traffic) *clock.Duration { return &t.RxRepostDelay })},
		}, append(transportFields(), eventFields()...)...),
	}
}

func transportFields() []field {
	psn := optional[packet.PSN]{integer{min: 0, max: maxPSN, why: "a PSN has 24 bits"}}
	return []field{
		{key: "min-retransmit-timeout",
			doc:  "Local ACK timeout exponent t: T = 4.096 us · 2^t, so 14 is 67.1 ms; 0: no timer.",
			kind: integer{min: 0, max: 31, why: "the local ACK timeout is an exponent of 5 bits", code: timeoutCode},
			def:  "14", at: at(func(t *Traffic) *int { return &t.AckTimeout })},
		{key: "max-retransmit-retry", doc: "Retries after NAKs and timeouts without progress; 7 means seven.",
			kind: integer{min: 0, max: 7, why: "retry_cnt has 3 bits"}, def: "7",
			at: at(func(t *Traffic) *int { return &t.RetryCount })},
		{key: "rnr-retry", doc: "Retries after RNR NAKs; 7 means for ever.",
			kind: integer{min: 0, max: 7, why: "rnr_retry has 3 bits"}, def: "7",
			at: at(func(t *Traffic) *int { return &t.RNRRetry })},
		{key: "min-rnr-timer", doc: "Code of the delay that RNR NAKs ask for (IBTA volume 1, table 45); 12 is 0.64 ms.",
			kind: integer{min: 0, max: 31, why: "the RNR timer code has 5 bits", code: rnrCode}, def: "12",
			at: at(func(t *Traffic) *int { return &t.MinRNRTimer })},
		{key: "initial-psn",
			doc:  "First PSN of both sides, or of each: {requester: N, responder: N}. By default it is drawn from the seed.",
			kind: initialPSN(psn), def: "{}", defDoc: "drawn from the seed",
			at: at(func(t *Traffic) *InitialPSN { return &t.InitialPSN })},
		{key: "ecn", doc: "ECN codepoint of the packets that endpoints send.", kind: enum[ECN]{values: []ECN{0, 1, 2}},
			def: "ect0",
			at:  at(func(t *Traffic) *ECN { return &t.ECN })},
		{key: "dscp", doc: "Differentiated services codepoint of the packets that endpoints send.",
			kind: integer{min: 0, max: 63, why: "DSCP has 6 bits"},
			def:  "0", at: at(func(t *Traffic) *int { return &t.DSCP })},
		{key: "hop-limit", doc: "IPv4 time to live or IPv6 hop limit. Mirror copies carry the event type there instead.",
			kind: integer{min: 1, max: 255}, def: "64", at: at(func(t *Traffic) *int { return &t.HopLimit })},
		{key: "flow-label", doc: "Flow label of the queue pairs, or a list that is dealt out to the connections. Packets " +
			"of IPv6 carry it, and without source-port the UDP source port is derived from it (Linux: " +
			"rdma_flow_label_to_udp_sport).", defDoc: "the host's choice",
			kind: list[int]{of: integer{min: 1, max: packet.MaxFlowLabel, why: "a flow label has 20 bits"}, max: maxConnections,
				omit: true, single: true},
			at: at(func(t *Traffic) *[]int { return &t.FlowLabels })},
		{key: "source-port", doc: "UDP source port of the queue pairs, or a list that is dealt out to the connections. An " +
			"RDMA device derives ports from 49152 on from a flow label; others need mlx5.", defDoc: "the host's choice",
			kind: list[int]{of: integer{min: 1, max: math.MaxUint16, why: "a port has 16 bits"}, max: maxConnections,
				omit: true, single: true},
			at: at(func(t *Traffic) *[]int { return &t.SourcePorts })},
		{key: "max-rd-atomic", doc: "Outstanding READs and atomics of each queue pair, as requester and as responder.",
			kind: positive{integer{min: 1, max: 255, why: "max_rd_atomic has 8 bits"}}, defDoc: "16, or what the device has",
			at: at(func(t *Traffic) *int { return &t.MaxRDAtomic })},
	}
}

func eventFields() []field {
	return []field{
		{key: "iter-scope", doc: "What iter counts: rounds of the connection (as in Lumina's paper), rounds of the message " +
			"(as in its prototype), or arrivals of the packet.",
			kind: enum[injector.IterScope]{values: []injector.IterScope{injector.IterConnection, injector.IterMessage,
				injector.IterPacket}},
			def: "connection", at: at(func(t *Traffic) *injector.IterScope { return &t.IterScope })},
		{key: "data-pkt-events", doc: "Events on data packets.",
			kind: list[DataEvent]{of: dataEventSchema(), max: maxEvents},
			def:  "[]", at: at(func(t *Traffic) *[]DataEvent { return &t.DataEvents })},
		{key: "control-pkt-events", doc: "Events on control packets.",
			kind: list[ControlEvent]{of: controlEventSchema(), max: maxEvents}, def: "[]",
			at: at(func(t *Traffic) *[]ControlEvent { return &t.ControlEvents })},
	}
}

func sides() enum[Side] { return enum[Side]{values: []Side{Requester, Responder}} }

// parent is the accessor of fields whose kind accesses several fields of the mapping.
func parent(of any) any { return of }

func qpnField(plain func(any) any, pattern func(any) *Numbers) field {
	one := integer{min: 1, max: maxConnections, why: psnFrom1}
	return field{key: "qpn", doc: "Connection, from 1.", required: true, at: parent,
		kind: patterned{one: one, set: numbers{of: one, last: true}, plain: plain, pattern: pattern}}
}

func dataPSN() patterned {
	one := integer{min: 1, max: maxRelPSN, why: psnFrom1}
	return patterned{one: one, set: numbers{of: one, last: true}, optional: true,
		plain:   at(func(e *DataEvent) *int64 { return &e.PSN }),
		pattern: func(e any) *Numbers { return &e.(*DataEvent).Pattern.PSN }}
}

// ordinals is the kind of iter and nth.
func ordinals(plain func(any) any, pattern func(any) *Numbers) patterned {
	one := integer{min: 1, max: maxIter, why: psnFrom1}
	return patterned{one: ordinal{one}, set: numbers{of: one}, plain: plain, pattern: pattern}
}

// everyFields are the keys of a pattern with a fixed interval.
func everyFields() []field {
	count := positive{integer{min: 1, max: maxRelPSN, why: psnFrom1}}
	return []field{
		{key: "every",
			doc:  "Instead of psn: every n-th data packet of the connection; 100 names packets 100, 200, 300 and so on.",
			kind: count, at: at(func(e *DataEvent) *int64 { return &e.Pattern.Every })},
		{key: "start", doc: "First packet of every, which then counts from there.", defDoc: "every", kind: count,
			at: at(func(e *DataEvent) *int64 { return &e.Pattern.Start })},
		{key: "until", doc: "No packet of every comes after this one.", defDoc: "the last data packet", kind: count,
			at: at(func(e *DataEvent) *int64 { return &e.Pattern.Until })},
	}
}

func dataEventSchema() *object {
	actions, doc := eventTypes(true)
	return &object{
		title:   "data-pkt-events",
		doc:     "An event on a data packet: SEND, WRITE and atomic requests, and READ responses.",
		refused: refusedEventKeys,
		fields: append([]field{
			qpnField(at(func(e *DataEvent) *int { return &e.QPN }), func(e any) *Numbers { return &e.(*DataEvent).Pattern.QPN }),
			{key: "from", doc: "Host whose requests psn numbers; responder only with bidirectional traffic.", kind: sides(),
				def: "requester",
				at:  at(func(e *DataEvent) *Side { return &e.From })},
			{key: "psn", doc: "Data packet of the connection, from 1, or several, each with an event of its own. Of a READ it " +
				"names the response with that PSN.",
				kind: dataPSN(), at: parent, defDoc: "required, or every"},
			{key: "iter", doc: "Round of transmission, from 1, or any, or several. iter-scope defines what is counted.",
				def: "1",
				at:  parent,
				kind: ordinals(at(func(e *DataEvent) *uint16 { return &e.Iter }),
					func(e any) *Numbers { return &e.(*DataEvent).Pattern.Nth })},
			{key: "type", doc: doc, required: true,
				kind: enum[trace.EventType]{values: actions, refused: refusedActions},
				at:   at(func(e *DataEvent) *trace.EventType { return &e.Type })},
			{key: "trim", doc: "Parameters of a trim; for type: trim only.", kind: optional[Trim]{trimSchema()},
				at: at(func(e *DataEvent) **Trim { return &e.Trim })},
		}, slices.Concat(paramFields(true, func(e any) *Params { return &e.(*DataEvent).Params }), trimFields(),
			everyFields())...),
	}
}

func trimSchema() *object {
	return &object{
		title: "trim",
		doc:   "How a packet is trimmed. Shorter packets pass whole.",
		fields: []field{
			{key: "size", doc: "Bytes that are kept, counted from the start of the IP header.", def: "128",
				kind: integer{min: minTrimSize, max: maxTrimSize, unit: "bytes", why: "IP, UDP and transport headers must survive"},
				at:   at(func(t *Trim) *int { return &t.Size })},
			{key: "dscp", doc: "DSCP that marks the trimmed packet; receivers with trim-reaction look for it.",
				defDoc: "unchanged",
				kind:   optional[uint8]{integer{min: 0, max: 63, why: "DSCP has 6 bits"}},
				at:     at(func(t *Trim) **uint8 { return &t.DSCP })},
			{key: "update-ip-length", doc: "Make the IP header announce the trimmed length.", kind: boolean{}, def: "true",
				at: at(func(t *Trim) *bool { return &t.UpdateIPLength })},
			{key: "update-udp-length", doc: "Make the UDP header announce the trimmed length.", kind: boolean{}, def: "false",
				at: at(func(t *Trim) *bool { return &t.UpdateUDPLength })},
		},
	}
}

func controlPSN() patterned {
	one := integer{min: 1, max: maxRelPSN, why: psnFrom1}
	return patterned{one: optional[int64]{one}, set: numbers{of: one, last: true},
		plain:   at(func(e *ControlEvent) **int64 { return &e.PSN }),
		pattern: func(e any) *Numbers { return &e.(*ControlEvent).Pattern.PSN }}
}

func controlEventSchema() *object {
	classes := []packet.Class{
		packet.ClassAck, packet.ClassNak, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp, packet.ClassRNR,
		packet.ClassCNP, packet.ClassReadRequest, packet.ClassAtomicAck,
	}
	actions, doc := eventTypes(false)
	refused := map[string]string{"trim": "control packets have nothing to trim; use data-pkt-events"}
	for k, v := range refusedActions {
		refused[k] = v
	}
	keys := map[string]string{"iter": "control packets are counted by nth: they belong to no round of transmission"}
	for k, v := range refusedEventKeys {
		keys[k] = v
	}
	return &object{
		title:   "control-pkt-events",
		doc:     "An event on a control packet. Real NICs coalesce ACKs, so an ACK with a certain psn may never exist.",
		refused: keys,
		fields: append([]field{
			qpnField(at(func(e *ControlEvent) *int { return &e.QPN }),
				func(e any) *Numbers { return &e.(*ControlEvent).Pattern.QPN }),
			{key: "from", doc: "Host whose requests the packet belongs to; responder only with bidirectional traffic.",
				kind: sides(),
				def:  "requester", at: at(func(e *ControlEvent) *Side { return &e.From })},
			{key: "packet", doc: "nak is a sequence error NAK; nak-inv, nak-acc and nak-op are the others.", required: true,
				kind: enum[packet.Class]{values: classes, refused: map[string]string{
					"data": "use data-pkt-events", "nack": "it is called nak here"}},
				at: at(func(e *ControlEvent) *packet.Class { return &e.Packet })},
			{key: "sent-by", doc: "CNPs only: the host that sends it; by default the receiver of the first message's data.",
				kind: optional[Side]{sides()}, at: at(func(e *ControlEvent) **Side { return &e.SentBy })},
			{key: "psn", doc: "Only packets with this PSN, or these, numbered like the requests they belong to.",
				kind: controlPSN(), at: parent},
			{key: "nth", doc: "Which arrival at the injector, from 1, or any, or several. Repeated packets count.", def: "1",
				at: parent,
				kind: ordinals(at(func(e *ControlEvent) *uint16 { return &e.Nth }),
					func(e any) *Numbers { return &e.(*ControlEvent).Pattern.Nth })},
			{key: "type", doc: doc, required: true,
				kind: enum[trace.EventType]{values: actions, refused: refused},
				at:   at(func(e *ControlEvent) *trace.EventType { return &e.Type })},
		}, paramFields(false, func(e any) *Params { return &e.(*ControlEvent).Params })...),
	}
}

func injectorSchema() *object {
	return &object{
		title: "injector",
		doc:   "Options of the event injector.",
		fields: []field{
			{key: "snap-bytes", doc: "Bytes of each mirror copy that are kept; 0: all.", defDoc: "the testbed's",
				kind: optional[int]{integer{min: 0, max: 16384, unit: "bytes"}},
				at:   at(func(i *Injector) **int { return &i.Snap })},
		},
	}
}
