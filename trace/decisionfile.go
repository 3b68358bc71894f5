package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/trace/parquet"
)

// DecisionFormats lists the formats of files of decision records.
func DecisionFormats() []string { return []string{"csv", "json", "parquet"} }

// DecisionWriter writes decision records as CSV, JSON lines or Parquet. All formats have the same columns: those of any
// record, then the values that the kinds of the family declare, each once.
type DecisionWriter struct {
	w       io.Writer
	write   func(r *Decision, k *DecisionKind) error
	kinds   []DecisionKind
	names   []string // of switches
	values  []string // columns of values
	at      [][]int  // by kind and column: index of the record's value; -1: the kind does not have it
	buffer  []byte
	parquet *parquet.Writer
	count   uint64
}

// decisionColumn is a column of any record: a word or a number.
type decisionColumn struct {
	name     string
	text     func(d *DecisionWriter, r *Decision, k *DecisionKind) string
	number   func(r *Decision) int64
	unsigned bool
	omit     bool // JSON leaves out an empty word
}

func decisionColumns() []decisionColumn {
	return []decisionColumn{
		{name: "t_ps", number: func(r *Decision) int64 { return int64(r.Time) }},
		{name: "switch", text: func(d *DecisionWriter, r *Decision, _ *DecisionKind) string { return d.names[r.Switch] }},
		{name: "port", number: func(r *Decision) int64 { return int64(r.Port) }},
		{name: "queue", number: func(r *Decision) int64 { return int64(r.Queue) }},
		{name: "kind", text: func(_ *DecisionWriter, _ *Decision, k *DecisionKind) string { return k.Name }},
		{name: "cause", omit: true, text: func(_ *DecisionWriter, r *Decision, k *DecisionKind) string {
			if int(r.Cause) < len(k.Causes) {
				return k.Causes[r.Cause]
			}
			return ""
		}},
		{name: "packet", unsigned: true, number: func(r *Decision) int64 { return int64(r.Packet) }},
		{name: "flow", number: func(r *Decision) int64 { return int64(r.Flow) }},
		{name: "rank", unsigned: true, number: func(r *Decision) int64 { return int64(r.Rank) }},
		{name: "size", number: func(r *Decision) int64 { return int64(r.Size) }},
		{name: "occupancy", number: func(r *Decision) int64 { return r.Occupancy }},
	}
}

// NewDecisionWriter returns a writer of one of DecisionFormats; switches are the names of the switches.
func NewDecisionWriter(w io.Writer, format string, kinds []DecisionKind, switches []string) (*DecisionWriter, error) {
	d := &DecisionWriter{w: w, kinds: kinds, names: switches}
	for _, k := range kinds {
		for _, v := range k.Values {
			if !slices.Contains(d.values, v.Column()) {
				d.values = append(d.values, v.Column())
			}
		}
	}
	for _, k := range kinds {
		row := make([]int, len(d.values))
		for i, name := range d.values {
			row[i] = slices.IndexFunc(k.Values, func(v DecisionValue) bool { return v.Column() == name })
		}
		d.at = append(d.at, row)
	}
	columns := decisionColumns()
	switch format {
	case "csv":
		d.write = d.csv(columns)
		return d, d.head(columns)
	case "json":
		d.write = d.json(columns)
	case "parquet":
		d.write = d.rows(columns)
	default:
		return nil, fmt.Errorf("format %q of decision records: must be one of %s", format,
			strings.Join(DecisionFormats(), ", "))
	}
	return d, nil
}

// Count returns how many records were written.
func (d *DecisionWriter) Count() uint64 { return d.count }

// Write writes a record.
func (d *DecisionWriter) Write(r *Decision) error {
	if int(r.Kind) >= len(d.kinds) {
		return fmt.Errorf("decision of kind %d: the family declares %d kinds", r.Kind, len(d.kinds))
	}
	d.count++
	return d.write(r, &d.kinds[r.Kind])
}

// Close writes what the format has at its end.
func (d *DecisionWriter) Close() error {
	if d.parquet == nil {
		return nil
	}
	return d.parquet.Close()
}

func (c *decisionColumn) appendNumber(b []byte, r *Decision) []byte {
	if c.unsigned {
		return strconv.AppendUint(b, uint64(c.number(r)), 10)
	}
	return strconv.AppendInt(b, c.number(r), 10)
}

// head writes the names of the columns.
func (d *DecisionWriter) head(columns []decisionColumn) error {
	var names []string
	for i := range columns {
		names = append(names, columns[i].name)
	}
	_, err := io.WriteString(d.w, strings.Join(append(names, d.values...), ",")+"\n")
	return err
}

func (d *DecisionWriter) csv(columns []decisionColumn) func(*Decision, *DecisionKind) error {
	return func(r *Decision, k *DecisionKind) error {
		b := d.buffer[:0]
		for i := range columns {
			if c := &columns[i]; c.text != nil {
				b = append(b, c.text(d, r, k)...)
			} else {
				b = c.appendNumber(b, r)
			}
			b = append(b, ',')
		}
		for _, at := range d.at[r.Kind] {
			if at >= 0 {
				b = strconv.AppendInt(b, r.Values[at], 10)
			}
			b = append(b, ',')
		}
		b[len(b)-1] = '\n'
		d.buffer = b
		_, err := d.w.Write(b)
		return err
	}
}

func (d *DecisionWriter) json(columns []decisionColumn) func(*Decision, *DecisionKind) error {
	return func(r *Decision, k *DecisionKind) error {
		b := append(d.buffer[:0], '{')
		for i := range columns {
			c := &columns[i]
			if c.text == nil {
				b = append(c.appendNumber(append(strconv.AppendQuote(b, c.name), ':'), r), ',')
				continue
			}
			text := c.text(d, r, k)
			if c.omit && text == "" {
				continue
			}
			word, err := json.Marshal(text)
			if err != nil {
				return err
			}
			b = append(append(append(strconv.AppendQuote(b, c.name), ':'), word...), ',')
		}
		b = b[:len(b)-1]
		if len(k.Values) > 0 {
			values := make(map[string]int64, len(k.Values))
			for i := range k.Values {
				values[k.Values[i].Column()] = r.Values[i]
			}
			object, err := json.Marshal(values)
			if err != nil {
				return err
			}
			b = append(append(b, `,"values":`...), object...)
		}
		d.buffer = append(b, "}\n"...)
		_, err := d.w.Write(d.buffer)
		return err
	}
}

// rows writes Parquet: values that a record's kind does not have are null.
func (d *DecisionWriter) rows(columns []decisionColumn) func(*Decision, *DecisionKind) error {
	var schema []parquet.Column
	for _, c := range columns {
		schema = append(schema, parquet.Column{Name: c.name, Text: c.text != nil, Unsigned: c.unsigned})
	}
	for _, name := range d.values {
		schema = append(schema, parquet.Column{Name: name, Optional: true})
	}
	p := parquet.NewWriter(d.w, schema)
	d.parquet = p
	return func(r *Decision, k *DecisionKind) error {
		for i := range columns {
			if c := &columns[i]; c.text != nil {
				p.Text(i, c.text(d, r, k))
			} else {
				p.Int(i, c.number(r))
			}
		}
		for i, at := range d.at[r.Kind] {
			if at >= 0 {
				p.Int(len(columns)+i, r.Values[at])
			} else {
				p.Null(len(columns) + i)
			}
		}
		return p.EndRow()
	}
}
