// Package verbs drives real RDMA NICs and Linux's soft-RoCE through libibverbs.
//
// The library is used by a separate program, candela-verbs, built with cgo (packages ibv and candela-verbs, build tag
// verbs), so that the harness stays pure Go. The program serves a protocol on standard input and output, or on a
// guest's control port: each request and each response is one line of JSON. Responses come in the order of the
// requests. This package has the protocol, its client ([Client]), and the device information that Linux offers without
// the library.
package verbs

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// Schema names the version of the protocol.
const Schema = "candela.verbs/v3"

// Operations, in the order of a test. Each has a request and a response type named after it.
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

// Response is one line from the agent. Error is empty on success.
type Response struct {
	ID     uint64          `json:"id"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Hello describes the agent and its machine.
type Hello struct {
	Schema      string `json:"schema"`
	Kernel      string `json:"kernel"`
	MonotonicNS int64  `json:"monotonic_ns"` // to compare clocks
	UptimeNS    int64  `json:"uptime_ns"`    // since boot
	MemTotalKiB int64  `json:"mem_total_kib"`
	ClockSource string `json:"clock_source"`
}

// ConfigureRequest brings a guest's only interface up and adds a soft-RoCE device to it. A host refuses the operation:
// its administrator configures it.
type ConfigureRequest struct {
	MAC        packet.MAC     `json:"mac"`
	Addresses  []netip.Prefix `json:"addresses"`
	MTU        int            `json:"mtu"` // of the interface, in bytes
	Neighbours []Neighbour    `json:"neighbours"`
}

// Neighbour is a static neighbour entry of the guest.
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
	IP          netip.Addr  `json:"ip"`        // local
	GIDIndex    *int        `json:"gid_index"` // of IP; nil: the program finds it
	IPSN        *packet.PSN `json:"ipsn"`      // nil: the agent draws one
	MTU         int         `json:"mtu"`       // path MTU in bytes
	AckTimeout  uint8       `json:"ack_timeout"`
	RetryCount  uint8       `json:"retry_count"`
	RNRRetry    uint8       `json:"rnr_retry"`
	MinRNRTimer uint8       `json:"min_rnr_timer"`
	HopLimit    uint8       `json:"hop_limit"`
	// TrafficClass is the IP header's: DSCP and ECN bits.
	TrafficClass uint8 `json:"traffic_class"`
	// FlowLabel is IPv6's; RoCEv2 derives the UDP source port from it. 0: the device's choice.
	FlowLabel  uint32 `json:"flow_label,omitempty"`
	SourcePort uint16 `json:"source_port,omitempty"` // of UDP; 0: that of the flow label, or the device's choice
	// MaxRDAtomic is the number of outstanding READs and atomics in either direction; 0: 16, or what the device has.
	MaxRDAtomic int `json:"max_rd_atomic,omitempty"`
	// Traffic is posted by this side, PeerTraffic by the peer. No messages: nothing.
	Traffic     generator.Traffic `json:"traffic"`
	PeerTraffic generator.Traffic `json:"peer_traffic"`
}

// OpenRequest creates queue pairs and destroys those of an earlier request.
type OpenRequest struct {
	Device       string         `json:"device"`
	Port         int            `json:"port"`           // of the device, from 1
	Echo         string         `json:"echo,omitempty"` // interface where the switch's echoes are answered; empty: nowhere
	Side         generator.Side `json:"side"`
	Connections  []Connection   `json:"connections"`
	BarrierSync  bool           `json:"barrier_sync"`
	ReceiveDepth int            `json:"receive_depth"`
	RepostNS     int64          `json:"repost_ns"`
	Seed         uint64         `json:"seed"` // of initial PSNs and memory content
}

// End is the address of one side of a connection that the peer needs.
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
	// Attributes are those of a queue pair that programs of earlier versions ignore.
	Attributes []string `json:"attributes,omitempty"`
}

// Attributes of queue pairs in OpenResponse.
const (
	AttributeFlowLabel   = "flow_label"
	AttributeSourcePort  = "source_port"
	AttributeMaxRDAtomic = "max_rd_atomic"
)

// Attributes lists those that this version knows.
func Attributes() []string {
	return []string{AttributeFlowLabel, AttributeSourcePort, AttributeMaxRDAtomic}
}

// Ignored returns an error if the program ignores an attribute that the request sets.
func (r *OpenResponse) Ignored(q *OpenRequest) error {
	for i := range q.Connections {
		c := &q.Connections[i]
		for name, set := range map[string]bool{AttributeFlowLabel: c.FlowLabel != 0, AttributeSourcePort: c.SourcePort != 0,
			AttributeMaxRDAtomic: c.MaxRDAtomic != 0} {
			if set && !slices.Contains(r.Attributes, name) {
				return fmt.Errorf("candela-verbs doesn't know %s of a queue pair: install candela and candela-verbs of one version",
					name)
			}
		}
	}
	return nil
}

// Device describes an RDMA device.
type Device struct {
	Name       string `json:"name"`
	Firmware   string `json:"firmware"`
	VendorID   uint32 `json:"vendor_id"`
	VendorPart uint32 `json:"vendor_part"`
	MaxReads   int    `json:"max_reads"` // outstanding READs and atomics per queue pair, as responder
	// Lacks are the features that the device declares as missing.
	Lacks []string `json:"lacks,omitempty"`
}

// SoftwareVendorID is the vendor of soft-RoCE devices.
const SoftwareVendorID = 0xffffff

// SoftwareVendor is the name of soft-RoCE's counters.
const SoftwareVendor = "rxe"

// Software reports whether a vendor's devices are software.
func Software(vendor uint32) bool { return vendor == SoftwareVendorID }

// Lacking returns the missing features of a vendor's devices. Soft-RoCE has no congestion management: it neither sends
// CNPs nor reacts to them.
func Lacking(vendor uint32) []string {
	if Software(vendor) {
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

// StatusResponse is the progress of the traffic.
type StatusResponse struct {
	Done      bool `json:"done"` // nothing outstanding, nothing more to post
	Completed int  `json:"completed"`
}

// ReportResponse is the result of the traffic.
type ReportResponse struct {
	Report generator.Report `json:"report"`
	Data   []Data           `json:"data"` // by connection
}

// Data is the result of the data comparison on one side of a connection. Both sides know the expected data: every byte
// of memory, and of a SEND, is a function of its position (rdma.Content).
type Data struct {
	// messages that only this side could compare: SENDs received, READs and atomics posted here
	Checked int    `json:"checked"`
	Wrong   int    `json:"wrong"`
	First   string `json:"first"` // difference
	// Written is the first difference between the memory that the peer's WRITEs fill and the expected content; empty:
	// none. It is valid only if a WRITE completed.
	Written string `json:"written"`
	// Word is the final value of the word that the peer's atomics change; it starts at 0.
	Word uint64 `json:"word"`
	// Imaginary means that there is no memory: Written and Word are invalid, and all data was compared on arrival.
	Imaginary bool `json:"imaginary"`
}
