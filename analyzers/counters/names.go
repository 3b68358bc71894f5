package counters

import (
	"maps"
	"slices"
)

// Counter is a counter by its meaning, whatever a vendor calls it.
type Counter int

// Counters that are compared with the trace.
const (
	TxPackets        Counter = iota // RoCE packets sent
	RxPackets                       // RoCE packets received, those with a bad iCRC included
	PacketSeqErr                    // requester: sequence NAKs received
	OutOfSequence                   // responder: gaps in the requests, one for each sequence NAK
	ImpliedNak                      // requester: gaps in READ responses
	DuplicateRequest                // responder: requests received again
	LocalAckTimeout                 // requester: expiries of the local ACK timer
	ICRC                            // packets dropped for their iCRC
	CNPSent                         // notification point
	CNPHandled                      // reaction point
	CNPIgnored                      // CNPs received while the reaction point is off
	ECNMarked                       // notification point: data packets received with CE
	RNRReceived                     // requester: RNR NAKs received
	RNRSent                         // responder: requests without a receive buffer
	TxDiscards
	RxDiscards
	numCounters
)

var ruleIDs = [numCounters]string{
	TxPackets: "counters.tx-packets", RxPackets: "counters.rx-packets", PacketSeqErr: "counters.packet-seq-err",
	OutOfSequence: "counters.out-of-sequence", ImpliedNak: "counters.implied-nak",
	DuplicateRequest: "counters.duplicate-request", LocalAckTimeout: "counters.local-ack-timeout", ICRC: "counters.icrc",
	CNPSent: "counters.cnp-sent", CNPHandled: "counters.cnp-handled", CNPIgnored: "counters.cnp-ignored",
	ECNMarked: "counters.ecn-marked", RNRReceived: "counters.rnr-received", RNRSent: "counters.rnr-sent",
	TxDiscards: ruleDiscards, RxDiscards: ruleDiscards,
}

// names are those of one vendor. A counter without one does not exist in the vendor's driver.
type names [numCounters]string

// namings are vendor tables. NVIDIA: the mlx5 driver's hardware counters and ethtool statistics (Lumina, §5.4, and the
// driver's documentation). Intel: the irdma driver's hardware statistics. Broadcom and HiSilicon: those of Linux's
// bnxt_re (hw_counters.c) and hns_roce (hns_roce_main.c) whose meaning their names leave no doubt about; whether
// to_retransmits counts timeouts or packets, or oos_drop_count gaps or packets, no document says.
var namings = map[string]names{
	"nvidia": {
		TxPackets: "tx_vport_rdma_unicast_packets", RxPackets: "rx_vport_rdma_unicast_packets",
		PacketSeqErr: "packet_seq_err", OutOfSequence: "out_of_sequence", ImpliedNak: "implied_nak_seq_err",
		DuplicateRequest: "duplicate_request", LocalAckTimeout: "local_ack_timeout_err", ICRC: "rx_icrc_encapsulated",
		CNPSent: "np_cnp_sent", CNPHandled: "rp_cnp_handled", CNPIgnored: "rp_cnp_ignored",
		ECNMarked: "np_ecn_marked_roce_packets", RNRReceived: "rnr_nak_retry_err", RNRSent: "out_of_buffer",
		TxDiscards: "tx_discards_phy", RxDiscards: "rx_discards_phy",
	},
	"intel": {
		TxPackets: "TxUDP", RxPackets: "RxUDP",
		CNPSent: "cnpSent", CNPHandled: "cnpHandled", CNPIgnored: "cnpIgnored", ECNMarked: "RxECNMrkd",
		RxDiscards: "ip4InDiscards",
	},
	"broadcom": {
		PacketSeqErr: "seq_err_naks_rcvd", RNRReceived: "rnr_naks_rcvd",
		CNPSent: "tx_cnp_pkts", CNPHandled: "rx_cnp_pkts", ECNMarked: "rx_ecn_marked_pkts",
		TxDiscards: "tx_roce_discards", RxDiscards: "rx_roce_discards",
	},
	"hisilicon": {CNPSent: "tx_cnp_pkt", CNPHandled: "rx_cnp_pkt"},
	"candela": {
		TxPackets: "tx_packets", RxPackets: "rx_packets",
		PacketSeqErr: "packet_seq_err", OutOfSequence: "out_of_sequence", ImpliedNak: "implied_nak_seq_err",
		DuplicateRequest: "duplicate_request", LocalAckTimeout: "local_ack_timeout_err", ICRC: "rx_icrc_encapsulated",
		CNPSent: "np_cnp_sent", CNPHandled: "rp_cnp_handled", CNPIgnored: "rp_cnp_ignored",
		ECNMarked: "np_ecn_marked_roce_packets", RNRReceived: "rnr_nak_retry_err", RNRSent: "out_of_buffer",
		TxDiscards: "tx_discards", RxDiscards: "rx_discards",
	},
	// Soft-RoCE documents no counter's exact meaning: none is judged yet.
	"rxe": {},
	// Nothing is known of the counters of other drivers; they are recorded.
	"unknown": {},
}

// Namings returns the known values of Host.Naming.
func Namings() []string { return slices.Sorted(maps.Keys(namings)) }
