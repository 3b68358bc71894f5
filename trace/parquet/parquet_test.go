package parquet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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
