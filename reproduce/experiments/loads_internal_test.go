package experiments

import (
	"math"
	"os"
	"reflect"
	"testing"
)

// Two groups: hosts 0 and 1. A flow without a size is endless, and no flow of the load.
func TestCompletionTimesAreOfFlowsThatEnded(t *testing.T) {
	file := t.TempDir() + "/flows.csv"
	rows := "src,bytes,fct_ns,finished\n0,1,1000000,1\n1,99999,3000000,1\n0,100000,9000000,1\n0,1000000,10000000,1\n" +
		"1,2000000,,0\n0,50,,0\n0,0,,0\n"
	if err := os.WriteFile(file, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, w := range []Sweeps{{}, {Groups: 2, Group: func(src int) int { return 1 + src }}} {
		c, err := w.read(file)
		if err != nil || len(c) != 1+w.Groups {
			t.Fatalf("%d groups: %v, %v", w.Groups, c, err)
		}
		want := Cell{Mean: 2, P99: 3, Large: 10, Ended: 4, Unfinished: 2, LateLarge: 1}
		if !reflect.DeepEqual(alike(c[0]), want) {
			t.Errorf("%+v, want %+v", *c[0], want)
		}
		if of := c[0].Sizes; len(of) != 4 || of[1] != (OfSize{99_999, 3, 3}) {
			t.Errorf("by size: %v", of)
		}
		if w.Groups == 0 {
			continue
		}
		if want := (Cell{Mean: 1, P99: 1, Large: 10, Ended: 3, Unfinished: 1}); !reflect.DeepEqual(alike(c[1]), want) {
			t.Errorf("first group: %+v, want %+v", *c[1], want)
		}
		if c[2].Mean != 3 || !math.IsNaN(c[2].Large) || c[2].LateLarge != 1 {
			t.Errorf("second group: %+v", *c[2])
		}
		// what a file keeps is the same
		if kept := c[2].stored().cell(); kept.Mean != 3 || !math.IsNaN(kept.Large) || kept.LateLarge != 1 {
			t.Errorf("kept: %+v", *kept)
		}
	}
}

// alike returns a cell without what is by size.
func alike(c *Cell) Cell {
	of := *c
	of.Sizes = nil
	return of
}
