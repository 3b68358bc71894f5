package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"candela.dev/candela/clock"
)

// DecisionValues is how many values of its own a decision has.
const DecisionValues = 8

// Decision is what a switch says that it decided about a packet, and on what state. It is the device's claim: judges recompute what the taps
// allow and check the rest for contradictions.
type Decision struct {
	Time      clock.Time
	Switch    int
	Port      int
	Queue     int
	Kind      uint8 // index of the family's DecisionKinds
	Cause     uint8 // index of the kind's Causes
	Packet    uint64
	Flow      uint32
	Rank      uint64
	Size      int32
	Occupancy int64 // bytes in the queue before the decision
	Values    [DecisionValues]int64
}

// Outcome is what a decision claims that becomes of the packet.
type Outcome uint8

// Outcomes.
const (
	OutcomeNone    Outcome = iota // nothing yet
	OutcomeQueued                 // it waits in the queue of the decision and leaves by its port
	OutcomeDropped                // it is discarded
)

// DecisionKind declares one kind of decision of a family: its name, what it claims, and what its values are.
type DecisionKind struct {
	Name    string
	Doc     string
	Outcome Outcome
	Copy    bool // about a copy that the switch has made
	Causes  []string
	Values  []DecisionValue // at most DecisionValues
}

// DecisionValue declares one value.
type DecisionValue struct{ Name, Unit, Doc string }

// DecisionWriter writes decision records as CSV or JSON lines. The columns of the values are those that the kinds declare.
type DecisionWriter struct {
	w      io.Writer
	kinds  []DecisionKind
	names  []string // of switches
	json   bool
	values []string // columns, each once
	buffer []byte
	count  uint64
}

// NewDecisionWriter returns a writer of the format csv or json; switches are the names of the switches.
func NewDecisionWriter(w io.Writer, format string, kinds []DecisionKind, switches []string) (*DecisionWriter, error) {
	d := &DecisionWriter{w: w, kinds: kinds, names: switches, json: format == "json"}
	if format != "csv" && format != "json" {
		return nil, fmt.Errorf("format %q of decision records: must be csv or json", format)
	}
	seen := map[string]bool{}
	for _, k := range kinds {
		for _, v := range k.Values {
			if name := v.column(); !seen[name] {
				seen[name] = true
				d.values = append(d.values, name)
			}
		}
	}
	if d.json {
		return d, nil
	}
	d.buffer = append(d.buffer, "t_ps,switch,port,queue,kind,cause,packet,flow,rank,size,occupancy"...)
	for _, name := range d.values {
		d.buffer = append(append(d.buffer, ','), name...)
	}
	_, err := w.Write(append(d.buffer, '\n'))
	return d, err
}

// column is the name of a value's column: with its unit, if it has one.
func (v *DecisionValue) column() string {
	if v.Unit == "" {
		return v.Name
	}
	return v.Name + "_" + v.Unit
}

// Count returns how many records were written.
func (d *DecisionWriter) Count() uint64 { return d.count }

// Write writes a record.
func (d *DecisionWriter) Write(r *Decision) error {
	if int(r.Kind) >= len(d.kinds) {
		return fmt.Errorf("decision of kind %d: the family declares %d kinds", r.Kind, len(d.kinds))
	}
	d.count++
	k := &d.kinds[r.Kind]
	cause := ""
	if int(r.Cause) < len(k.Causes) {
		cause = k.Causes[r.Cause]
	}
	if d.json {
		return d.writeJSON(r, k, cause)
	}
	b := strconv.AppendInt(d.buffer[:0], int64(r.Time), 10)
	b = append(append(b, ','), d.names[r.Switch]...)
	b = strconv.AppendInt(append(b, ','), int64(r.Port), 10)
	b = strconv.AppendInt(append(b, ','), int64(r.Queue), 10)
	b = append(append(append(append(b, ','), k.Name...), ','), cause...)
	for _, n := range []uint64{r.Packet, uint64(r.Flow), r.Rank, uint64(r.Size), uint64(r.Occupancy)} {
		b = strconv.AppendUint(append(b, ','), n, 10)
	}
	for _, name := range d.values {
		b = append(b, ',')
		for i := range k.Values {
			if k.Values[i].column() == name {
				b = strconv.AppendInt(b, r.Values[i], 10)
			}
		}
	}
	d.buffer = append(b, '\n')
	_, err := d.w.Write(d.buffer)
	return err
}

func (d *DecisionWriter) writeJSON(r *Decision, k *DecisionKind, cause string) error {
	values := make(map[string]int64, len(k.Values))
	for i := range k.Values {
		values[k.Values[i].column()] = r.Values[i]
	}
	return json.NewEncoder(d.w).Encode(struct {
		TimePS    int64            `json:"t_ps"`
		Switch    string           `json:"switch"`
		Port      int              `json:"port"`
		Queue     int              `json:"queue"`
		Kind      string           `json:"kind"`
		Cause     string           `json:"cause,omitempty"`
		Packet    uint64           `json:"packet"`
		Flow      uint32           `json:"flow"`
		Rank      uint64           `json:"rank"`
		Size      int32            `json:"size"`
		Occupancy int64            `json:"occupancy"`
		Values    map[string]int64 `json:"values,omitempty"`
	}{int64(r.Time), d.names[r.Switch], r.Port, r.Queue, k.Name, cause, r.Packet, r.Flow, r.Rank, r.Size, r.Occupancy, values})
}
