package bmv2_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"candela.dev/candela/injector/afpacket"
	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/testbeds/bmv2"
)

var update = flag.Bool("update", false, "write the matrix of docs/guide/p4.md from a run")

// page contains the matrix, between two lines.
const (
	page  = "../../docs/guide/p4.md"
	begin = "<!-- matrix: go test ./testbeds/bmv2 -run Matrix -update -->\n"
	end   = "<!-- end of the matrix -->\n"
)

// Results in a cell.
const (
	same   = "same"    // as the Go pipeline: frames and counters
	notRun = "not run" // the machine that made the matrix lacks the target
)

type do func(func(switchd.Datapath) error) error

// target is the target of a column.
type target struct {
	name string
	open func(*testing.T) (*datapathtest.Wire, do)
	here bool // it can run on this machine
}

func targets() []target {
	_, err := bmv2.Find()
	return []target{{"afpacket", openAFPacket, true}, {"xdp", openXDP, true}, {"bmv2", openBMv2, err == nil}}
}

func openBMv2(t *testing.T) (*datapathtest.Wire, do) {
	c, w := openSwitch(t)
	return w, func(f func(switchd.Datapath) error) error { return f(c) }
}

func openXDP(t *testing.T) (*datapathtest.Wire, do) {
	t.Helper()
	w := datapathtest.NewWire(t)
	for i := range datapathtest.Ports {
		release, err := xdp.Pass(datapathtest.Far(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = release.Close() })
	}
	d, err := xdp.Open(xdp.Config{Seed: datapathtest.Seed, CPU: 0, Ports: datapathtest.NearPorts()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	w.Listen(t)
	return w, func(f func(switchd.Datapath) error) error { return f(d) }
}

func openAFPacket(t *testing.T) (*datapathtest.Wire, do) {
	t.Helper()
	w := datapathtest.NewWire(t)
	s, err := afpacket.Open(afpacket.Config{Ports: datapathtest.NearPorts(), Seed: datapathtest.Seed})
	if err != nil {
		t.Fatal(err)
	}
	var lock sync.Mutex
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() {
		ran <- s.Run(ctx, func(f func()) { lock.Lock(); defer lock.Unlock(); f() })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		_ = s.Close()
	})
	w.Listen(t)
	return w, func(f func(switchd.Datapath) error) error {
		lock.Lock()
		defer lock.Unlock()
		return f(s.Pipeline())
	}
}

// measure runs every cell on a target.
func measure(t *testing.T, x target) map[string]string {
	t.Helper()
	results := map[string]string{}
	linktest.Namespace(t, func() {
		w, run := x.open(t)
		for _, c := range datapathtest.Matrix() {
			key := c.Addressing + "|" + c.Action
			results[key] = same
			if err := w.Agrees(t, run, c.Case); err != nil {
				t.Errorf("%s: %s, %s: %v", x.name, c.Addressing, c.Action, err)
				results[key] = "**differs**"
			}
		}
	})
	return results
}

func TestTheMatrixOfTheDocumentIsWhatARunGives(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no matrix", page)
	}
	columns := targets()
	results := make([]map[string]string, len(columns))
	for i, x := range columns {
		if x.here {
			results[i] = measure(t, x)
		} else {
			t.Logf("SKIP-bmv2: %s is not on the PATH; its column stays as it is", bmv2.Program)
			results[i] = column(old, x.name)
		}
	}
	made := render(columns, results)
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+made+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if made != old {
		t.Errorf("the matrix of %s is another one; got\n%s", page, made)
	}
}

// column returns the cells of a column of the document.
func column(table, name string) map[string]string {
	results := map[string]string{}
	at := -1
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if at < 0 {
			at = slices.Index(cells, name)
			continue
		}
		if at >= len(cells) || len(cells) < 3 {
			continue
		}
		for addressing := range strings.SplitSeq(cells[0], "; ") {
			for action := range strings.SplitSeq(cells[1], ", ") {
				results[addressing+"|"+strings.Trim(action, "`")] = cells[at]
			}
		}
	}
	return results
}

// render writes one line for all addressings with the same results in all targets.
func render(columns []target, results []map[string]string) string {
	var b strings.Builder
	b.WriteString("| addressing | action")
	for _, x := range columns {
		b.WriteString(" | " + x.name)
	}
	b.WriteString(" |\n|---|---" + strings.Repeat("|---", len(columns)) + "|\n")
	cell := func(key string) (cells string) {
		for _, r := range results {
			outcome := r[key]
			if outcome == "" {
				outcome = notRun
			}
			cells += " | " + outcome
		}
		return cells
	}
	// Group the actions of an addressing by outcome, then the addressings by these groups.
	actions := map[string][]string{}
	var order [][2]string
	for _, c := range datapathtest.Matrix() {
		outcome := cell(c.Addressing + "|" + c.Action)
		if key := c.Addressing + outcome; actions[key] == nil {
			order = append(order, [2]string{c.Addressing, outcome})
		}
		actions[c.Addressing+outcome] = append(actions[c.Addressing+outcome], "`"+c.Action+"`")
	}
	addressings := map[string][]string{}
	var lines []string
	for _, o := range order {
		line := strings.Join(actions[o[0]+o[1]], ", ") + o[1]
		if addressings[line] == nil {
			lines = append(lines, line)
		}
		addressings[line] = append(addressings[line], o[0])
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(addressings[line], "; "), line)
	}
	var software []string
	for _, id := range []uint32{p4.ActionCorruptPayload, p4.ActionDelay, p4.ActionDuplicate, p4.ActionReorder,
		p4.ActionRewrite} {
		software = append(software, "`"+p4.Software().Action(id).Name+"`")
	}
	fmt.Fprintf(&b, "| any of these | %s | offered | – | – |\n", strings.Join(software, ", "))
	return b.String()
}
