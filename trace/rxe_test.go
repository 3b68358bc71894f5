package trace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestXX(t *testing.T) {
	files, _ := filepath.Glob("../packet/testdata/rxe/*.pcap")
	for _, f := range files {
		c, rep, err := Check(context.Background(), FileSource(f), Options{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(filepath.Base(f), rep.Format, rep.Packets, rep.OtherFrames, c.Meta().Notes)
		c.Meta().Connections.Write(os.Stdout)
	}
}
