package trace

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
)

func TestYY(t *testing.T) {
	files, _ := filepath.Glob("../packet/testdata/rxe/*.in.pcap")
	for _, f := range files {
		c, rep, err := CheckPair(context.Background(), FileSource(f), FileSource(f[:len(f)-8]+".out.pcap"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s %+v %+v\n", filepath.Base(f), *rep, c.Meta().Notes)
	}
}
