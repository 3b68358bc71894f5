package switchtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/aqm"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

// queuingRun runs a switch and compares the counters that it wrote with its taps, after a change of their text.
func queuingRun(t *testing.T, model, network string, change func(string) string) []aqm.Broken {
	t.Helper()
	p, err := switchtest.New(parse(t, fmt.Sprintf(network, model, "not-ect"))[0])
	if err != nil {
		t.Fatal(err)
	}
	o, err := switchtest.Run(t.Context(), p, options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(o.Dir, "queuing.txt"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := aqm.ParseQueuing("queuing.txt", []byte(change(string(file))))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := orchestrator.OpenRun(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	broken, err := switchtest.CompareQueuing(opened, switchtest.Options(), text)
	if err != nil {
		t.Fatal(err)
	}
	return append(broken, text.Check(aqm.Bounds{MTU: aqm.JumboMTU})...)
}

// What a switch counts comes back from its text, and a counter that is wrong, in the switch or in the text, is found.
func TestCountersOfASwitchAreJudgedFromTheirText(t *testing.T) {
	same := func(text string) string { return text }
	const shallow = ", port-buffer-bytes: 140000"
	for _, c := range []struct{ model, network string }{
		{"model: afd-dpp, " + fast + ", " + brief + shallow, aqmOverload},
		{"model: red" + shallow, aqmSprayed},
	} {
		if broken := queuingRun(t, c.model, c.network, same); len(broken) > 0 {
			t.Errorf("%s: %+v", c.model, broken)
		}
	}
	model := "model: afd-dpp, " + fast + ", " + brief + shallow
	if broken := queuingRun(t, model+", bugs: [miscounts]", aqmOverload, same); len(broken) == 0 ||
		!strings.Contains(broken[0].What, aqm.RowDropped+" are ") {
		t.Errorf("%+v", broken)
	}
	wrong := func(text string) string { // a packet more left by the last port, multicast
		i := strings.LastIndex(text, "Tx Pkts |")
		return text[:i] + strings.Replace(text[i:], "0|\n", "1|\n", 1)
	}
	if broken := queuingRun(t, model, aqmOverload, wrong); len(broken) == 0 ||
		!strings.Contains(broken[0].What, aqm.RowTxPackets) {
		t.Errorf("%+v", broken)
	}
}
