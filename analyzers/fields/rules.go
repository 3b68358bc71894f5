package fields

import "candela.dev/candela/analyzers"

// Rules of this package.
const (
	RuleVersion           = "fields.version"
	RuleReserved          = "fields.reserved"
	RuleMigReq            = "fields.mig-req"
	RuleMigReqDiffers     = "fields.mig-req-differs"
	RuleMigReqSetting     = "fields.mig-req-setting"
	RuleSourcePort        = "fields.source-port"
	RuleSourcePortSetting = "fields.source-port-setting"
	RuleFlowLabel         = "fields.flow-label"
	RuleFlowLabelChanged  = "fields.flow-label-changed"
	RuleDSCPChanged       = "fields.dscp-changed"
	RuleRetransmission    = "fields.retransmission"
	RulePayloadChanged    = "fields.payload-changed"
	RuleReadChanged       = "fields.read-changed"
	RuleNotCompared       = "fields.not-compared"
	RuleAtomicAlignment   = "fields.atomic-alignment"
	RuleAtomicResult      = "fields.atomic-result"
	RuleOpcode            = "fields.opcode"
	RuleNotification      = "fields.notification"
	RulePayload           = "fields.payload"
	RuleSolicited         = "fields.response-solicited"
	RuleAckReq            = "fields.response-ack-request"
	RuleDSCP              = "fields.dscp"
	RuleECN               = "fields.ecn"
)

const lumina = "Lumina (Yu, thesis, Johns Hopkins 2023), section 6.2.2"

// attributes is where a queue pair's path is set.
const attributes = "ibv_modify_qp(3), ah_attr"

var rules = []analyzers.Rule{
	{ID: RuleVersion, Severity: analyzers.Violation, Clause: "9.2",
		Statement: "The transport header version of a packet is 0."},
	{ID: RuleReserved, Severity: analyzers.Violation, Clause: "9.2",
		Statement: "The reserved bits of the BTH are sent as 0."},
	{ID: RuleMigReq, Severity: analyzers.Violation, Clause: "9.2; 17.2.8",
		Statement: "MigReq stays the same in all packets of a side of a connection whose path does not migrate."},
	{ID: RuleMigReqDiffers, Severity: analyzers.Note, Clause: "17.2.8; " + lumina,
		Statement: "Both sides of a connection send the same MigReq. A receiver that looks closer at packets with MigReq = " +
			"0 may drop some of them."},
	{ID: RuleMigReqSetting, Severity: analyzers.Violation, Clause: "17.2.8; " + lumina,
		Statement: "A host sends the MigReq that it is set to."},
	{ID: RuleSourcePort, Severity: analyzers.Warning, Clause: "RoCEv2 A17.3.1.1",
		Statement: "The UDP source port stays the same in one direction of a connection, so that its packets take one path " +
			"and stay in order."},
	{ID: RuleSourcePortSetting, Severity: analyzers.Violation, Clause: "RoCEv2 A17.3.1.1; " + attributes,
		Statement: "A host sends the UDP source port that its queue pair is set to."},
	{ID: RuleFlowLabel, Severity: analyzers.Violation, Clause: "8.3; " + attributes,
		Statement: "A host sends the IPv6 flow label that its queue pair is set to."},
	{ID: RuleFlowLabelChanged, Severity: analyzers.Warning, Clause: "RFC 6437, section 2",
		Statement: "The IPv6 flow label stays the same in one direction of a connection, so that its packets take one path " +
			"through the network."},
	{ID: RuleDSCPChanged, Severity: analyzers.Warning, Clause: "RFC 2474, 3; RoCEv2 A17.9",
		Statement: "The DSCP stays the same in all requests of a side of a connection, in its READ responses and in its " +
			"acknowledgements, " +
			"so that they stay in one queue of each switch and in order."},
	{ID: RuleRetransmission, Severity: analyzers.Violation, Clause: "9.7.2",
		Statement: "A request that is retransmitted carries the same immediate data, or the same operands of an atomic " +
			"operation."},
	{ID: RulePayloadChanged, Severity: analyzers.Violation, Clause: "9.7.2",
		Statement: "A SEND or WRITE packet that is retransmitted carries the same payload."},
	{ID: RuleReadChanged, Severity: analyzers.Warning, Clause: "9.4.4; 9.7.5.1.3",
		Statement: "A READ response that is retransmitted carries the same data, unless the memory has changed since. A " +
			"repeated READ may return newer data."},
	{ID: RuleNotCompared, Severity: analyzers.Note, Clause: "docs/guide/captures.md, Payloads",
		Statement: "The payloads of all retransmissions can be compared with those of the packets that they repeat."},
	{ID: RuleAtomicAlignment, Severity: analyzers.Violation, Clause: "9.4.5",
		Statement: "The address of an atomic request is a multiple of 8."},
	{ID: RuleAtomicResult, Severity: analyzers.Violation, Clause: "9.4.5",
		Statement: "An atomic returns the value that the atomics before it have left at its address, if nothing else " +
			"writes there."},
	{ID: RuleOpcode, Severity: analyzers.Violation, Clause: "9.2; table 38",
		Statement: "Packets of a reliable connection carry an opcode that the service defines."},
	{ID: RuleNotification, Severity: analyzers.Violation, Clause: "RoCEv2 A17.9; RFC 3168, 6.1",
		Statement: "A host sets FECN in no packet, BECN in CNPs only, and the congestion mark CE in none."},
	{ID: RulePayload, Severity: analyzers.Violation, Clause: "9.3; 9.7.4.1",
		Statement: "Acknowledgements, atomic requests and their answers, and READ requests carry no payload."},
	{ID: RuleSolicited, Severity: analyzers.Violation, Clause: "9.2; 9.4.1",
		Statement: "Responses do not ask for a solicited event."},
	{ID: RuleAckReq, Severity: analyzers.Warning, Clause: "9.2; 9.7.5.1",
		Statement: "Responses do not ask for an acknowledgement, for nobody acknowledges them."},
	{ID: RuleDSCP, Severity: analyzers.Violation, Clause: "RFC 2474, 3; RoCEv2 A17.9",
		Statement: "Packets carry the DSCP that their host is set to, CNPs that of CNPs."},
	{ID: RuleECN, Severity: analyzers.Violation, Clause: "RFC 3168, 5; RoCEv2 A17.9",
		Statement: "Data packets carry the ECN codepoint that their host is set to; acknowledgements and CNPs that one or " +
			"Not-ECT."},
}

// Rules returns the table of rules.
func Rules() []analyzers.Rule { return append([]analyzers.Rule(nil), rules...) }
