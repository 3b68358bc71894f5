package parquet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/trace/parquet"
)

// table is what a reader that is not ours finds in a file.
type table struct {
	Columns []string
	Groups  int
	Rows    [][]any
}

// read reads a file with hyparquet, which tools/setup installs.
func read(t *testing.T, data []byte) table {
	t.Helper()
	reader := filepath.Join("..", "..", "tools", "parquet")
	node, err := exec.LookPath("node")
	if _, missing := os.Stat(filepath.Join(reader, "node_modules")); err != nil || missing != nil {
		t.Skip("node or hyparquet is not here; tools/setup installs hyparquet where there is npm")
	}
	file := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), node, filepath.Join(reader, "read.mjs"), file)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var got table
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAnotherReaderFindsEveryValue(t *testing.T) {
	var b bytes.Buffer
	w := parquet.NewWriter(&b, []parquet.Column{
		{Name: "n"}, {Name: "word", Text: true}, {Name: "rank", Unsigned: true}, {Name: "limit_bytes", Optional: true},
	})
	const rows = 70_000 // more than one group has
	var want []string
	for i := range int64(rows) {
		w.Int(0, -i)
		word := strings.Repeat("é", int(i%3))
		w.Text(1, word)
		rank := uint64(1)<<63 + uint64(i)
		w.Int(2, int64(rank))
		limit := "<nil>"
		if i%5 != 0 && i < 69_000 {
			limit = fmt.Sprint(i * i)
			w.Int(3, i*i)
		} else {
			w.Null(3)
		}
		want = append(want, fmt.Sprintf("%d %s %d %s", -i, word, rank, limit))
		if err := w.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, b.Bytes())
	if !slices.Equal(got.Columns, []string{"n", "word", "rank", "limit_bytes"}) || got.Groups != 2 ||
		len(got.Rows) != rows {
		t.Fatalf("columns %v, %d groups, %d rows", got.Columns, got.Groups, len(got.Rows))
	}
	for i, row := range got.Rows {
		if text := fmt.Sprintf("%v %v %v %v", row...); text != want[i] {
			t.Fatalf("row %d: %s, want %s", i, text, want[i])
		}
	}
}

func TestAFileWithoutRowsIsATable(t *testing.T) {
	var b bytes.Buffer
	w := parquet.NewWriter(&b, []parquet.Column{{Name: "n"}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, b.Bytes()); len(got.Columns) != 1 || len(got.Rows) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestARowThatLacksAValueIsRefused(t *testing.T) {
	w := parquet.NewWriter(new(bytes.Buffer), []parquet.Column{{Name: "n"}, {Name: "m", Optional: true}})
	w.Int(0, 1)
	if err := w.EndRow(); err == nil || !strings.Contains(err.Error(), "column m has 0 values in 1 rows") {
		t.Errorf("%v", err)
	}
}

// What we write we read: numbers of every kind, rows without a value, several row groups.
func TestReaderReadsWhatWriterWrote(t *testing.T) {
	var b bytes.Buffer
	w := parquet.NewWriter(&b, []parquet.Column{{Name: "n", Optional: true}, {Name: "u", Unsigned: true},
		{Name: "word", Text: true}, {Name: "x", Real: true}})
	const rows = 70_000
	for i := range int64(rows) {
		if i%7 == 3 {
			w.Null(0)
		} else {
			w.Int(0, -i)
		}
		w.Int(1, -1)
		w.Text(2, "w")
		w.Real(3, float64(i)/4)
		if err := w.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := parquet.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Columns(); len(c) != 4 || c[2].Number || !c[3].Number || c[0].Name != "n" {
		t.Fatalf("%+v", c)
	}
	row := make([]parquet.Value, 4)
	for i := range int64(rows) {
		if err := r.Next(row); err != nil {
			t.Fatal(i, err)
		}
		want := parquet.Value{Int: -i, Null: i%7 == 3}
		if want.Null {
			want.Int = 0
		}
		if row[0] != want || row[1].Real != 1<<64 || row[3].Real != float64(i)/4 || r.Row() != i+1 {
			t.Fatalf("row %d: %+v", i, row)
		}
	}
	if err := r.Next(row); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// No file makes the reader panic or read without end.
func FuzzReader(f *testing.F) {
	for _, name := range []string{"flows-duckdb.parquet", "flows-arrow.parquet", "flows-null.parquet"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "generator", "workload", "testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		r, err := parquet.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		row := make([]parquet.Value, len(r.Columns()))
		for range 10_000 {
			if r.Next(row) != nil {
				return
			}
		}
	})
}
