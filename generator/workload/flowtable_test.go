package workload_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/trace/parquet"
)

func opensData(data []byte) workload.Open {
	return func(name string) (*workload.File, error) {
		return &workload.File{Path: name, Size: int64(len(data)), ReaderAt: bytes.NewReader(data),
			Closer: io.NopCloser(nil)}, nil
	}
}

// Files of other writers have the flows that testdata/README.md describes.
func TestFlowsOfAParquetFile(t *testing.T) {
	k := workload.Find("flow-file")
	for _, name := range []string{"flows-duckdb.parquet", "flows-arrow.parquet"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		v := valuesOf(t, "flow-file", "file="+name)
		in := workload.Scope{Hosts: 8, Open: opensData(data)}
		if problems := append(k.Read(v, in.Open), k.CheckIn(v, in)...); len(problems) > 0 || len(v.File("sha256")) != 64 {
			t.Fatal(name, problems)
		}
		flows := k.Flows(v, in)
		if len(flows) != 300 || v.Int("flows") != 300 {
			t.Fatalf("%s: %d flows", name, len(flows))
		}
		for i, f := range flows {
			if want := (workload.Flow{Kind: workload.Transfer, Src: i % 8, Dst: (i + 1 + i%3) % 8,
				Bytes: int64(1000 + i%5*1460), Start: clock.Duration(i) * 2500 * clock.Nanosecond}); f != want {
				t.Fatalf("%s: row %d: %+v, want %+v", name, i+1, f, want)
			}
		}
		in.Hosts = 7
		if got := k.CheckIn(v, in); len(got) != 1 || !strings.Contains(got[0].Why, name+": row 7: there is no host 7") {
			t.Errorf("%v", got)
		}
		// A file that was cut off, or damaged anywhere, has an error or other flows; reading it never panics.
		for at := 0; at < len(data); at += 41 {
			damaged := bytes.Clone(data)
			damaged[at] ^= 0x55
			k.Read(valuesOf(t, "flow-file", "file="+name), opensData(damaged))
			if got := k.Read(valuesOf(t, "flow-file", "file="+name), opensData(data[:at])); len(got) == 0 {
				t.Errorf("%s: its first %d bytes are taken", name, at)
			}
		}
	}
}

// Mistakes are named by row and column.
func TestWrongParquetFilesOfFlowsAreRefused(t *testing.T) {
	of := func(names []string, rows ...[4]float64) []byte {
		var b bytes.Buffer
		var columns []parquet.Column
		for _, n := range names {
			columns = append(columns, parquet.Column{Name: n, Real: n == "start_us", Text: n == "src" && len(names) == 4 && names[2] == "dst" && len(rows) == 0})
		}
		w := parquet.NewWriter(&b, columns)
		for _, row := range rows {
			for i := range names {
				if columns[i].Real {
					w.Real(i, row[i])
				} else {
					w.Int(i, int64(row[i]))
				}
			}
			if err := w.EndRow(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	names := []string{"start_us", "src", "dst", "bytes"}
	null, err := os.ReadFile(filepath.Join("testdata", "flows-null.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for want, data := range map[string][]byte{
		`unknown column "dts": want start_us`:                         of([]string{"start_us", "src", "dts", "bytes"}),
		"the column src is BYTE_ARRAY: want integers":                 of(names),
		"columns are missing: want start_us":                          of([]string{"start_us", "dst"}),
		"row 2: src is 9000: want a host from 0 to 8191":              of(names, [4]float64{0, 1, 2, 3}, [4]float64{1, 9000, 2, 3}),
		"row 1: start_us is NaN: want a number":                       of(names, [4]float64{nan(), 1, 2, 3}),
		"row 2: starts at 4 us, before the flow above":                of(names, [4]float64{5, 1, 2, 3}, [4]float64{4, 1, 2, 3}),
		"row 1: host 1 would send to itself":                          of(names, [4]float64{5, 1, 1, 3}),
		"row 1: bytes is 0: want an integer from 1":                   of(names, [4]float64{5, 1, 2, 0}),
		"row 6: dst is nothing: want a host":                          null,
		"flows.parquet: parquet: the file does not end with PAR1":     append(of(names, [4]float64{5, 1, 2, 1}), 0),
		"flows.parquet: parquet: the file is too short":               []byte("PAR1"),
		"a footer of 1000 bytes in a file of 16: at most 16777216 ar": []byte("PAR1\x00\x00\x00\x00\xe8\x03\x00\x00PAR1"),
	} {
		problems := workload.Find("flow-file").Read(valuesOf(t, "flow-file", "file=flows.parquet"), opensData(data))
		if len(problems) != 1 || !strings.Contains(problems[0].Why, want) ||
			!strings.HasPrefix(problems[0].Why, "flows.parquet: ") {
			t.Errorf("%v, want %s", problems, want)
		}
	}
}

func nan() float64 { var z float64; return z / z }
