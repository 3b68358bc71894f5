package rdma

// Counters are the counters of a NIC. A profile's CounterNames map the canonical names to the vendor's. They start at 0
// when the NIC is created and never decrease.
type Counters struct {
	TxPackets, TxBytes uint64 // RoCE frames put on the wire, without FCS
	RxPackets, RxBytes uint64 // RoCE frames addressed to the NIC, including those with a bad iCRC

	// Requester.
	PacketSeqErr    uint64 // sequence NAKs that restarted transmission
	ImpliedNakErr   uint64 // READ responses or ACKs that showed earlier READ responses or atomic ACKs to be lost
	LocalAckTimeout uint64 // expiries of the local ACK timer
	RNRNakReceived  uint64 // RNR NAKs that made the requester wait
	ReqCQEError     uint64 // work requests completed in error, including flushed ones
	ReqCQEFlush     uint64 // flushed work requests
	BadResponse     uint64 // READ responses or atomic ACKs that do not fit the request

	// Responder.
	OutOfSequence    uint64 // sequence NAKs sent, one for each gap in the request stream
	DuplicateRequest uint64 // request packets with a PSN before the expected one
	OutOfBuffer      uint64 // RNR NAKs sent, one for each request that found no receive buffer
	RespCQEError     uint64 // receive requests completed in error, including flushed ones
	ReadRequests     uint64 // executed READ requests, including repeated ones
	WriteRequests    uint64 // completed WRITE messages
	AtomicRequests   uint64 // executed atomics

	// Congestion notification.
	CNPSent    uint64
	CNPHandled uint64 // CNPs that reached the rate limiter
	CNPIgnored uint64 // CNPs received while the reaction point is off
	ECNMarked  uint64 // data packets that arrived with CE

	// Integrity.
	ICRCErrors      uint64 // packets dropped for their iCRC
	TrimmedReceived uint64 // trimmed headers recognised; only profiles with a trim reaction

	Invalid     uint64 // packets silently dropped: unknown queue pair, wrong source, version or P_Key
	DataErrors  uint64 // accepted payloads that differ from what the sender's memory holds; no real NIC has this
	RxDiscards  uint64 // always 0: the model has no finite receive buffer
	TxDiscards  uint64 // always 0
	AdaptiveRet uint64 // retransmissions by an adaptive timer; 0 in profiles without one
}

// Counter is one counter under its vendor's name.
type Counter struct {
	Canonical string // name in Candela, the same for all vendors
	Name      string // name of the profile's vendor
	Value     uint64
}

// DataErrors is the counter of payloads that differ from what the peer's memory has.
const DataErrors = "data_errors"

// canonical lists all counters in the order of reports. Names are NVIDIA's if NVIDIA has the counter.
var canonical = []struct {
	name  string
	value func(*Counters) uint64
}{
	{"tx_packets", func(c *Counters) uint64 { return c.TxPackets }},
	{"tx_bytes", func(c *Counters) uint64 { return c.TxBytes }},
	{"rx_packets", func(c *Counters) uint64 { return c.RxPackets }},
	{"rx_bytes", func(c *Counters) uint64 { return c.RxBytes }},
	{"packet_seq_err", func(c *Counters) uint64 { return c.PacketSeqErr }},
	{"implied_nak_seq_err", func(c *Counters) uint64 { return c.ImpliedNakErr }},
	{"local_ack_timeout_err", func(c *Counters) uint64 { return c.LocalAckTimeout }},
	{"rnr_nak_retry_err", func(c *Counters) uint64 { return c.RNRNakReceived }},
	{"req_cqe_error", func(c *Counters) uint64 { return c.ReqCQEError }},
	{"req_cqe_flush_error", func(c *Counters) uint64 { return c.ReqCQEFlush }},
	{"bad_response", func(c *Counters) uint64 { return c.BadResponse }},
	{"out_of_sequence", func(c *Counters) uint64 { return c.OutOfSequence }},
	{"duplicate_request", func(c *Counters) uint64 { return c.DuplicateRequest }},
	{"out_of_buffer", func(c *Counters) uint64 { return c.OutOfBuffer }},
	{"resp_cqe_error", func(c *Counters) uint64 { return c.RespCQEError }},
	{"rx_read_requests", func(c *Counters) uint64 { return c.ReadRequests }},
	{"rx_write_requests", func(c *Counters) uint64 { return c.WriteRequests }},
	{"rx_atomic_requests", func(c *Counters) uint64 { return c.AtomicRequests }},
	{"np_cnp_sent", func(c *Counters) uint64 { return c.CNPSent }},
	{"np_ecn_marked_roce_packets", func(c *Counters) uint64 { return c.ECNMarked }},
	{"rp_cnp_handled", func(c *Counters) uint64 { return c.CNPHandled }},
	{"rp_cnp_ignored", func(c *Counters) uint64 { return c.CNPIgnored }},
	{"rx_icrc_encapsulated", func(c *Counters) uint64 { return c.ICRCErrors }},
	{"rx_trimmed_packets", func(c *Counters) uint64 { return c.TrimmedReceived }},
	{"invalid_packets", func(c *Counters) uint64 { return c.Invalid }},
	{DataErrors, func(c *Counters) uint64 { return c.DataErrors }},
	{"roce_adp_retrans", func(c *Counters) uint64 { return c.AdaptiveRet }},
	{"rx_discards", func(c *Counters) uint64 { return c.RxDiscards }},
	{"tx_discards", func(c *Counters) uint64 { return c.TxDiscards }},
}

// List returns the counters in a fixed order under the vendor's names. A counter without an entry in names keeps its
// canonical name.
func (c *Counters) List(names map[string]string) []Counter {
	list := make([]Counter, len(canonical))
	for i, e := range canonical {
		name, ok := names[e.name]
		if !ok {
			name = e.name
		}
		list[i] = Counter{Canonical: e.name, Name: name, Value: e.value(c)}
	}
	return list
}
