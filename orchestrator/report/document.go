package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// DocumentFile holds the data of a report's page in a run directory.
const DocumentFile = "report.json"

// DocumentSchema is the schema of report.json.
const DocumentSchema = "candela.report/v1"

// MaxDocument bounds report.json, in bytes. The content of a page is bounded, too.
const MaxDocument = 64 << 20

type document struct {
	Schema string  `json:"schema"`
	Report *Report `json:"report"`
}

// WriteDocument writes the data of r's pages as JSON, which [ReadDocument] restores.
func WriteDocument(w io.Writer, r *Report) error {
	kept := *r
	kept.Metrics = nil
	for _, m := range tellingMetrics(r.Metrics, allUnits) {
		kept.Metrics = append(kept.Metrics, *m)
	}
	kept.Charts = finiteCharts(r.Charts)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document{DocumentSchema, &kept}); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// ReadDocument reads a report.json. The report can be printed even if the file is untrusted.
func ReadDocument(from io.Reader) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(from, MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if len(data) > MaxDocument {
		return nil, fmt.Errorf("read report: it has more than %d bytes", MaxDocument)
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if d.Schema != DocumentSchema || d.Report == nil {
		return nil, fmt.Errorf("read report: schema %q: want %s", clean(d.Schema), DocumentSchema)
	}
	return d.Report, d.Report.check()
}

// check refuses a report that the pages could not draw.
func (r *Report) check() error {
	for i := range r.Tables {
		t := &r.Tables[i]
		for j := range t.Rows {
			if len(t.Rows[j].Cells) != len(t.Columns) {
				return fmt.Errorf("read report: table %q: row %d has %d cells for %d columns", clean(t.Title), j+1,
					len(t.Rows[j].Cells), len(t.Columns))
			}
		}
	}
	for i := range r.Journeys {
		if err := r.Journeys[i].check(); err != nil {
			return err
		}
	}
	for i := range r.Charts {
		for _, l := range r.Charts[i].Lines {
			if len(l.Times) != len(l.Values) {
				return fmt.Errorf("read report: chart %q: line %q has %d times for %d values", clean(r.Charts[i].Title),
					clean(l.Name), len(l.Times), len(l.Values))
			}
		}
	}
	return nil
}

// finiteCharts drops values that are not finite, because JSON cannot hold them.
func finiteCharts(charts []Chart) []Chart {
	var kept []Chart
	for _, c := range charts {
		lines := c.Lines
		c.Lines = nil
		for _, l := range lines {
			line := Series{Name: l.Name}
			for i := range l.Values {
				if finite(l.Times[i]) && finite(l.Values[i]) {
					line.Times, line.Values = append(line.Times, l.Times[i]), append(line.Values, l.Values[i])
				}
			}
			c.Lines = append(c.Lines, line)
		}
		kept = append(kept, c)
	}
	return kept
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Flags of a packet in report.json, in the order of [Point.wire].
const (
	flagResent = 1 << iota
	flagReverse
	flagDamaged
	flagAfterGap
	flagAccused
)

// MarshalJSON writes a packet as [t_ns, psn, iter, id, class, event, flags], because a report holds thousands.
func (p Point) MarshalJSON() ([]byte, error) { return json.Marshal(p.wire(0)) }

func (p *Point) wire(flags int) []any {
	for i, on := range []bool{p.Resent, p.Reverse, p.Damaged, p.afterGap} {
		if on {
			flags |= 1 << i
		}
	}
	event := ""
	if p.Event != trace.EventNone {
		event = p.Event.String()
	}
	return []any{p.TimeNS, p.PSN, p.Iter, p.ID, p.Class.String(), event, flags}
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Point) UnmarshalJSON(data []byte) error {
	_, err := p.read(data)
	return err
}

// read reads a packet and returns its flags.
func (p *Point) read(data []byte) (flags int, err error) {
	var class, event string
	fields := []any{&p.TimeNS, &p.PSN, &p.Iter, &p.ID, &class, &event, &flags}
	if err := unmarshalRow(data, fields); err != nil {
		return 0, err
	}
	var ok bool
	if p.Class, ok = packet.ParseClass(class); !ok {
		// A class without a name is written as class(200).
		if _, err := fmt.Sscanf(class, "class(%d)", &p.Class); err == nil {
			ok = true
		}
	}
	if !ok {
		return 0, fmt.Errorf("packet %d: unknown class %q", p.ID, clean(class))
	}
	if event != "" {
		if p.Event, ok = trace.ParseEventType(event); !ok {
			if _, err := fmt.Sscanf(event, "event(%d)", &p.Event); err == nil {
				ok = true
			}
		}
		if !ok {
			return 0, fmt.Errorf("packet %d: unknown event %q", p.ID, clean(event))
		}
	}
	p.Resent, p.Reverse = flags&flagResent != 0, flags&flagReverse != 0
	p.Damaged, p.afterGap = flags&flagDamaged != 0, flags&flagAfterGap != 0
	return flags, nil
}

func unmarshalRow(data []byte, fields []any) error {
	var row []json.RawMessage
	if err := json.Unmarshal(data, &row); err != nil {
		return err
	}
	if len(row) != len(fields) {
		return fmt.Errorf("a packet has %d fields: want %d", len(row), len(fields))
	}
	for i := range fields {
		if err := json.Unmarshal(row[i], fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSON writes a step as its packet, or as the number of omitted packets.
func (s Step) MarshalJSON() ([]byte, error) {
	if s.Skipped > 0 {
		return json.Marshal(s.Skipped)
	}
	flags := 0
	if s.Accused {
		flags = flagAccused
	}
	return json.Marshal(s.wire(flags))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Step) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return json.Unmarshal(data, &s.Skipped)
	}
	flags, err := s.read(data)
	s.Accused = flags&flagAccused != 0
	return err
}
