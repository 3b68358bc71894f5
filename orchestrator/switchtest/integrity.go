package switchtest

import (
	"fmt"

	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// IntegritySchema names the format of integrity.json of a switch test.
const IntegritySchema = "candela.switch-integrity/v1"

// IntegrityDocument says whether the observation of a run is complete. If it is not, nothing can be said about the
// switch.
type IntegrityDocument struct {
	Schema     string      `json:"schema"`
	Valid      bool        `json:"valid"`
	Conditions []Condition `json:"conditions"`
	// Conservation says where packets are missing: such a switch fails.
	Conservation []string `json:"conservation,omitempty"`
	// Live says how a run on real frames went; empty: it was simulated.
	Live string `json:"live,omitempty"`
}

// Condition is one thing that has to hold.
type Condition struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok or violated
	Detail string `json:"detail,omitempty"`
}

// Violations lists what doesn't hold.
func (d *IntegrityDocument) Violations() []string {
	var list []string
	for _, c := range d.Conditions {
		if c.Status != "ok" {
			list = append(list, "integrity: "+c.Name+": "+c.Detail)
		}
	}
	return list
}

func (d *IntegrityDocument) add(name, wrong string) {
	c := Condition{Name: name, Status: "ok", Detail: wrong}
	if wrong != "" {
		c.Status, d.Valid = "violated", false
	}
	d.Conditions = append(d.Conditions, c)
}

// unbooked compares the flows that were booked with those of the plan: a file of flows may have changed meanwhile.
func (r *run) unbooked() string {
	if got := r.stream.stats.Flows; got != int64(r.plan.total) {
		return fmt.Sprintf("%d of %d flows were booked", got, r.plan.total)
	}
	return ""
}

// integrity checks the taps against the network's own counters, which are kept apart from them.
func (r *run) integrity() *IntegrityDocument {
	d := &IntegrityDocument{Schema: IntegritySchema, Valid: true}
	if w := r.watched; w != nil {
		d.add("there is something to judge", r.plan.nothingJudged())
		d.add("every flow is booked", r.unbooked())
		if w.hosts {
			d.add("every packet of the hosts was seen", w.missedAtHosts(r.net))
		}
		if r.plan.Test.Judge.Ports.Some() {
			d.add("every packet at the judged ports was seen", w.missed(r.net))
		}
	} else {
		d.add("every packet of the hosts was seen", r.missedAtHosts())
		d.add("every packet at the switches was seen", r.missedAtSwitches())
	}
	d.add("no packet is unaccounted for", r.unaccounted())
	if r.live == nil {
		d.Conservation = r.unbalanced()
	}
	if r.live != nil {
		d.add("every frame between hosts and switch came", r.outside())
		d.add("the bytes of every frame are what the taps show", r.live.report.Differences())
		d.Live = r.live.report.Text()
	}
	if r.capture != nil {
		d.add("the captures hold every packet of their taps", r.capture.incomplete())
	}
	return d
}

// unbalanced compares what came into each switch, and what exists in the network, with what became of it.
func (r *run) unbalanced() (list []string) {
	for i := range devices(r.net) {
		sw := deviceAt(r.net, i)
		t := sw.Tally()
		if missing := t.Missing(); missing != 0 {
			text := fmt.Sprintf("%d packets are missing", missing)
			if missing < 0 {
				text = fmt.Sprintf("%d packets too many", -missing)
			}
			list = append(list, fmt.Sprintf("conservation: %s at %s: %d came, it made %d, sent %d and dropped %d; %d are inside",
				text, sw.Name(), t.Received, t.Made, t.Sent, t.Dropped, t.Inside))
		}
	}
	if exist, placed := r.net.InFlight(), r.net.Placed(); exist != placed && len(list) == 0 {
		list = append(list, fmt.Sprintf("conservation: %d packets exist, and %d are in queues, at switches and on links",
			exist, placed))
	}
	return list
}

func (r *run) missedAtHosts() string {
	for k := range kinds {
		kind := fabric.Kind(k)
		c := r.net.Counts(kind)
		if kind.Protocol() == fabric.PFC {
			continue // between neighbours: taps show what is forwarded
		}
		if s := &r.ledger.census; s.sent[k] != c.Sent || s.delivered[k] != c.Delivered || s.dropped[k] != c.Dropped {
			return fmt.Sprintf("%s: the taps saw %d sent, %d delivered, %d dropped; the network counts %d, %d, %d", kind,
				s.sent[k], s.delivered[k], s.dropped[k], c.Sent, c.Delivered, c.Dropped)
		}
	}
	return ""
}

func (r *run) missedAtSwitches() string {
	for i := range r.net.Switches() {
		sw := r.net.Switch(i)
		for port := range sw.Ports() {
			c, s := sw.Port(port).Counters(), &r.ledger.taps[i]
			if in, out := s.in[port]+c.PausesReceived, s.out[port]+c.PausesSent; in != c.Received || out < c.Sent ||
				out-c.Sent > c.PausesSent {
				return fmt.Sprintf("switch %s port %d: the tap saw %d in and %d out, the port counts %d and %d", sw.Name(), port,
					in, out, c.Received, c.Sent)
			}
		}
	}
	return ""
}

// kinds is how many kinds of packets the network tells apart: eight for each protocol.
const kinds = 8 * trace.Protocols

// unaccounted checks that what was sent or copied and neither arrived nor was dropped exists somewhere. Pause frames
// exist, too, and are counted nowhere.
func (r *run) unaccounted() string {
	for k := range kinds {
		kind := fabric.Kind(k)
		if c := r.net.Counts(kind); c.Delivered+c.Dropped > c.Sent+c.Copied {
			return fmt.Sprintf("%s: %d packets arrived or were dropped, only %d were sent or copied", kind,
				c.Delivered+c.Dropped, c.Sent+c.Copied)
		}
	}
	c := r.net.Total()
	flying := int(c.Sent + c.Copied - c.Delivered - c.Dropped)
	pfc := r.plan.Spec.Switch.PFC.Classes != 0
	if exist := r.net.InFlight(); exist < flying || exist > flying && !pfc {
		return fmt.Sprintf("%d packets are under way by the counts, %d exist", flying, exist)
	}
	return ""
}
