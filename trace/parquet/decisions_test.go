package parquet_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/trace"
)

// Kinds of a family: a value that kinds share is one column, and a kind need not have a value.
var kinds = []trace.DecisionKind{
	{Name: "admitted", Values: []trace.DecisionValue{{Name: "limit", Unit: "bytes"}, {Name: "pool"}}},
	{Name: "evicted", Causes: []string{"", "rank"}, Values: []trace.DecisionValue{{Name: "pool"}, {Name: "victim-rank"}}},
	{Name: "granted"},
}

func written(t *testing.T, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := trace.NewDecisionWriter(&b, format, kinds, []string{"leaf-0", "spine-0"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		r := trace.Decision{
			Time: 1_000_000_007, Switch: i % 2, Port: i, Queue: i % 8, Kind: uint8(i % 3), Cause: uint8(i % 2),
			Packet: 1<<63 + uint64(i), Flow: 7,
			Rank: ^uint64(0), Size: 1500, Occupancy: 1 << 40, Values: [trace.DecisionValues]int64{int64(i), -int64(i)},
		}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || w.Count() != 30 {
		t.Fatal(err, w.Count())
	}
	return b.Bytes()
}

func TestDecisionsAreTheSameInEveryFormat(t *testing.T) {
	lines, err := csv.NewReader(bytes.NewReader(written(t, "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	head := "t_ps,switch,port,queue,kind,cause,packet,flow,rank,size,occupancy,limit_bytes,pool,victim-rank"
	if got := strings.Join(lines[0], ","); got != head {
		t.Fatalf("head %s", got)
	}
	if got, want := strings.Join(lines[2], ","),
		"1000000007,spine-0,1,1,evicted,rank,9223372036854775809,7,18446744073709551615,1500,1099511627776,,1,-1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for i, text := range bytes.Split(bytes.TrimSpace(written(t, "json")), []byte("\n")) {
		decoder, record := json.NewDecoder(bytes.NewReader(text)), map[string]any{}
		decoder.UseNumber()
		if err := decoder.Decode(&record); err != nil {
			t.Fatal(err)
		}
		values, _ := record["values"].(map[string]any)
		for j, name := range lines[0] {
			got := record[name]
			if j > 10 {
				got = values[name]
			}
			if got == nil {
				got = ""
			}
			if fmt.Sprint(got) != lines[i+1][j] {
				t.Errorf("record %d: %s is %v in JSON, %s in CSV", i, name, got, lines[i+1][j])
			}
		}
	}
	got := read(t, written(t, "parquet"))
	if !slices.Equal(got.Columns, lines[0]) || len(got.Rows) != len(lines)-1 {
		t.Fatalf("%v, %d rows", got.Columns, len(got.Rows))
	}
	for i, row := range got.Rows {
		for j, v := range row {
			if v == nil {
				v = ""
			}
			if fmt.Sprint(v) != lines[i+1][j] {
				t.Errorf("record %d: %s is %v in Parquet, %s in CSV", i, lines[0][j], v, lines[i+1][j])
			}
		}
	}
}

func TestAnUnknownFormatIsRefused(t *testing.T) {
	if _, err := trace.NewDecisionWriter(new(bytes.Buffer), "xml", kinds, nil); err == nil ||
		!strings.Contains(err.Error(), "csv, json, parquet") {
		t.Errorf("%v", err)
	}
}
