package workload

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
)

func flowFile() Kind {
	return Kind{
		Model: parameter.Model{Name: "flow-file",
			Doc: "Flows of a CSV or Parquet file: the columns start_us (or start_ns, start_s), src, dst and bytes, and a row " +
				"for each flow in the order of start. The file is read as the flows start.",
			Parameters: parameter.Table{
				{Name: "file", Kind: parameter.File, Required: true,
					Doc: "File of the flows, looked for beside the test and then in the working directory."},
				{Name: "sha256", Kind: parameter.File, Optional: true,
					Doc: "SHA-256 of the file; another file is refused. config.yml has it."},
				{Name: "flows", Kind: parameter.Integer, Optional: true, Max: 1 << 40,
					Doc: "Rows of the file. config.yml has it."},
			}},
		For: Transfer, Sample: "file: flows.csv", Sized: true, Counted: true,
		Read:  identify,
		Check: func(v parameter.Values, _ int) (int, []Problem) { return v.Int("flows"), nil },
		Flows: collect(rows), Stream: rows,
		Expect:  func(v parameter.Values, _ Scope) float64 { return float64(v.Int("flows")) },
		CheckIn: checkRows,
		Explain: func(v parameter.Values, in Scope) string { return explainRows(v, in) },
	}
}

// identify completes what a test says of its file.
func identify(v parameter.Values, open Open) []Problem {
	sum, count := sha256.New(), 0
	err := eachRow(v.File("file"), open, sum, func(Flow) error { count++; return nil })
	got := hex.EncodeToString(sum.Sum(nil))
	switch {
	case err != nil && (errors.As(err, new(*misplacement)) || errors.As(err, new(*unreadable))):
		return []Problem{{"file", "the file of flows is invalid", err.Error()}}
	case err != nil:
		return []Problem{{"file", fmt.Sprintf("is %q: %v", v.File("file"), err), ""}}
	case v.Has("sha256") && v.File("sha256") != got:
		return []Problem{{"sha256", "is not that of the file, " + got, "the test was written for another file; without " +
			"sha256 and flows any file is taken"}}
	case v.Has("flows") && v.Int("flows") != count:
		return []Problem{{"flows", fmt.Sprintf("the file has %d", count), "without flows and sha256 any file is taken"}}
	}
	v.SetFile("sha256", got)
	v.SetStep("flows", int64(count))
	return nil
}

// checkRows refuses hosts that the network lacks.
func checkRows(v parameter.Values, in Scope) []Problem {
	err := eachRow(v.File("file"), in.Open, nil, func(f Flow) error {
		if most := max(f.Src, f.Dst); most >= in.Hosts {
			return fmt.Errorf("there is no host %d: %s", most, HostsAre(in.Hosts))
		}
		return nil
	})
	if err != nil {
		return []Problem{{"file", "does not fit the network", err.Error()}}
	}
	return nil
}

// explainRows says in words what the file offers.
func explainRows(v parameter.Values, in Scope) string {
	var bytes float64
	var last clock.Duration
	if err := eachRow(v.File("file"), in.Open, nil, func(f Flow) error {
		bytes, last = bytes+float64(f.Bytes), f.Start
		return nil
	}); err != nil || last == 0 {
		return fmt.Sprintf("%d flows of a file", v.Int("flows"))
	}
	return fmt.Sprintf("flows of %s on average, until %s: ", bytesText(bytes/float64(v.Int("flows"))), last) +
		offered(bytes*8/seconds(last), in)
}

// flowRows reads the flows of a file.
type flowRows interface {
	next() (Flow, bool) // false: there is none, or failure says what is wrong
	failure() error
	blame(format string, args ...any) error // a mistake of the row that was read last
}

// newRows begins to read a file, a Parquet file if it begins like one.
func newRows(file *File) flowRows {
	if isParquet(file) {
		return newTableRows(file)
	}
	return newTextRows(file.Path, file.whole())
}

// eachRow calls f with each flow of a file; an error of f gets its place. sum, if not nil, takes the bytes.
func eachRow(name string, open Open, sum io.Writer, f func(row Flow) error) error {
	file, err := open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if sum != nil {
		if _, err := io.Copy(sum, file.whole()); err != nil {
			return err
		}
	}
	r := newRows(file)
	for {
		row, ok := r.next()
		if !ok {
			return r.failure()
		}
		if err := f(row); err != nil {
			return r.blame("%v", err)
		}
	}
}

// rows hands out the flows of a file that Read and CheckIn have found correct. A file that has changed since then ends
// early: whoever counts finds flows missing.
func rows(v parameter.Values, in Scope) func() (Flow, bool) {
	file, err := in.Open(v.File("file"))
	if err != nil {
		return func() (Flow, bool) { return Flow{}, false }
	}
	r := newRows(file)
	return func() (Flow, bool) {
		row, ok := r.next()
		if ok && max(row.Src, row.Dst) < in.Hosts {
			return row, true
		}
		_ = file.Close()
		return Flow{}, false
	}
}

// textRows reads the flows of a CSV file.
type textRows struct {
	path string
	in   *bufio.Scanner
	line int
	flowColumns
	err error
}

func (r *textRows) failure() error { return r.err }

func (r *textRows) blame(format string, args ...any) error {
	return misplaced(r.path, r.line, 1, format, args...)
}

// flowColumns are the columns of a file, in its order.
type flowColumns struct {
	columns []string
	scale   float64 // of start, in picoseconds
	last    clock.Duration
}

// units of the column start.
var startUnits = map[string]clock.Duration{"start_ns": clock.Nanosecond, "start_us": clock.Microsecond,
	"start_s": clock.Second}

const wantedColumns = "start_us (or start_ns, start_s), src, dst and bytes"

func newTextRows(path string, from io.Reader) *textRows {
	r := &textRows{path: path, in: bufio.NewScanner(from)}
	r.in.Buffer(make([]byte, 1<<16), 1<<16)
	if !r.in.Scan() {
		if r.err = r.in.Err(); r.err == nil {
			r.err = misplaced(path, 1, 1, "the file is empty: want the columns %s", wantedColumns)
		}
		return r
	}
	r.line = 1
	column := 1
	for name := range strings.SplitSeq(strings.TrimSuffix(r.in.Text(), "\r"), ",") {
		if wrong := r.add(name); wrong != "" {
			r.err = misplaced(path, 1, column, "%s", wrong)
			return r
		}
		column += len(name) + 1
	}
	if len(r.columns) != 4 {
		r.err = misplaced(path, 1, 1, "columns are missing: want %s", wantedColumns)
	}
	return r
}

// add takes the next column of the file, or says what is wrong with it.
func (r *flowColumns) add(name string) (wrong string) {
	unit, start := startUnits[name]
	switch known := start || name == "src" || name == "dst" || name == "bytes"; {
	case !known:
		return fmt.Sprintf("unknown column %.40q: want %s", name, wantedColumns)
	case slices.Contains(r.columns, name), start && r.scale > 0:
		return fmt.Sprintf("the column %s is there twice", name)
	}
	if start {
		r.scale = float64(unit)
	}
	r.columns = append(r.columns, name)
	return ""
}

// next returns the next flow; false: there is none, or err says what is wrong.
func (r *textRows) next() (f Flow, ok bool) {
	for r.err == nil {
		if !r.in.Scan() {
			if err := r.in.Err(); err != nil {
				r.err = misplaced(r.path, r.line+1, 1, "%v", err)
			}
			return f, false
		}
		r.line++
		if line := bytes.TrimSuffix(r.in.Bytes(), []byte("\r")); len(line) > 0 {
			return r.parse(line)
		}
	}
	return f, false
}

func (r *textRows) parse(line []byte) (f Flow, ok bool) {
	f.Kind = Transfer
	rest, column := line, 1
	for i, name := range r.columns {
		text, after, more := bytes.Cut(rest, []byte(","))
		if more != (i < len(r.columns)-1) {
			r.err = misplaced(r.path, r.line, column, "%d columns, want %d", bytes.Count(line, []byte(","))+1, len(r.columns))
			return f, false
		}
		if what := r.value(&f, name, string(text)); what != "" {
			r.err = misplaced(r.path, r.line, column, "%s is %.40q: %s", name, text, what)
			return f, false
		}
		rest, column = after, column+len(text)+1
	}
	if wrong := r.follow(&f); wrong != "" {
		r.err = r.blame("%s", wrong)
	}
	return f, r.err == nil
}

// follow says what is wrong with a flow after the one above it.
func (r *flowColumns) follow(f *Flow) (wrong string) {
	switch {
	case f.Src == f.Dst:
		wrong = fmt.Sprintf("host %d would send to itself", f.Src)
	case f.Start < r.last:
		wrong = fmt.Sprintf("starts at %s, before the flow above at %s: rows are in the order of start", f.Start, r.last)
	}
	r.last = f.Start
	return wrong
}

// value sets a value of a flow, or says what is allowed.
func (r *flowColumns) value(f *Flow, column, text string) (wrong string) {
	if _, start := startUnits[column]; start {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v*r.scale <= float64(clock.Second)*3600) {
			return "want a number from 0 on, of at most an hour"
		}
		f.Start = clock.Duration(math.Round(v * r.scale))
		return ""
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case column == "bytes" && (err != nil || n < 1 || n > maxSize):
		return "want an integer from 1 to 2^45"
	case column == "bytes":
		f.Bytes = n
	case err != nil || n < 0 || n >= MaxHosts:
		return fmt.Sprintf("want a host from 0 to %d", MaxHosts-1)
	case column == "src":
		f.Src = int(n)
	default:
		f.Dst = int(n)
	}
	return ""
}
