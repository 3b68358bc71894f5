// Package aqm has the settings and counters of switches with active queue management as data: what a test sets and what
// a switch reports. Models implement the settings, the analyzer compares, and neither imports the other.
package aqm

import (
	"math"

	"candela.dev/candela/clock"
)

// Scheme is how packets are dropped or marked before a buffer is full.
type Scheme uint8

// Schemes. The zero value is none: tail drop alone.
const (
	TailDrop  Scheme = iota
	AFD              // approximate fair dropping: elephants only, by the excess over a fair rate
	RED              // random early detection: any packet, by the mean queue
	Threshold        // ECN marks while a queue holds at least so much
)

// Settings are those of one switch. Queues of data have the numbers from 0, one for each class; with DPP the queue of
// mice follows them.
type Settings struct {
	Queues       int // of data at each port
	DPP          *DPP
	Etrap        Etrap
	Scheme       Scheme
	System       Policy   // of every port and queue
	Policies     []Policy // override the system's where they apply: interface first, then the last that applies
	Interfaces   bool     // only ports with a policy of their own have one: the system's gives no more than defaults
	QueueBytes   []int    // room of each queue of data; 0: none of its own
	SharedBuffer bool     // further limits apply than those of queue and port
	OtherMarks   bool     // queues mark besides the scheme
	CounterBits  int      // after which counters begin with 0 again, as they do with 32 in many MIBs; 0: 64
	Lossless     uint8    // classes, one bit each, that are paused: no limit and no scheme drops their packets
}

// Wrapped returns what a counter of the switch shows after n.
func (s *Settings) Wrapped(n uint64) uint64 {
	if s.CounterBits == 0 {
		return n
	}
	return n & (1<<s.CounterBits - 1)
}

// Wrapped returns what the counters of a queue show after counts.
func (g Group) Wrapped(s *Settings) Group {
	for _, n := range []*uint64{&g.TxPackets, &g.TxBytes, &g.EarlyPackets, &g.EarlyBytes, &g.DroppedPackets,
		&g.MarkedPackets} {
		*n = s.Wrapped(*n)
	}
	return g
}

// Etrap are the settings of the elephant trap.
type Etrap struct {
	ByteCount    int64 // a flow that has sent more is an elephant
	AgePeriod    clock.Duration
	Threshold    int64 // bytes: an elephant that sends fewer in a period is removed
	Inclusive    bool  // "more" and "fewer" include the limits themselves
	Weight       float64
	EvictHold    clock.Duration
	MiceNeverAge bool
	PerSwitch    bool // one table for all ports
	TableSize    int  // 0: no limit
	HashBits     int  // keys are that many bits of their hash; 0: keys do not collide
}

// DPP are the settings of dynamic packet prioritization.
type DPP struct {
	MaxPackets int // the first so many packets of a flow are mice
	Exclusive  bool
	AgePeriod  clock.Duration
	Class      int // that it applies to; −1: every class
	DataOnly   bool
	PerSwitch  bool
	HashBits   int
}

// SmallBytes is the size below which packets do not count toward DPP if only data does: TCP's pure ACKs over IPv6 with
// timestamps and three SACK blocks are smaller.
const SmallBytes = 128

// DropFunction is the probability as a function of a flow's rate r and the fair rate F.
type DropFunction uint8

// Drop functions.
const (
	Share  DropFunction = iota // 1 − F/r, the share of the excess in the rate
	Excess                     // (r − F)/F, the excess in fair rates
)

// Policy is what a port and queue are set to. Fields that are not Set keep the values of the system.
type Policy struct {
	Port, Queue int // −1: all
	Set         Fields
	Off         bool // no early drops or marks
	ECN         bool // ECN-capable packets are marked instead
	// of AFD
	DesiredBytes int // 0: 120 us at the port's rate
	Period       clock.Duration
	Kp, Ki       float64
	LeastRate    clock.BitRate
	MaxDrop      float64
	Gate         bool // nothing is dropped while the queue holds less than half of DesiredBytes
	Function     DropFunction
	// of RED, at 10 Gb/s if they are not set: they grow with the rate
	MinBytes, MaxBytes int
	MaxProbability     float64
	Weight             float64
	// of Threshold; 0: 65 packets of 1500 bytes at 10 Gb/s, and grows with the rate
	ThresholdBytes int
	PortBytes      int // of all queues of the port together, if Queue is −1; 0: no limit
}

// Fields is a set of fields of a Policy.
type Fields uint16

// Fields.
const (
	FieldOff Fields = 1 << iota
	FieldECN
	FieldDesired
	FieldKp
	FieldKi
	FieldMaxDrop
	FieldGate
	FieldMin
	FieldMax
	FieldMaxProbability
	FieldThreshold
	FieldPort
)

// Defaults at 10 Gb/s (white paper, table 1: 150 KB; RED and DCTCP: as usually set).
const (
	DrainTime    = 120 * clock.Microsecond // of the desired queue depth at line rate
	redMinBytes  = 150_000
	redMaxBytes  = 450_000
	dctcpBytes   = 65 * 1500
	defaultsRate = 10 * clock.Gbps
)

// DesiredDepth returns the recommended queue depth in bytes for a port: 120 us at its rate, which gives 150, 600 and
// 1500 KB at 10, 40 and 100 Gb/s.
func DesiredDepth(rate clock.BitRate) int {
	return int(math.Round(float64(rate) * DrainTime.Microseconds() / 8e6))
}

// Scaled returns a number of bytes at 10 Gb/s for a port of another rate.
func Scaled(bytes int, rate clock.BitRate) int {
	return int(math.Round(float64(bytes) * float64(rate) / float64(defaultsRate)))
}

// REDBytes returns RED's thresholds for a port.
func REDBytes(rate clock.BitRate) (low, high int) {
	return Scaled(redMinBytes, rate), Scaled(redMaxBytes, rate)
}

// ThresholdBytes returns DCTCP's marking threshold K for a port.
func ThresholdBytes(rate clock.BitRate) int { return Scaled(dctcpBytes, rate) }

// BufferBytes returns the buffer that keeps a link of a rate busy: C·RTT for a single flow, C·RTT/√N for N long ones
// (Appenzeller et al. 2004). It needs windows of several packets: with 2500 flows at 100 Gb/s and 100 us each has
// 500 bytes.
func BufferBytes(rate clock.BitRate, rtt clock.Duration, flows int) float64 {
	return float64(rate) / 8 * float64(rtt) / float64(clock.Second) / math.Sqrt(float64(flows))
}

// Counters are those of one switch, by port and queue, since it started.
type Counters struct{ Ports [][]Group }

// Group counts what `show queuing interface` shows of a queue (QoS group). Bytes are those of packets without FCS.
type Group struct {
	TxPackets, TxBytes       uint64
	EarlyPackets, EarlyBytes uint64 // dropped by AFD, RED or WRED
	DepthBytes               int    // waiting now
	DroppedPackets           uint64 // early and tail drops
	MarkedPackets            uint64 // set to CE by AFD, RED, WRED or threshold
}
