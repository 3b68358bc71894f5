package workload

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"candela.dev/candela/trace/parquet"
)

// tableRows reads the flows of a Parquet file.
type tableRows struct {
	path string
	in   *parquet.Reader
	row  []parquet.Value
	flowColumns
	err error
}

func isParquet(file *File) bool {
	var begin [4]byte
	n, _ := file.ReadAt(begin[:], 0)
	return string(begin[:n]) == "PAR1"
}

// unreadable is a mistake in a Parquet file, or of its writer.
type unreadable struct{ what string }

func (u *unreadable) Error() string { return u.what }

func newTableRows(file *File) *tableRows {
	r := &tableRows{path: file.Path}
	fail := func(format string, args ...any) *tableRows {
		r.err = &unreadable{file.Path + ": " + fmt.Sprintf(format, args...)}
		return r
	}
	in, err := parquet.NewReader(file, file.Size)
	if err != nil {
		return fail("%v", err)
	}
	r.in = in
	for _, c := range in.Columns() {
		if wrong := r.add(c.Name); wrong != "" {
			return fail("%s", wrong)
		}
		if !c.Number {
			return fail("the column %s is %s: want integers or floating-point numbers", c.Name, c.Type)
		}
	}
	if len(r.columns) != 4 {
		return fail("columns are missing: want %s", wantedColumns)
	}
	r.row = make([]parquet.Value, len(r.columns))
	return r
}

func (r *tableRows) failure() error { return r.err }

func (r *tableRows) blame(format string, args ...any) error {
	return &unreadable{fmt.Sprintf("%s: row %d: ", r.path, r.in.Row()) + fmt.Sprintf(format, args...)}
}

func (r *tableRows) next() (f Flow, ok bool) {
	if r.err != nil {
		return f, false
	}
	if err := r.in.Next(r.row); err != nil {
		if !errors.Is(err, io.EOF) {
			r.err = &unreadable{fmt.Sprintf("%s: %v", r.path, err)}
		}
		return f, false
	}
	f.Kind = Transfer
	for i, name := range r.columns {
		text := "nothing"
		switch v := r.row[i]; {
		case v.Null:
		case v.IsReal:
			text = strconv.FormatFloat(v.Real, 'f', -1, 64)
		default:
			text = strconv.FormatInt(v.Int, 10)
		}
		if wrong := r.value(&f, name, text); wrong != "" {
			r.err = r.blame("%s is %.40s: %s", name, text, wrong)
			return f, false
		}
	}
	if wrong := r.follow(&f); wrong != "" {
		r.err = r.blame("%s", wrong)
	}
	return f, r.err == nil
}
