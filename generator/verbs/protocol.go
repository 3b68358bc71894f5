// Package verbs drives real RDMA NICs, Linux's soft-RoCE among them, through libibverbs.
//
// What touches the library is a program of its own, candela-verbs, built with cgo (packages ibv and candela-verbs,
// build tag verbs), so that the harness itself stays pure Go. It serves a small protocol on standard input and output,
// or on a guest's control port: a request is a line of JSON, its answer is another. Requests are answered in order.
// This package has the protocol, the caller's side of it ([Client]), and what Linux tells of a device without the
// library.
package verbs

import (
	"encoding/json"
	"net/netip"

	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// Schema names the version of the protocol.
const Schema = "candela.verbs/v2"

// Operations, in the order of a test. Each has a request and an answer type of its name below.
const (
	OpHello     = "hello"
	OpConfigure = "configure" // guests only
	OpOpen      = "open"
	OpConnect   = "connect"
	OpCounters  = "counters"
	OpStart     = "start"
	OpStatus    = "status"
	OpReport    = "report"
	OpClose     = "close"
)

// Request is one line to the agent.
type Request struct {
	ID     uint64          `json:"id"`
	Op     string          `json:"op"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Response is the line that answers it. Error is empty on success.
type Response struct {
	ID     uint64          `json:"id"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Hello says who answers.
type Hello struct {
	Schema      string `json:"schema"`
	Kernel      string `json:"kernel"`
	MonotonicNS int64  `json:"monotonic_ns"` // to compare clocks
	UptimeNS    int64  `json:"uptime_ns"`    // since boot
	MemTotalKiB int64  `json:"mem_total_kib"`
	ClockSource string `json:"clock_source"`
}

// ConfigureRequest sets a guest's one interface up and puts a soft-RoCE device on it. A host's administrator does that
// himself: there the operation is refused.
type ConfigureRequest struct {
	MAC        packet.MAC     `json:"mac"`
	Addresses  []netip.Prefix `json:"addresses"`
	MTU        int            `json:"mtu"` // of the interface, in bytes
	Neighbours []Neighbour    `json:"neighbours"`
}

// Neighbour is a station that the guest shall not have to ask for.
type Neighbour struct {
	IP  netip.Addr `json:"ip"`
	MAC packet.MAC `json:"mac"`
}

// ConfigureResponse names the RDMA device.
type ConfigureResponse struct {
	Device string `json:"device"`
}

// Connection is one queue pair to make.
type Connection struct {
	IP          netip.Addr  `json:"ip"`   // local
	IPSN        *packet.PSN `json:"ipsn"` // nil: the agent draws one
	MTU         int         `json:"mtu"`  // path MTU in bytes
	AckTimeout  uint8       `json:"ack_timeout"`
	RetryCount  uint8       `json:"retry_count"`
	RNRRetry    uint8       `json:"rnr_retry"`
	MinRNRTimer uint8       `json:"min_rnr_timer"`
	HopLimit    uint8       `json:"hop_limit"`
	// TrafficClass is the IP header's: DSCP and ECN bits.
	TrafficClass uint8 `json:"traffic_class"`
	// Traffic is what this side posts, PeerTraffic what the peer does; no messages: nothing.
	Traffic     generator.Traffic `json:"traffic"`
	PeerTraffic generator.Traffic `json:"peer_traffic"`
}

// OpenRequest makes queue pairs; those of an earlier request are gone.
type OpenRequest struct {
	Device       string         `json:"device"`
	Side         generator.Side `json:"side"`
	Connections  []Connection   `json:"connections"`
	BarrierSync  bool           `json:"barrier_sync"`
	ReceiveDepth int            `json:"receive_depth"`
	RepostNS     int64          `json:"repost_ns"`
	Seed         uint64         `json:"seed"` // of initial PSNs and of what memory holds
}

// End is one side of a connection, as the other needs it.
type End struct {
	IP     netip.Addr       `json:"ip"`
	QPN    packet.QPN       `json:"qpn"`
	IPSN   packet.PSN       `json:"ipsn"`
	Region generator.Region `json:"region"`
}

// OpenResponse has an end for each connection.
type OpenResponse struct {
	Ends   []End  `json:"ends"`
	Device Device `json:"device"`
}

// Device describes an RDMA device.
type Device struct {
	Name       string `json:"name"`
	Firmware   string `json:"firmware"`
	VendorID   uint32 `json:"vendor_id"`
	VendorPart uint32 `json:"vendor_part"`
	MaxReads   int    `json:"max_reads"` // outstanding READs and atomics per queue pair, as responder
	// Lacks are the features that the device declares not to have.
	Lacks []string `json:"lacks,omitempty"`
}

// rxeVendor is the vendor of soft-RoCE devices.
const rxeVendor = 0xffffff

// Lacking returns the features that a device of a vendor declares not to have: soft-RoCE has no congestion management,
// so it neither sends CNPs nor reacts to any.
func Lacking(vendor uint32) []string {
	if vendor == rxeVendor {
		return []string{generator.NotificationPoint, generator.ReactionPoint}
	}
	return nil
}

// ConnectRequest has the peers' ends, in the order of the connections.
type ConnectRequest struct {
	Peers []End `json:"peers"`
}

// Counter is one counter of the device.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// CountersResponse has every counter, sorted by name.
type CountersResponse struct {
	Counters []Counter `json:"counters"`
}

// StatusResponse says how far the traffic is.
type StatusResponse struct {
	Done      bool `json:"done"` // nothing outstanding, nothing more to post
	Completed int  `json:"completed"`
}

// ReportResponse is what the traffic came to.
type ReportResponse struct {
	Report generator.Report `json:"report"`
	Data   []Data           `json:"data"` // by connection
}

// Data says of one side of a connection whether what arrived is what the peer sent. Both sides know that: every byte of
// memory, and of a SEND, is a function of where it is (rdma.Content).
type Data struct {
	// messages that this side alone could compare: SENDs that came, READs and atomics posted here
	Checked int    `json:"checked"`
	Wrong   int    `json:"wrong"`
	First   string `json:"first"` // difference
	// Written is the first difference between the memory that the peer's WRITEs fill and what they should have put there;
	// empty: they are equal. It means something only if a WRITE was done.
	Written string `json:"written"`
	// Word is what the peer's atomics have left, from 0.
	Word uint64 `json:"word"`
	// Imaginary says that there is no memory: Written and Word mean nothing, all data was compared on arrival.
	Imaginary bool `json:"imaginary"`
}
