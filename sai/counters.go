package sai

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Count is the value of a counter. SONiC prints counters that a switch does not keep as N/A.
type Count int64

// Unavailable is the value of a counter that the switch does not keep.
const Unavailable Count = -1

// Known reports whether the switch keeps the counter.
func (c Count) Known() bool { return c >= 0 }

// MarshalJSON writes an unavailable counter as null.
func (c Count) MarshalJSON() ([]byte, error) {
	if !c.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(int64(c))
}

// UnmarshalJSON reads null as unavailable.
func (c *Count) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*c = Unavailable
		return nil
	}
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("counter %d is negative", n)
	}
	*c = Count(n)
	return nil
}

// String returns the number or N/A, as SONiC's show commands do.
func (c Count) String() string {
	if !c.Known() {
		return "N/A"
	}
	return fmt.Sprint(int64(c))
}

// since returns c − base; unavailable if either is.
func (c Count) since(base Count) Count {
	if !c.Known() || !base.Known() {
		return Unavailable
	}
	return c - base
}

// Queue has the counters of one queue. The three trim counters belong to the queue that refused the packet, not to the
// queue of its copy.
type Queue struct {
	Packets        Count `json:"SAI_QUEUE_STAT_PACKETS"` // sent
	Bytes          Count `json:"SAI_QUEUE_STAT_BYTES"`
	DroppedPackets Count `json:"SAI_QUEUE_STAT_DROPPED_PACKETS"` // not admitted, trimmed or not
	DroppedBytes   Count `json:"SAI_QUEUE_STAT_DROPPED_BYTES"`
	Trim           Count `json:"SAI_QUEUE_STAT_TRIM_PACKETS"`         // copies made
	TxTrim         Count `json:"SAI_QUEUE_STAT_TX_TRIM_PACKETS"`      // of which sent
	DroppedTrim    Count `json:"SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS"` // of which lost on the trim queue
}

// Port has the counters of one port and its queues.
type Port struct {
	Name        string  `json:"name"`
	InPackets   Count   `json:"SAI_PORT_STAT_IF_IN_UCAST_PKTS"`
	InOctets    Count   `json:"SAI_PORT_STAT_IF_IN_OCTETS"`
	OutPackets  Count   `json:"SAI_PORT_STAT_IF_OUT_UCAST_PKTS"`
	OutOctets   Count   `json:"SAI_PORT_STAT_IF_OUT_OCTETS"`
	OutDiscards Count   `json:"SAI_PORT_STAT_IF_OUT_DISCARDS"` // must include dropped originals
	Trim        Count   `json:"SAI_PORT_STAT_TRIM_PACKETS"`
	TxTrim      Count   `json:"SAI_PORT_STAT_TX_TRIM_PACKETS"`
	DroppedTrim Count   `json:"SAI_PORT_STAT_DROPPED_TRIM_PACKETS"`
	Queues      []Queue `json:"queues"` // by index
}

// ACL has the counters of one rule: packets that matched it.
type ACL struct {
	Rule    string `json:"rule"`
	Packets Count  `json:"SAI_ACL_COUNTER_ATTR_PACKETS"`
	Bytes   Count  `json:"SAI_ACL_COUNTER_ATTR_BYTES"`
}

// Schema names the version of a snapshot's JSON form.
const Schema = "candela.sai-counters/v1"

// Snapshot has every counter of a switch at one instant. The switch counts trimmed copies sent and lost, but not
// packets trimmed.
type Snapshot struct {
	Schema      string `json:"schema"`
	TxTrim      Count  `json:"SAI_SWITCH_STAT_TX_TRIM_PACKETS"`
	DroppedTrim Count  `json:"SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS"`
	Ports       []Port `json:"ports"`
	ACL         []ACL  `json:"acl,omitempty"`
}

// ErrOtherSwitch is the error for snapshots of different switches.
var ErrOtherSwitch = errors.New("snapshots differ in ports or queues")

// Since returns the counts since base. A switch's counters are never reset, so a baseline is subtracted. Both snapshots
// must list the same ports and queues in the same order, otherwise the error is ErrOtherSwitch. A rule that base lacks
// counts from 0.
func (s Snapshot) Since(base Snapshot) (Snapshot, error) {
	if len(s.Ports) != len(base.Ports) {
		return Snapshot{}, ErrOtherSwitch
	}
	d := Snapshot{Schema: Schema, TxTrim: s.TxTrim.since(base.TxTrim), DroppedTrim: s.DroppedTrim.since(base.DroppedTrim)}
	for i, p := range s.Ports {
		b := base.Ports[i]
		if p.Name != b.Name || len(p.Queues) != len(b.Queues) {
			return Snapshot{}, fmt.Errorf("port %s and %s: %w", p.Name, b.Name, ErrOtherSwitch)
		}
		d.Ports = append(d.Ports, p.since(b))
	}
	for _, a := range s.ACL {
		for _, b := range base.ACL {
			if a.Rule == b.Rule {
				a.Packets, a.Bytes = a.Packets.since(b.Packets), a.Bytes.since(b.Bytes)
			}
		}
		d.ACL = append(d.ACL, a)
	}
	return d, nil
}

func (p Port) since(b Port) Port {
	d := Port{
		Name: p.Name, InPackets: p.InPackets.since(b.InPackets), InOctets: p.InOctets.since(b.InOctets),
		OutPackets: p.OutPackets.since(b.OutPackets), OutOctets: p.OutOctets.since(b.OutOctets),
		OutDiscards: p.OutDiscards.since(b.OutDiscards),
		Trim:        p.Trim.since(b.Trim), TxTrim: p.TxTrim.since(b.TxTrim), DroppedTrim: p.DroppedTrim.since(b.DroppedTrim),
	}
	for i, q := range p.Queues {
		d.Queues = append(d.Queues, q.since(b.Queues[i]))
	}
	return d
}

func (q Queue) since(b Queue) Queue {
	return Queue{
		q.Packets.since(b.Packets), q.Bytes.since(b.Bytes),
		q.DroppedPackets.since(b.DroppedPackets), q.DroppedBytes.since(b.DroppedBytes),
		q.Trim.since(b.Trim), q.TxTrim.since(b.TxTrim), q.DroppedTrim.since(b.DroppedTrim),
	}
}

// Broken is one violated invariant.
type Broken struct {
	Rule     string // "conservation", "port-sum", "switch-sum" or "dropped"
	Port     string // empty: the switch
	Queue    int    // −1: the port or the switch
	Counter  string
	Expected string
	Actual   string
}

// Invariants returns the violations of the proposal's counter invariants, once the trim queues have drained:
//
//   - TRIM = TX_TRIM + DROPPED_TRIM of each queue.
//   - A port's counters are the sums of its queues', the switch's the sums of its ports'.
//   - A trimmed original counts as dropped.
//
// Unavailable counters are not checked.
func (s Snapshot) Invariants() []Broken {
	var list []Broken
	var tx, dropped sum
	for _, p := range s.Ports {
		list = append(list, p.invariants()...)
		tx.add(p.TxTrim)
		dropped.add(p.DroppedTrim)
	}
	at := Broken{Rule: "switch-sum", Queue: -1}
	list = tx.compare(list, at, "SAI_SWITCH_STAT_TX_TRIM_PACKETS", s.TxTrim)
	return dropped.compare(list, at, "SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS", s.DroppedTrim)
}

func (p Port) invariants() []Broken {
	var list []Broken
	var trim, tx, dropped sum
	for i, q := range p.Queues {
		var parts sum
		parts.add(q.TxTrim)
		parts.add(q.DroppedTrim)
		at := Broken{Rule: "conservation", Port: p.Name, Queue: i}
		list = parts.compare(list, at, "SAI_QUEUE_STAT_TRIM_PACKETS", q.Trim)
		if q.Trim.Known() && q.DroppedPackets.Known() && q.DroppedPackets < q.Trim {
			list = append(list, Broken{
				"dropped", p.Name, i, "SAI_QUEUE_STAT_DROPPED_PACKETS", fmt.Sprintf("at least %d, the packets trimmed", q.Trim),
				q.DroppedPackets.String(),
			})
		}
		trim.add(q.Trim)
		tx.add(q.TxTrim)
		dropped.add(q.DroppedTrim)
	}
	at := Broken{Rule: "port-sum", Port: p.Name, Queue: -1}
	list = trim.compare(list, at, "SAI_PORT_STAT_TRIM_PACKETS", p.Trim)
	list = tx.compare(list, at, "SAI_PORT_STAT_TX_TRIM_PACKETS", p.TxTrim)
	list = dropped.compare(list, at, "SAI_PORT_STAT_DROPPED_TRIM_PACKETS", p.DroppedTrim)
	return list
}

// sum adds counters; an unavailable one makes the sum unknown.
type sum struct {
	total   Count
	unknown bool
}

func (s *sum) add(c Count) {
	if !c.Known() {
		s.unknown = true
		return
	}
	s.total += c
}

func (s *sum) compare(list []Broken, at Broken, counter string, actual Count) []Broken {
	if s.unknown || !actual.Known() || actual == s.total {
		return list
	}
	at.Counter, at.Expected, at.Actual = counter, s.total.String(), actual.String()
	return append(list, at)
}
