package injector

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// EntriesSchema names the format of entries.json.
const EntriesSchema = "candela.entries/v1"

// Entries is the document entries.json: the events of a run as programmed, with their hits. It has the parameters of
// events, which mirror copies do not carry.
type Entries struct {
	Schema string         `json:"schema"`
	Target string         `json:"target"`
	Epoch  uint16         `json:"epoch"`
	Events []EntriesEvent `json:"events"`
}

// EntriesEvent is one event.
type EntriesEvent struct {
	Index      int            `json:"index"` // in the configuration's list, from 0
	Where      string         `json:"where,omitempty"`
	Event      string         `json:"event"` // e.g. "qpn 2 psn 5 iter 1"
	Connection int            `json:"connection"`
	Flow       int            `json:"flow"`
	Packet     string         `json:"packet"` // class
	PSN        int64          `json:"psn,omitempty"`
	PSNAbs     *uint32        `json:"psn_abs,omitempty"`
	Nth        uint16         `json:"nth"` // ITER or ordinal, 0: any
	Table      string         `json:"table"`
	Key        map[string]any `json:"key"`
	Watch      map[string]any `json:"watch,omitempty"` // what leads to the slot of Key
	Action     string         `json:"action"`
	Params     map[string]any `json:"params,omitempty"`
	Hits       uint64         `json:"hits"`
}

// Document describes the program's events. hits are by intent, as Client.Hits returns them; nil: none.
func (p *Program) Document(hits []uint64) Entries {
	doc := Entries{Schema: EntriesSchema, Target: p.Target, Epoch: p.Epoch, Events: []EntriesEvent{}}
	for _, e := range p.Entries {
		if e.Intent < 0 {
			continue
		}
		event := p.event(e)
		if e.Intent < len(hits) {
			event.Hits = hits[e.Intent]
		}
		doc.Events = append(doc.Events, event)
	}
	return doc
}

func (p *Program) event(e Entry) EntriesEvent {
	in := &p.intents[e.Intent]
	table, action := p4.Base().Table(e.Table), p.Info.Table(e.Table).Offers(e.Action.ID)
	out := EntriesEvent{
		Index: in.Index, Where: in.Where, Event: in.String(), Connection: in.Flow.Connection(), Flow: int(in.Flow),
		Packet: in.Class.String(), PSN: in.RelPSN, Nth: in.Nth, Table: table.Name, Key: fields(table.Fields, e.Key),
		Action: action.Name,
	}
	if in.RelPSN != 0 {
		c := p.conns[in.Flow.Connection()-1]
		psn := uint32(c.initialPSN(in.Flow.Reverse(), in.Space).Add(int(in.RelPSN - 1)))
		out.PSNAbs = &psn
	}
	if e.Table == p4.TableWatchedEvent {
		out.Watch = fields(p4.Base().Table(p4.TableWatch).Fields, p.watches[uint16(e.Key[0].Lo)])
	}
	for i, f := range action.Params {
		if out.Params == nil {
			out.Params = map[string]any{}
		}
		out.Params[f.Name] = e.Action.Params[i]
	}
	return out
}

// fields makes a key readable. encoding/json sorts the names.
func fields(fields []p4.Field, k p4.Key) map[string]any {
	out := map[string]any{}
	for i, f := range fields {
		switch f.Name {
		case "space", "class":
			out[f.Name] = formatValue(f, k[i])
		default:
			out[f.Name] = k[i].Lo
		}
	}
	return out
}

// formatValue prints the value of a match field as people write it.
func formatValue(f p4.Field, v p4.Value) string {
	switch {
	case strings.HasSuffix(f.Name, "_ip"):
		return v.Addr(f.Bits).String()
	case f.Name == "dst_mac":
		return packet.MACFromUint48(v.Lo).String()
	case f.Name == "dst_qpn":
		return packet.QPN(v.Lo).String()
	case f.Name == "space":
		return packet.Space(v.Lo).String()
	case f.Name == "class":
		return packet.Class(v.Lo).String()
	}
	return strconv.FormatUint(v.Lo, 10)
}

// Write writes the document as indented JSON.
func (d Entries) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// ReadEntries reads a document and refuses unknown schemas and keys.
func ReadEntries(r io.Reader) (Entries, error) {
	var d Entries
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Entries{}, fmt.Errorf("entries: %w", err)
	}
	if d.Schema != EntriesSchema {
		return Entries{}, fmt.Errorf("entries: schema %q, this version reads %q", d.Schema, EntriesSchema)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Entries{}, errors.New("entries: something follows the document")
	}
	return d, nil
}

// String prints the program one entry per line, for people and golden files.
func (p *Program) String() string {
	var b strings.Builder
	for _, e := range p.Entries {
		fmt.Fprintf(&b, "%s -> %s(", e.describe(), p.Info.Action(e.Action.ID).Name)
		for i, f := range p.Info.Action(e.Action.ID).Params {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s %d", f.Name, e.Action.Params[i])
		}
		b.WriteByte(')')
		if e.Intent >= 0 {
			fmt.Fprintf(&b, "  # event %d: %s", p.intents[e.Intent].Index, &p.intents[e.Intent])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
