package switchtest

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace/parquet"
)

// tableColumn is a column of a file of results: exactly one of its functions gives the value of a row.
type tableColumn[T any] struct {
	name   string
	number func(row *T) int64
	real   func(row *T) float64
	text   func(row *T) string
	none   func(row *T) bool // the row has no value; nil: every row has one
}

// tableWriter writes rows as CSV or Parquet, one after the other, in bounded memory.
type tableWriter[T any] struct {
	columns []tableColumn[T]
	file    io.WriteCloser
	buffer  *bufio.Writer
	rows    *parquet.Writer // nil: CSV
	line    []byte
	err     error
}

// newTable begins the file NAME.csv or NAME.parquet of a run.
func newTable[T any](dir orchestrator.Directory, name, format string, columns []tableColumn[T]) (*tableWriter[T],
	error) {
	file, err := dir.Create(name + "." + format)
	if err != nil {
		return nil, err
	}
	w := &tableWriter[T]{columns: columns, file: file, buffer: bufio.NewWriter(file)}
	if format == "parquet" {
		var schema []parquet.Column
		for i := range columns {
			c := &columns[i]
			schema = append(schema, parquet.Column{Name: c.name, Text: c.text != nil, Real: c.real != nil,
				Optional: c.none != nil})
		}
		w.rows = parquet.NewWriter(w.buffer, schema)
		return w, nil
	}
	for i := range columns {
		w.line = append(append(w.line, columns[i].name...), ',')
	}
	w.endLine()
	return w, nil
}

// write writes a row; close says what went wrong.
func (w *tableWriter[T]) write(row *T) {
	if w.err != nil {
		return
	}
	for i := range w.columns {
		c := &w.columns[i]
		if w.rows != nil {
			c.store(w.rows, i, row)
		} else {
			w.line = append(c.print(w.line, row), ',')
		}
	}
	if w.rows != nil {
		w.err = w.rows.EndRow()
		return
	}
	w.endLine()
}

func (w *tableWriter[T]) endLine() {
	w.line[len(w.line)-1] = '\n'
	if _, err := w.buffer.Write(w.line); w.err == nil {
		w.err = err
	}
	w.line = w.line[:0]
}

func (c *tableColumn[T]) store(p *parquet.Writer, at int, row *T) {
	switch {
	case c.none != nil && c.none(row):
		p.Null(at)
	case c.text != nil:
		p.Text(at, c.text(row))
	case c.real != nil:
		p.Real(at, c.real(row))
	default:
		p.Int(at, c.number(row))
	}
}

func (c *tableColumn[T]) print(line []byte, row *T) []byte {
	switch {
	case c.none != nil && c.none(row):
		return line
	case c.text != nil:
		return append(line, c.text(row)...)
	case c.real != nil:
		return strconv.AppendFloat(line, c.real(row), 'f', -1, 64)
	}
	return strconv.AppendInt(line, c.number(row), 10)
}

// close completes the file.
func (w *tableWriter[T]) close() error {
	if w.rows != nil {
		w.err = errors.Join(w.err, w.rows.Close())
	}
	return errors.Join(w.err, w.buffer.Flush(), w.file.Close())
}

// TableNames lists the files that tables of results are written to.
func TableNames() (names []string) {
	for _, name := range []string{"flows", "queues", "queue-series", deflectionSeries, "metrics"} {
		names = append(names, name+".csv", name+".parquet")
	}
	return names
}

// flowColumns are those of flows.csv and flows.parquet.
func flowColumns() []tableColumn[FlowResult] {
	number := func(name string, of func(f *FlowResult) int64) tableColumn[FlowResult] {
		return tableColumn[FlowResult]{name: name, number: of}
	}
	text := func(name string, of func(f *FlowResult) string) tableColumn[FlowResult] {
		return tableColumn[FlowResult]{name: name, text: of}
	}
	open := func(f *FlowResult) bool { return !f.Finished }
	return []tableColumn[FlowResult]{
		number("flow", func(f *FlowResult) int64 { return int64(f.Flow) }),
		number("item", func(f *FlowResult) int64 { return int64(f.Item) }),
		number("tenant", func(f *FlowResult) int64 { return int64(f.Tenant) }),
		{name: "weight", real: func(f *FlowResult) float64 { return cmp.Or(f.Weight, 1) }},
		text("kind", func(f *FlowResult) string { return string(f.Kind) }),
		text("transport", func(f *FlowResult) string { return f.Transport }),
		number("src", func(f *FlowResult) int64 { return int64(f.Src) }),
		number("dst", func(f *FlowResult) int64 { return int64(f.Dst) }),
		number("start_ns", func(f *FlowResult) int64 { return f.StartNS }),
		number("bytes", func(f *FlowResult) int64 { return f.Bytes }),
		number("finished", func(f *FlowResult) int64 {
			if f.Finished {
				return 1
			}
			return 0
		}),
		number("stopped", func(f *FlowResult) int64 {
			if f.Stopped {
				return 1
			}
			return 0
		}),
		{name: "fct_ns", number: func(f *FlowResult) int64 { return f.FCTNS }, none: open},
		{name: "ideal_ns", number: func(f *FlowResult) int64 { return f.IdealNS },
			none: func(f *FlowResult) bool { return f.IdealNS == 0 }},
		{name: "slowdown", real: (*FlowResult).Slowdown, none: func(f *FlowResult) bool { return f.Slowdown() == 0 }},
		{name: "sender_fct_ns", number: func(f *FlowResult) int64 { return f.SenderFCTNS },
			none: func(f *FlowResult) bool { return f.SenderFCTNS == 0 }},
		number("goodput_bps", func(f *FlowResult) int64 { return f.GoodputBPS }),
		number("payload", func(f *FlowResult) int64 { return f.Payload }),
		number("sent", func(f *FlowResult) int64 { return f.Sent }),
		number("whole", func(f *FlowResult) int64 { return f.Whole }),
		number("duplicates", func(f *FlowResult) int64 { return f.Duplicates }),
		number("headers", func(f *FlowResult) int64 { return f.Headers }),
		number("retransmissions", func(f *FlowResult) int64 { return f.Retransmissions }),
		number("timeouts", func(f *FlowResult) int64 { return f.Timeouts }),
		number("reordered", func(f *FlowResult) int64 { return f.Reordered }),
	}
}

// metricColumns are those of metrics.csv and metrics.parquet.
func metricColumns() []tableColumn[analyzers.Metric] {
	type metric = analyzers.Metric
	number := func(name string, of func(m *metric) int64) tableColumn[metric] {
		return tableColumn[metric]{name: name, number: of}
	}
	return []tableColumn[metric]{
		{name: "metric", text: func(m *metric) string { return m.Name }},
		{name: "unit", text: func(m *metric) string { return m.Unit }},
		number("flow", func(m *metric) int64 { return int64(m.Connection) }),
		number("count", func(m *metric) int64 { return m.Count }),
		{name: "mean", real: func(m *metric) float64 { return float64(m.Sum) / float64(max(m.Count, 1)) }},
		number("min", func(m *metric) int64 { return m.Min }),
		number("p50", func(m *metric) int64 { return m.P50 }),
		number("p95", func(m *metric) int64 { return m.P95 }),
		number("p99", func(m *metric) int64 { return m.P99 }),
		number("p999", func(m *metric) int64 { return m.P999 }),
		number("max", func(m *metric) int64 { return m.Max }),
	}
}

// writeTable writes all rows of a table.
func writeTable[T any](dir orchestrator.Directory, name, format string, columns []tableColumn[T], rows []T) error {
	if format == "" {
		return nil
	}
	w, err := newTable(dir, name, format, columns)
	if err != nil {
		return err
	}
	for i := range rows {
		w.write(&rows[i])
	}
	if err := w.close(); err != nil {
		return fmt.Errorf("%s.%s: %w", name, format, err)
	}
	return nil
}
