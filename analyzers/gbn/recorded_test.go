package gbn_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

var (
	update = flag.Bool("update", false, "rewrite testdata/verdicts.txt")
	draw   = flag.Bool("draw", false, "with -update: draw the traces of testdata/traces.txt.gz anew")
)

const (
	tracesFile   = "testdata/traces.txt.gz"
	verdictsFile = "testdata/verdicts.txt"
)

// TestVerdictsAreThoseRecorded judges recorded traces, each of which makes the analyzer do something else, and compares
// with earlier findings. The oracle decides what is right (analyzers/oracle/comparison); this test shows the effect of
// a change.
func TestVerdictsAreThoseRecorded(t *testing.T) {
	if *update && *draw {
		drawTraces(t)
	}
	var got bytes.Buffer
	connections := oracle.Connections()
	for i, tr := range readTraces(t) {
		fmt.Fprintf(&got, "trace %d %s: %s\n", i, tr.Tap(), verdict(judged(t, tr, connections)))
	}
	for _, b := range slices.Sorted(maps.Keys(seeded)) {
		for seed := uint64(1); seed <= 2; seed++ {
			cfg := simConfig{
				seed: seed, messages: 6, maxPSNs: 12, verbs: verbsFor(b), delayNS: 1000, lossPct: 12, losses: 12,
				timeoutNS: 1_000_000, window: 40, ipsn: 0xfffff0, bug: b, rnrs: int(seed) - 1,
			}
			if cfg.verbs[0] == packet.VerbRead {
				cfg.verbs = allVerbs
			}
			cases := views(t, simulate(cfg))
			for _, view := range slices.Sorted(maps.Keys(cases)) {
				known := cfg.known(seed == 1)
				known.Default.Retry, known.Default.RNRRetry = gbn.AtMost(2), gbn.AtMost(1)
				c := cases[view]
				a := gbn.New(c.Meta(), known)
				if err := c.ForEach(t.Context(), func(r *trace.Record) error { a.Packet(r); return nil }); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "%s, seed %d, %s: %s\n", b, seed, view, verdict(a.Finish()))
			}
		}
	}
	for seed := range uint64(400) {
		name, r := disturbed(t, seed)
		fmt.Fprintf(&got, "seed %d, %s: %s\n", seed, name, verdict(r))
	}
	if *update {
		if err := os.WriteFile(verdictsFile, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	was, is, changed := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n"), 0
	for i := range max(len(was), len(is)) {
		a, b := lineAt(was, i), lineAt(is, i)
		if a == b {
			continue
		}
		if changed++; changed <= 5 {
			t.Errorf("was %s\nis  %s", a, b)
		}
	}
	if changed > 0 {
		t.Errorf("%d of %d verdicts changed. If the change is meant and the oracle agrees: go test ./analyzers/gbn -run "+
			"Recorded -update", changed, len(is))
	}
}

// disturbed judges a run of correct endpoints in which events of the injector, damage, or impossible packets changed
// some records; in a random view, with random knowledge.
func disturbed(t *testing.T, seed uint64) (string, analyzers.Result) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	cfg := simConfig{
		seed: seed, messages: 3 + rng.IntN(5), maxPSNs: 8, verbs: allVerbs, delayNS: 1000, lossPct: 8 * rng.IntN(2),
		losses:    6,
		timeoutNS: 1_000_000, window: 20, ipsn: 0xfffff0, rnrs: rng.IntN(3),
	}
	s := simulate(cfg)
	for range 1 + rng.IntN(4) {
		disturb(rng, &s.records[rng.IntN(len(s.records))])
	}
	cases := views(t, s)
	names := slices.Sorted(maps.Keys(cases))
	name := names[rng.IntN(len(names))]
	c := cases[name]
	if rng.IntN(3) == 0 {
		reaction := trace.TrimReaction(rng.IntN(3))
		c = c.WithTrims(trace.TrimReactions{Requester: reaction, Responder: reaction}, nil)
		name += fmt.Sprintf(", trims %d", reaction)
	}
	known := cfg.known(rng.IntN(2) == 0)
	if rng.IntN(2) == 0 {
		known.Default.Retry, known.Default.RNRRetry = gbn.AtMost(rng.IntN(3)), gbn.AtMost(rng.IntN(8))
	}
	if known.SoftwareHosts = rng.IntN(4) == 0; known.SoftwareHosts {
		name += ", software"
	}
	known.MaxPerRule = rng.IntN(3)
	return name, analyse(t, c, known)
}

func disturb(rng *rand.Rand, r *trace.Record) {
	response := !r.Opcode.IsRequest()
	switch rng.IntN(14) {
	case 0:
		r.Event = []trace.EventType{trace.EventDelay, trace.EventDuplicate, trace.EventReorder,
			trace.EventRewrite}[rng.IntN(4)]
	case 1:
		r.Event = trace.EventTrim
	case 2:
		r.Event = trace.EventCorrupt
	case 3:
		r.ICRC = packet.ICRCInvalid
	case 4:
		r.PSN = r.PSN.Add(rng.IntN(7) - 3)
	case 5:
		r.Flow = trace.NoFlow
	case 6:
		r.PKey = 0x8001
	case 7, 8:
		if response && r.Opcode == packet.Acknowledge {
			r.Syndrome = packet.Syndrome(rng.IntN(128))
		} else {
			r.PayloadLen += uint16(4 * rng.IntN(3))
		}
	case 9:
		r.MSN += uint32(rng.IntN(4))
	case 10:
		if response {
			r.Opcode = []packet.Opcode{packet.AtomicAcknowledge, packet.ReadResponseOnly, packet.ReadResponseMiddle,
				packet.Acknowledge}[rng.IntN(4)]
		} else {
			r.Opcode = []packet.Opcode{packet.FetchAdd, packet.ReadRequest, packet.SendOnly, packet.WriteMiddle,
				packet.SendLast}[rng.IntN(5)]
		}
	case 11:
		r.Flags ^= trace.AckReq
	case 12:
		r.DMALen += uint32(rng.IntN(3) * 1024)
	case 13:
		r.Flags |= []trace.Flags{trace.ForeignRKey, trace.ForeignPKey, trace.Solicited, trace.PortChanged}[rng.IntN(4)]
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}

// judged runs the analyzer with what the view of the trace knows.
func judged(t *testing.T, tr *oracle.Trace, connections *trace.Connections) analyzers.Result {
	t.Helper()
	c := tr.Checked(connections)
	a := comparison.Configured(c.Meta(), tr.View)[0]
	if err := c.ForEach(t.Context(), func(r *trace.Record) error { a.Packet(r); return nil }); err != nil {
		t.Fatal(err)
	}
	return a.Finish()
}

// verdict returns the rules with the first letter of their severity and their packets, and a hash of all findings.
func verdict(r analyzers.Result) string {
	var words []string
	h := fnv.New32a()
	for _, f := range r.Findings {
		id, _ := strings.CutPrefix(f.Rule, "gbn.")
		words = append(words, fmt.Sprintf("%.1s %s%v", f.Severity, id, f.Packets))
		fmt.Fprint(h, f.PSN, f.PSNAbs, f.TimeNS, f.Expected, f.Actual, f.Message, f.Connection)
	}
	slices.Sort(words)
	for _, k := range slices.Sorted(maps.Keys(r.Coverage)) {
		if n := r.Coverage[k]; n > 0 {
			fmt.Fprint(h, k, n)
		}
	}
	fmt.Fprint(h, r.Metrics)
	return strings.Join(append(words, fmt.Sprintf("%08x", h.Sum32())), ", ")
}

// readTraces reads the recorded traces, in the notation of the oracle with empty lines between them.
func readTraces(t *testing.T) []*oracle.Trace {
	t.Helper()
	f, err := os.Open(tracesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var list []*oracle.Trace
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		tr, err := oracle.Parse(part)
		if err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		list = append(list, tr)
	}
	return list
}

// drawTraces keeps those of many random traces that show a new set of rules or a new pair of transitions.
func drawTraces(t *testing.T) {
	t.Helper()
	const drawn, most = 60_000, 1600
	connections, seen := oracle.Connections(), map[string]bool{}
	var out bytes.Buffer
	kept := 0
	for i := 0; i < drawn && kept < most; i++ {
		text := comparison.Draw(rand.New(rand.NewPCG(2026, uint64(i)))).String()
		tr, err := oracle.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r := judged(t, tr, connections)
		var shown []string
		for _, f := range r.Findings {
			shown = append(shown, string(f.Severity)+f.Rule)
		}
		slices.Sort(shown)
		keys := []string{tr.Tap() + strings.Join(slices.Compact(shown), " ")}
		var taken []string
		for k, n := range r.Coverage {
			if n > 0 {
				taken = append(taken, k)
			}
		}
		slices.Sort(taken)
		for i, a := range taken {
			for _, b := range taken[i:] {
				keys = append(keys, tr.Tap()+a+b)
			}
		}
		fresh := false
		for _, k := range keys {
			fresh = fresh || !seen[k]
			seen[k] = true
		}
		if fresh {
			kept++
			out.WriteString(text + "\n")
		}
	}
	t.Logf("%d traces", kept)
	var zipped bytes.Buffer
	z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tracesFile, zipped.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
