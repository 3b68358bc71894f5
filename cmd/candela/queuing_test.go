package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace"
)

// writeFrames writes a capture of so many frames of a length.
func writeFrames(t *testing.T, frames, length int) (file string) {
	t.Helper()
	var b bytes.Buffer
	w := trace.NewPcapWriter(&b, "x.pcap", 64)
	for range frames {
		if err := w.Write(0, make([]byte, 64), length); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "x.pcap")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCountersOfAnInterfaceAreCheckedAndComparedWithCaptures(t *testing.T) {
	const fixture = "../../aqm/testdata/show-queuing-interface.txt"
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	// Since then 10 frames of 256 bytes, FCS included, were sent, 2 were dropped, and the queue has emptied.
	later := strings.NewReplacer("2523844", "2523854", "645096506", "645099066", "149786", "149788", "38345468", "38345980",
		"247504", "0").Replace(string(text))
	after := filepath.Join(t.TempDir(), "after.txt")
	if err := os.WriteFile(after, []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	sent, arrived := "Ethernet1/1="+writeFrames(t, 10, 252), "Ethernet1/1="+writeFrames(t, 12, 252)
	for _, c := range []struct {
		args []string
		exit orchestrator.Exit
		want string
	}{
		{[]string{fixture}, orchestrator.ExitPass, "2523844"},
		{[]string{fixture, "--ecn"}, orchestrator.ExitFail, "show-queuing-interface.txt:26: Ethernet1/1 QOS GROUP 0: WRED/AFD " +
			"Drop Pkts (Unicast): 149786, although"},
		{[]string{after, "--since", fixture, "--sent", sent, "--arrived", arrived}, orchestrator.ExitPass, "  2560  "},
		{[]string{after, "--since", fixture, "--sent", arrived}, orchestrator.ExitFail, "the tap saw 12 frames leave"},
		{[]string{after, "--since", fixture, "--arrived", sent}, orchestrator.ExitFail, "fewer than 10 sent and 2 dropped"},
		{[]string{fixture, "--since", after}, orchestrator.ExitFail, "fell from 2523854 to 2523844"},
		{[]string{fixture, "--sent", "Ethernet1/2" + strings.TrimPrefix(sent, "Ethernet1/1")}, orchestrator.ExitUsage,
			"want one of its interfaces: Ethernet1/1"},
		{[]string{fixture, "--sent", "x.pcap"}, orchestrator.ExitUsage, "want INTERFACE=CAPTURE"},
		{[]string{fixture, "--sent", sent, "--sent", sent}, orchestrator.ExitUsage, "has a capture already"},
		{[]string{"../../README.md"}, orchestrator.ExitUsage, "../../README.md:1:1: no interface"},
		{[]string{fixture, "--mtu", "5"}, orchestrator.ExitUsage, "want at least 64"},
	} {
		var out, errs bytes.Buffer
		if got := run(t.Context(), append([]string{"queuing"}, c.args...), &out, &errs); got != c.exit ||
			!strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("%v: exit status %d, want %d and %q\n%s%s", c.args, got, c.exit, c.want, &out, &errs)
		}
	}
	var out bytes.Buffer
	var doc struct {
		Schema string
		Broken []struct{ What string }
	}
	run(t.Context(), []string{"queuing", fixture, "--ecn", "--json"}, &out, &out)
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.Schema != "candela.queuing/v1" || len(doc.Broken) != 1 {
		t.Errorf("%v: %s", err, &out)
	}
}
