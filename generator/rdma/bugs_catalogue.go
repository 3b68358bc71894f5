package rdma

// BugInfo describes one fault of the catalogue.
type BugInfo struct {
	Name string // in configurations: bugs: [name]; configs/detect/NAME.yml detects it
	Bug  Bug
	// rule that must fail: an analyzer's, or an expectation of the test ("expect.retrans.nack-reaction-us")
	Rule        string
	Description string
	Origin      string // report of the same fault in a real stack; empty: invented
}

// Seeded faults. Configurations use their names, so the order has no meaning.
const (
	// Requester: start and extent of retransmissions.
	BugRetransmitSkipsFirst Bug = iota
	BugTimeoutSkipsFirst
	BugRestartsMessage
	BugSelectiveRepeat
	BugNackTakenForAck
	BugAckIgnored
	BugSendsLastTwice
	BugReadRestartWhole
	BugReadRestartAddress
	BugReadRestartLength
	BugImpliedNakIgnored
	// Requester: timers and retry counts.
	BugEarlyTimeout
	BugLateTimeout
	BugTimerNeverOff
	BugRetriesTooOften
	BugGivesUpEarly
	BugSlowReaction
	BugRNRNoWait
	BugRNRRetriesTooOften
	BugRNRResendsOne
	// Requester: packet fields.
	BugPSNSkip
	BugWrapSkipsZero
	BugLastAsMiddle
	BugImmediateLost
	BugShortPayload
	BugWrongDMALength
	BugPadMissing

	// Responder: negative acknowledgements.
	BugNackPSNPlusOne
	BugNackPSNMinusOne
	BugNoNack
	BugDoubleNack
	BugNackEach
	BugNackUnprovoked
	BugNackBadICRC
	BugNackDuplicates
	BugNackFatalOnGap
	BugNackAccessOnDuplicate
	BugSlowNack
	BugRNRNamesNext
	BugRNRForDuplicates
	// Responder: acknowledgements and acceptance.
	BugAckBeyond
	BugAckPSNPlusOne
	BugAckGoesBack
	BugNeverAcknowledges
	BugDuplicatesIgnored
	BugGapAccepted
	BugWrapTakesGapForDuplicate
	BugMSNStuck
	BugMSNCountsDuplicates
	BugMSNNotCoalesced
	BugReservedSyndrome
	BugAcceptBadICRC
	BugDropsPadded
	// Responder: READs and atomics.
	BugReadLastMissing
	BugReadSkipsOne
	BugReadOpcode
	BugReadShort
	BugReadSyndrome
	BugReadRepeatIgnored
	BugReadReplayFromStart
	BugReadReplayContinues
	BugReadReplayForgetsMessage
	BugAtomicTwice
	BugAtomicRepeatIgnored
	BugAtomicExecutedTwice
	BugAtomicReplaysLatest

	// Receiver of trimmed headers.
	BugTrimIgnored
	BugTrimNackWrongPSN
	BugTrimNackTwice
	BugTrimAccepted
	BugTrimSlowNack
	BugTrimNackFatal
	BugTrimNackDuplicate
	BugTrimReadIgnored

	// Notification point.
	BugCNPUnprovoked
	BugCNPNever
	BugCNPUnpaced
	BugCNPTooFew
	BugCNPPerPort
	BugCNPWrongQP
	BugCNPWhenOff
	BugCNPForLoss
	BugCNPNoBECN
	BugCNPNoPayload
	// Reaction point.
	BugRateNeverCut
	BugRateNeverRecovers
	BugRateCutUnasked
	BugRateCutWhenOff

	// Counters.
	BugStuckPacketSeqErr
	BugStuckImpliedNak
	BugStuckCNPSent
	BugStuckDuplicateRequest
	BugStuckICRC
	BugStuckECNMarked
	BugStuckRNRReceived
	BugDoubleOutOfSequence
	BugDoubleCNPHandled
	BugDoubleOutOfBuffer
	BugTimeoutCountedAsNak
	BugRxPacketsWithoutBad
	BugTxPacketsWithoutCNPs

	// Validation of requests, and NAKs that end a connection.
	BugAcceptsForeignKey
	BugDropsForeignKey
	BugAccessErrorAsInvalid
	BugAcceptsOpcodeSequence
	BugAcceptsDMALength
	BugIgnoresPKey
	BugAnswersAfterNak
	BugFatalNakIgnored
	BugFatalNakRetried
	BugFatalNakWrongStatus
	BugSolicitedEverywhere
	BugCreditsRefused
	BugPKeyChanges
	BugInvalidateIgnored
	BugInvalidateLost
	BugBadResponseAccepted

	// Fields of single packets.
	BugMigReqChanges
	BugSourcePortIgnored
	BugFlowLabelIgnored
	BugVersionSet
	BugReservedSet
	BugImmediateChanges
	BugOperandChanges
	BugAtomicMisaligned
	BugFECNSet
	BugAckPayload
	BugUndefinedOpcode
	BugPayloadChanges
	BugAtomicLost
	BugAckSolicited
	BugAckAsksAck
	BugAckDSCP
	BugECNCleared
	BugCNPDSCP
	BugAckForgotten

	// Interaction of queue pairs, and stale state.
	BugKeyForgotten
	BugObeysStaleNack
	BugRNRTimerShort
	BugNackRestartsNeighbour
	BugErrorSpreads
	BugDropsMarked
	BugAckWrongQP
	BugWrapAcksIgnored
	endOfBugs
)

// Public reports of the same faults in real stacks.
const (
	lumina = "Yu et al., Understanding the micro-behaviors of hardware offloaded network stacks with Lumina, " +
		"SIGCOMM 2023"
	rxeRead     = "Linux commit 030e46e495af, IB/rxe: fixes for rdma read retry"
	rxeReplay   = "Linux commit 4e4c53df5677, IB/rxe: fix for duplicate request processing and ack psns"
	rxePad      = "SoftRoCE/rxe-dev pull request 44, fix crc computation in packets with padding"
	cx4RNR      = "NVIDIA developer forum 207566, RNR NAK handling with a ConnectX-4"
	rxeResponse = "Linux, drivers/infiniband/sw/rxe/rxe_resp.c (packet/testdata/rxe holds a capture)"
)

var catalogue = []BugInfo{
	{"retransmit-skips-first", BugRetransmitSkipsFirst, "gbn.retransmit-first",
		"after a NAK retransmission starts one packet too late", ""},
	{"timeout-skips-first", BugTimeoutSkipsFirst, "gbn.timeout-start",
		"after a timeout retransmission starts one packet too late", ""},
	{"restarts-message", BugRestartsMessage, "gbn.retransmit-first",
		"retransmission starts at the message's first packet, acknowledged or not", ""},
	{"selective-repeat", BugSelectiveRepeat, "gbn.round-gap",
		"only the missing packet is retransmitted, then transmission goes on where it was", ""},
	{"nack-taken-for-ack", BugNackTakenForAck, "expect.retrans.nack-reaction-us",
		"a sequence NAK only acknowledges; the timer has to repair the loss", ""},
	{"ack-ignored", BugAckIgnored, "gbn.resend-acknowledged", "every other ACK is ignored", ""},
	{"sends-last-twice", BugSendsLastTwice, "gbn.timeout-start", "the last packet of each message is sent twice", ""},
	{"read-asked-again-whole", BugReadRestartWhole, "gbn.retransmit-first", "a READ request is repeated as a whole",
		""},
	{"read-asked-again-address", BugReadRestartAddress, "gbn.read-restart",
		"a repeated READ request moves its PSN, but not its address", ""},
	{"read-asked-again-length", BugReadRestartLength, "gbn.read-restart",
		"a repeated READ request moves its PSN and address, but not its length", rxeRead},
	{"implied-nak-ignored", BugImpliedNakIgnored, "expect.retrans.nack-generation-us",
		"missing READ responses are noticed by timeout only", ""},

	{"early-timeout", BugEarlyTimeout, "retrans.timeout-early", "the local ACK timeout fires after a quarter of its time",
		""},
	{"late-timeout", BugLateTimeout, "retrans.timeout-late", "the local ACK timeout fires after eight times its time", ""},
	{"timer-never-off", BugTimerNeverOff, "retrans.timer-off", "a local ACK timeout of 0 does not switch the timer off",
		""},
	{"retries-too-often", BugRetriesTooOften, "retrans.retry-exceeded", "the retry count is taken for 7, whatever it is",
		""},
	{"gives-up-early", BugGivesUpEarly, "expect.completion", "the queue pair fails one retry too early", ""},
	{"slow-reaction", BugSlowReaction, "expect.retrans.nack-reaction-us", "the reaction to a NAK takes 500 us more", ""},
	{"rnr-no-wait", BugRNRNoWait, "retrans.rnr-early", "the RNR timer is taken for 10 us, whatever the RNR NAK says", ""},
	{"rnr-retries-too-often", BugRNRRetriesTooOften, "retrans.rnr-retry-exceeded",
		"the RNR retry count is taken for three more than it is", ""},
	{"rnr-resends-one", BugRNRResendsOne, "gbn.round-gap", "after an RNR NAK only the refused packet is retransmitted",
		cx4RNR},

	{"psn-skip", BugPSNSkip, "gbn.psn-skip", "the third packet of each message is left out", ""},
	{"wrap-skips-zero", BugWrapSkipsZero, "gbn.psn-skip", "PSN 1 follows 0xffffff", ""},
	{"last-as-middle", BugLastAsMiddle, "gbn.opcode-sequence", "the last packet of a SEND is sent as MIDDLE", ""},
	{"immediate-lost", BugImmediateLost, "gbn.retransmit-changed", "a repeated packet lacks its immediate", ""},
	{"short-payload", BugShortPayload, "gbn.payload-length", "FIRST packets carry 4 bytes less than the MTU", ""},
	{"wrong-dma-length", BugWrongDMALength, "gbn.dma-length", "the DMA length of a WRITE is 4 bytes too large", ""},
	{"pad-missing", BugPadMissing, "gbn.pad-count", "the pad count is always 0", ""},

	{"nack-psn-plus-one", BugNackPSNPlusOne, "gbn.nak-psn", "a sequence NAK names the PSN after the missing one", ""},
	{"nack-psn-minus-one", BugNackPSNMinusOne, "gbn.nak-psn", "a sequence NAK names the last PSN received", ""},
	{"no-nack", BugNoNack, "gbn.nak-missing", "out-of-sequence requests are dropped without a NAK", ""},
	{"double-nack", BugDoubleNack, "gbn.nak-repeat", "every sequence NAK is sent twice", ""},
	{"nack-each", BugNackEach, "gbn.nak-repeat", "each packet behind a gap is NAKed", ""},
	{"nack-unprovoked", BugNackUnprovoked, "gbn.nak-unprovoked",
		"every eighth packet received in order is followed by a sequence NAK", ""},
	{"nack-bad-icrc", BugNackBadICRC, "gbn.nak-unprovoked", "a packet with a wrong iCRC is NAKed at once", ""},
	{"nack-duplicates", BugNackDuplicates, "gbn.nak-duplicate",
		"a duplicate SEND or WRITE is answered with a sequence NAK", ""},
	{"nack-fatal-on-gap", BugNackFatalOnGap, "gbn.nak-unprovoked", "a gap is answered with the NAK for invalid requests",
		""},
	{"nack-access-on-duplicate", BugNackAccessOnDuplicate, "gbn.nak-unprovoked",
		"a duplicate is answered with a remote access error", ""},
	{"slow-nack", BugSlowNack, "expect.retrans.nack-generation-us", "a NAK takes 500 us more", ""},
	{"rnr-names-next", BugRNRNamesNext, "gbn.rnr-unprovoked", "an RNR NAK names the PSN after the refused one", ""},
	{"rnr-for-duplicates", BugRNRForDuplicates, "gbn.rnr-unprovoked", "a duplicate SEND is answered with an RNR NAK", ""},

	{"ack-beyond", BugAckBeyond, "gbn.ack-beyond", "an out-of-sequence request is acknowledged instead of NAKed", ""},
	{"ack-psn-plus-one", BugAckPSNPlusOne, "gbn.ack-beyond", "an ACK names the expected PSN", ""},
	{"ack-goes-back", BugAckGoesBack, "gbn.ack-decreasing", "every other ACK is followed by one of the packet before", ""},
	{"never-acknowledges", BugNeverAcknowledges, "gbn.ack-missing", "nothing is ever answered", ""},
	{"duplicates-ignored", BugDuplicatesIgnored, "gbn.ack-missing",
		"duplicate SENDs and WRITEs are not acknowledged again", ""},
	{"gap-accepted", BugGapAccepted, "gbn.ack-beyond", "packets behind a gap are accepted as if nothing was missing", ""},
	{"wrap-takes-gap-for-duplicate", BugWrapTakesGapForDuplicate, "gbn.nak-missing",
		"PSNs are compared as plain numbers, so that a gap across the wrap looks like a duplicate", ""},
	{"msn-stuck", BugMSNStuck, "gbn.msn", "the MSN stays zero", ""},
	{"msn-counts-duplicates", BugMSNCountsDuplicates, "gbn.msn", "the MSN counts duplicates, too", ""},
	{"msn-not-coalesced", BugMSNNotCoalesced, "gbn.msn", "a coalesced ACK has the last PSN and the first MSN", ""},
	{"reserved-syndrome", BugReservedSyndrome, "gbn.syndrome", "every other ACK has a reserved syndrome", ""},
	{"accept-bad-icrc", BugAcceptBadICRC, "gbn.ack-beyond", "packets with a wrong iCRC are accepted", ""},
	{"drops-padded", BugDropsPadded, "gbn.ack-missing", "packets with pad bytes are dropped for their iCRC", rxePad},

	{"read-last-missing", BugReadLastMissing, "gbn.read-missing", "the last response to a READ is not sent", ""},
	{"read-skips-one", BugReadSkipsOne, "gbn.read-order", "the second response to a READ is left out", ""},
	{"read-opcode", BugReadOpcode, "gbn.read-opcode", "the first response to a READ has the opcode of a middle one", ""},
	{"read-short", BugReadShort, "gbn.read-length", "the first response to a READ is 4 bytes short", ""},
	{"read-syndrome", BugReadSyndrome, "gbn.syndrome", "READ responses carry a reserved syndrome", ""},
	{"read-repeat-ignored", BugReadRepeatIgnored, "gbn.read-missing", "repeated READ requests are ignored", ""},
	{"read-replay-from-start", BugReadReplayFromStart, "gbn.read-unexpected",
		"a repeated READ request is answered from the original's first PSN on", ""},
	{"read-replay-continues", BugReadReplayContinues, "gbn.replay-opcode",
		"the responses to a repeated READ request start with MIDDLE", rxeResponse},
	{"read-replay-forgets-message", BugReadReplayForgetsMessage, "expect.completion",
		"a repeated READ request closes the message that is being received", rxeReplay},
	{"atomic-twice", BugAtomicTwice, "gbn.atomic-unexpected", "each atomic is acknowledged twice", ""},
	{"atomic-repeat-ignored", BugAtomicRepeatIgnored, "gbn.read-missing", "repeated atomics are ignored", ""},
	{"atomic-executed-again", BugAtomicExecutedTwice, "retrans.atomic-replay", "a repeated atomic is executed again", ""},
	{"atomic-replays-latest", BugAtomicReplaysLatest, "retrans.atomic-replay",
		"a repeated atomic is answered with the result of the latest one", ""},

	{"trim-ignored", BugTrimIgnored, "trim.nack-missing", "trimmed headers are recognised and dropped", ""},
	{"trim-nack-wrong-psn", BugTrimNackWrongPSN, "trim.nack-psn",
		"the NAK for a trimmed header names the PSN after the lost one", ""},
	{"trim-nack-twice", BugTrimNackTwice, "trim.nack-repeat", "a trimmed header is NAKed twice", ""},
	{"trim-accepted", BugTrimAccepted, "trim.acknowledged", "a trimmed header is delivered as if it were the whole packet",
		""},
	{"trim-slow-nack", BugTrimSlowNack, "expect.trim.nack-us", "the NAK for a trimmed header takes 500 us more", ""},
	{"trim-nack-fatal", BugTrimNackFatal, "gbn.nak-unprovoked",
		"a trimmed header is taken for a request of the wrong length, which ends the connection", ""},
	{"trim-nack-duplicate", BugTrimNackDuplicate, "gbn.nak-duplicate",
		"the header of a request that was received before is NAKed, too", ""},
	{"trim-read-ignored", BugTrimReadIgnored, "trim.nack-missing",
		"the headers of READ responses are recognised and dropped", ""},

	{"cnp-unprovoked", BugCNPUnprovoked, "cnp.unprovoked", "a CNP is sent for every 16th data packet, marked or not", ""},
	{"cnp-never", BugCNPNever, "cnp.missing", "no CNP is ever sent", ""},
	{"cnp-unpaced", BugCNPUnpaced, "cnp.interval", "every marked packet is answered with a CNP", ""},
	{"cnp-too-few", BugCNPTooFew, "cnp.missing", "CNPs are kept apart for four times the configured time", lumina},
	{"cnp-per-port", BugCNPPerPort, "cnp.missing", "CNPs are paced for the whole port, whatever the configuration says",
		lumina},
	{"cnp-wrong-qp", BugCNPWrongQP, "cnp.wrong-qp", "CNPs go to the next queue pair", ""},
	{"cnp-when-off", BugCNPWhenOff, "cnp.disabled", "CNPs are sent though the notification point is off", ""},
	{"cnp-for-loss", BugCNPForLoss, "cnp.unprovoked", "sequence NAKs bring a CNP though that is not configured", ""},
	{"cnp-no-becn", BugCNPNoBECN, "cnp.format", "CNPs lack the BECN bit", ""},
	{"cnp-no-payload", BugCNPNoPayload, "cnp.format", "CNPs lack their 16 bytes of payload", ""},

	{"rate-never-cut", BugRateNeverCut, "rp.no-reaction", "CNPs do not slow the sender down", ""},
	{"rate-never-recovers", BugRateNeverRecovers, "rp.no-recovery", "the sender stays slow for ever after a CNP", ""},
	{"rate-cut-unasked", BugRateCutUnasked, "rp.unprovoked", "the sender slows down without a CNP", ""},
	{"rate-cut-when-off", BugRateCutWhenOff, "rp.disabled", "CNPs slow the sender down though the reaction point is off",
		""},

	{"stuck-packet-seq-err", BugStuckPacketSeqErr, "counters.packet-seq-err", "packet_seq_err never counts", ""},
	{"stuck-implied-nak", BugStuckImpliedNak, "counters.implied-nak", "implied_nak_seq_err never counts (ConnectX-4 Lx)",
		lumina},
	{"stuck-cnp-sent", BugStuckCNPSent, "counters.cnp-sent", "the counter of CNPs sent never counts (E810)", lumina},
	{"stuck-duplicate-request", BugStuckDuplicateRequest, "counters.duplicate-request", "duplicate_request never counts",
		""},
	{"stuck-icrc", BugStuckICRC, "counters.icrc", "rx_icrc_encapsulated never counts", ""},
	{"stuck-ecn-marked", BugStuckECNMarked, "counters.ecn-marked", "np_ecn_marked_roce_packets never counts", ""},
	{"stuck-rnr-received", BugStuckRNRReceived, "counters.rnr-received", "rnr_nak_retry_err never counts", ""},
	{"double-out-of-sequence", BugDoubleOutOfSequence, "counters.out-of-sequence",
		"out_of_sequence counts every gap twice", ""},
	{"double-cnp-handled", BugDoubleCNPHandled, "counters.cnp-handled", "rp_cnp_handled counts every CNP twice", ""},
	{"double-out-of-buffer", BugDoubleOutOfBuffer, "counters.rnr-sent", "out_of_buffer counts every RNR NAK twice", ""},
	{"timeout-counted-as-nak", BugTimeoutCountedAsNak, "counters.local-ack-timeout", "timeouts count as packet_seq_err",
		""},
	{"rx-packets-without-bad", BugRxPacketsWithoutBad, "counters.rx-packets",
		"packets with a wrong iCRC do not count as received", ""},
	{"tx-packets-without-cnps", BugTxPacketsWithoutCNPs, "counters.tx-packets", "CNPs do not count as sent", ""},

	{"accepts-foreign-rkey", BugAcceptsForeignKey, "gbn.nak-fatal-missing", "remote keys are not checked", ""},
	{"drops-foreign-rkey", BugDropsForeignKey, "gbn.nak-fatal-missing",
		"a request with a wrong remote key is dropped without a NAK", ""},
	{"access-error-as-invalid", BugAccessErrorAsInvalid, "gbn.nak-code",
		"a wrong remote key is answered with the NAK for invalid requests", ""},
	{"accepts-opcode-sequence", BugAcceptsOpcodeSequence, "gbn.nak-fatal-missing",
		"the order of opcodes in a message is not checked", ""},
	{"accepts-dma-length", BugAcceptsDMALength, "gbn.nak-fatal-missing",
		"a WRITE may be shorter or longer than its DMA length", ""},
	{"ignores-pkey", BugIgnoresPKey, "gbn.ack-beyond", "packets of other partitions are accepted", ""},
	{"answers-after-nak", BugAnswersAfterNak, "gbn.after-error",
		"after a NAK that ends the connection the responder goes on", ""},
	{"fatal-nak-ignored", BugFatalNakIgnored, "gbn.after-error",
		"NAKs for invalid requests and remote access errors are ignored", ""},
	{"fatal-nak-retried", BugFatalNakRetried, "gbn.after-error", "NAKs that end a connection are taken for sequence NAKs",
		""},
	{"fatal-nak-wrong-status", BugFatalNakWrongStatus, "expect.completion",
		"a remote access error completes as a remote operation error", ""},
	{"solicited-everywhere", BugSolicitedEverywhere, "gbn.solicited",
		"every SEND and WRITE packet asks for a solicited event", ""},
	{"credits-refused", BugCreditsRefused, "gbn.resend-acknowledged", "ACKs with end-to-end credits are ignored", ""},
	{"p-key-changes", BugPKeyChanges, "gbn.p-key-changed",
		"every fourth request that is sent for the first time carries the key of another partition", ""},
	{"invalidate-ignored", BugInvalidateIgnored, "gbn.nak-fatal-missing",
		"a SEND with invalidate leaves the remote key valid", ""},
	{"invalidate-lost", BugInvalidateLost, "gbn.retransmit-changed",
		"the repeated last packet of a SEND with invalidate is one without", ""},
	{"bad-response-accepted", BugBadResponseAccepted, "expect.completion",
		"opcodes and lengths of READ responses are not checked", ""},

	{"mig-req-changes", BugMigReqChanges, "fields.mig-req", "every 16th packet is sent with MigReq = 0", ""},
	{"source-port-ignored", BugSourcePortIgnored, "fields.source-port-setting",
		"the UDP source port is that of the QPNs, whatever the queue pair is set to", ""},
	{"flow-label-ignored", BugFlowLabelIgnored, "fields.flow-label",
		"IPv6 packets carry flow label 0, whatever the queue pair is set to", ""},
	{"version-set", BugVersionSet, "fields.version", "requests carry transport header version 1", ""},
	{"reserved-set", BugReservedSet, "fields.reserved",
		"requests that ask for an acknowledgement have a reserved bit of the BTH set", ""},
	{"immediate-changes", BugImmediateChanges, "fields.retransmission", "a repeated packet carries another immediate", ""},
	{"operand-changes", BugOperandChanges, "fields.retransmission", "a repeated atomic request carries another operand",
		""},
	{"atomic-misaligned", BugAtomicMisaligned, "fields.atomic-alignment",
		"atomic requests go to an address that is not a multiple of 8", ""},
	{"fecn-set", BugFECNSet, "fields.notification", "requests are sent with FECN", ""},
	{"ack-payload", BugAckPayload, "fields.payload", "acknowledgements carry four bytes of payload", ""},
	{"undefined-opcode", BugUndefinedOpcode, "fields.opcode",
		"every fourth acknowledgement has an opcode that is not defined", ""},
	{"payload-changes", BugPayloadChanges, "fields.payload-changed",
		"a repeated SEND or WRITE packet carries another first byte", ""},
	{"atomic-lost", BugAtomicLost, "fields.atomic-result", "every other atomic is answered, but does not change memory",
		""},
	{"ack-solicited", BugAckSolicited, "fields.response-solicited", "acknowledgements ask for a solicited event", ""},
	{"ack-asks-ack", BugAckAsksAck, "fields.response-ack-request", "acknowledgements ask for an acknowledgement", ""},
	{"ack-dscp", BugAckDSCP, "fields.dscp", "acknowledgements are sent with DSCP 0, whatever is set", ""},
	{"ecn-cleared", BugECNCleared, "fields.ecn", "repeated packets are sent as not ECN-capable", ""},
	{"ack-forgotten", BugAckForgotten, "retrans.ack-silence",
		"every third request that asks for an acknowledgement gets one only when it is repeated", ""},
	{"cnp-dscp", BugCNPDSCP, "fields.dscp", "CNPs are sent with the DSCP of data", ""},

	{"rkey-forgotten", BugKeyForgotten, "gbn.retransmit-changed",
		"a WRITE that is retransmitted carries another remote key",
		""},
	{"stale-nack-obeyed", BugObeysStaleNack, "gbn.resend-acknowledged",
		"a sequence NAK that arrives late is obeyed, whatever was acknowledged since", ""},
	{"rnr-timer-short", BugRNRTimerShort, "gbn.rnr-timer", "RNR NAKs ask for 10 us, whatever the queue pair's minimum",
		""},
	{"nack-restarts-neighbour", BugNackRestartsNeighbour, "gbn.timeout-early",
		"a sequence NAK makes the next queue pair go back, too", ""},
	{"error-spreads", BugErrorSpreads, "gbn.ack-missing", "a queue pair that fails takes all others of its host with it",
		""},
	{"drops-marked", BugDropsMarked, "gbn.nak-unprovoked",
		"packets with CE are dropped, as the iCRC is taken over the ECN bits", ""},
	{"ack-wrong-qp", BugAckWrongQP, "gbn.ack-missing", "acknowledgements go to the next queue pair", ""},
	{"wrap-acks-ignored", BugWrapAcksIgnored, "gbn.resend-acknowledged",
		"PSNs are compared as plain numbers, so that ACKs behind the wrap look old", ""},
}

// Catalogue returns all seeded faults, grouped by what they affect.
func Catalogue() []BugInfo { return append([]BugInfo(nil), catalogue...) }
