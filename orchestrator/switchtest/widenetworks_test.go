package switchtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// wideNetwork draws a small network of TCP hosts with marks: short queues, timers as short as the RTT, bursts of other
// traffic, stopped switches, failed trunks, several classes, queues on NICs. recorded: it may be captured.
func (d networkDraw) wideNetwork() (text string, recorded bool) {
	senders := d.between(1, 10)
	topology, hosts := d.wideTopology(senders + 1 + d.IntN(3))
	jitter := d.of("0", "0", "0", "0.3", "5", "100", "1000")
	more := ""
	pauses := d.one(8)
	if pauses {
		jitter = "0"
		more = fmt.Sprintf("pfc-classes: [0], pfc-xoff-bytes: %d, ", d.between(3000, 60_000))
	}
	size := d.of("1500", "1500", "1500", "9000", "576", strconv.Itoa(d.between(200, 9216)))
	frame, _ := strconv.Atoi(size)
	text = fmt.Sprintf("%s\nswitch-under-test: {%s%s}\n%s\nworkload:\n", topology, more, d.wideModel(frame),
		d.wideHosts(size, jitter))
	budget := int(d.magnitude(20, 2500)) // segments of the network
	mark := d.of("", "", "", ", ip: 6")
	for i := range d.between(1, 4) {
		if i == 0 || d.one(3) {
			text += fmt.Sprintf("  - incast: {senders: %d, %s, %s%s}\n", min(senders, hosts-1),
				d.extent(frame, max(4, budget/senders)), d.start(), mark)
			continue
		}
		text += d.more(hosts, frame, budget/4, mark)
	}
	if d.one(4) { // a burst of what nothing slows down
		text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, transport: raw, start-us: %d}\n",
			d.between(1, hosts-1), int(d.magnitude(1, 300)), int(d.magnitude(1, 3000)))
	}
	if d.one(6) {
		at := int(d.magnitude(1, 5000))
		text += fmt.Sprintf("changes: [{at-us: %d, state: stopped}, {at-us: %d, state: running}]\n", at,
			at+int(d.magnitude(1, 5000)))
	}
	text += fmt.Sprintf("seed: %d\n", d.IntN(1<<30))
	if d.one(5) {
		text += "judge: {flows: 0.3}\n"
	} else {
		recorded = !pauses && d.one(3)
	}
	if d.one(8) {
		return text + fmt.Sprintf("duration-us: %d\n", int(d.magnitude(50, 5e6))), recorded
	}
	return text + fmt.Sprintf("deadline-us: %s\n", d.of("100000", "400000", "20000000")), recorded
}

// wideTopology draws a network of at least so many hosts.
func (d networkDraw) wideTopology(least int) (text string, hosts int) {
	hosts = least
	shape := fmt.Sprintf("kind: single-switch, hosts: %d", hosts)
	switch d.IntN(5) {
	case 0:
		hosts += hosts % 2
		shape = fmt.Sprintf("kind: dumbbell, hosts: %d", hosts)
	case 1, 2:
		leaves, spines := d.between(2, 3), d.between(1, 3)
		per := (hosts + leaves - 1) / leaves
		hosts = leaves * per
		shape = fmt.Sprintf("kind: leaf-spine, leaves: %d, spines: %d, hosts-per-leaf: %d, routing: %s", leaves, spines, per,
			d.of("ecmp", "ecmp", "spray", "spray-round-robin"))
		if spines > 1 && d.one(3) {
			shape += fmt.Sprintf(", trunks: [{from: leaf-%d, to: spine-%d, %s}]", d.IntN(leaves), d.IntN(spines),
				d.of("failed: true", "gbps: 1", "gbps: 0.1"))
		}
	}
	text = fmt.Sprintf("topology: {%s, link: {%s}", shape, d.link("100", "25", "10", "10", "1", "0.1"))
	if d.one(3) {
		text += fmt.Sprintf(", trunk: {%s}", d.link("100", "25", "10", "1"))
	}
	if d.one(2) {
		var links []string
		for range d.between(1, min(4, hosts)) {
			links = append(links, fmt.Sprintf("{host: %d, gbps: %s, delay-ns: %s}", len(links)*hosts/4,
				d.of("100", "40", "7", "1", "0.1", "0.01"), d.delay()))
		}
		text += ", links: [" + strings.Join(links, ", ") + "]"
	}
	return text + "}", hosts
}

// wideModel draws a switch whose queues are short and mark.
func (d networkDraw) wideModel(frame int) string {
	model := d.of("droptail", "droptail", "droptail", "droptail", "cp", "ndp-ideal", "sfc", "mod", "tofino", "tofino2")
	queue := int(d.magnitude(1, 100))
	text := "model: " + model
	switch {
	case model == "cp":
		text += fmt.Sprintf(", watermark-bytes: %d, data-queue-bytes: %d", queue*frame, queue*frame+64+d.IntN(20_000))
	case model == "droptail" && d.one(2):
		text += fmt.Sprintf(", data-queue-packets: %d, data-queue-bytes: 10000000", queue)
	case model == "sfc":
	default:
		text += fmt.Sprintf(", data-queue-bytes: %d", queue*frame)
	}
	switch d.IntN(5) {
	case 0:
		text += fmt.Sprintf(", ecn-threshold-bytes: %d", max(1, int(d.magnitude(0.3, 1.2*float64(queue))*float64(frame))))
	case 1, 2:
		text += fmt.Sprintf(", ecn-threshold-packets: %d", max(1, int(d.magnitude(1, 1.2*float64(queue)))))
	case 3:
		low := int(d.magnitude(1, float64(queue*frame)))
		text += fmt.Sprintf(", ecn-min-bytes: %d, ecn-max-bytes: %d, ecn-probability: %s", low,
			low+int(d.magnitude(1, float64(queue*frame))), d.of("1", "0.5", "0.05"))
	}
	if model == "droptail" && d.one(3) {
		text += fmt.Sprintf(", queues: %d, scheduler: %s", d.between(2, 4), d.of("strict", "wrr", "dwrr", "fifo"))
	}
	if model == "droptail" && d.one(4) {
		text += fmt.Sprintf(", buffer-bytes: %d, buffer-alpha: %s", d.between(2, 200)*frame, d.of("0.25", "1", "8"))
	}
	return text
}

// wideHosts draws hosts that use ECN in two of three networks.
func (d networkDraw) wideHosts(size, jitter string) string {
	more := ""
	control := d.of("cubic", "reno", "reno", "dctcp", "dctcp")
	switch {
	case control == "dctcp":
		if d.one(3) {
			more += ", dctcp-alpha: " + d.of("0", "0.5") + ", dctcp-gain: " + d.of("0.0625", "0.5", "1")
		}
	case !d.one(3):
		more += ", ecn: " + d.of("ect0", "ect1")
	}
	if d.one(4) && (control == "dctcp" || strings.Contains(more, "ecn:")) {
		more += ", ecn-everything: true"
	}
	more += ", min-rto-us: " + d.of("1", "10", "50", "200", "1000", "1000", "5000", "10000", "200000",
		strconv.Itoa(int(d.magnitude(1, 1e5))))
	more += ", delayed-ack-us: " + d.of("0", "0", "10", "100", "1000", "40000", "200000", "450000")
	if d.one(2) {
		more += ", initial-window: " + d.of("1", "2", "3", "4", "16", "40", "100", "1000")
	}
	if d.one(3) {
		more += fmt.Sprintf(", receive-window-bytes: %d", int(d.magnitude(10_240, 1e6)))
	}
	more += d.tcpOptions()
	if d.one(3) {
		more += fmt.Sprintf(", first-sequence: %d", 1<<32-1-d.Uint32N(1<<uint(d.between(10, 31))))
	}
	if d.one(6) {
		more += fmt.Sprintf(", nic: {model: droptail, data-queue-packets: %d, backlog-packets: %s}", d.between(1, 64),
			d.of("1", "2", "16"))
	}
	return fmt.Sprintf("hosts: {transport: tcp, congestion-control: %s, packet-size: %s, send-jitter-us: %s%s}", control,
		size, jitter, more)
}

// wideNetworks returns the numbers of the networks that the tests of wide networks draw: CANDELA_TEST_WIDE, COUNT or
// COUNT@FIRST, or else few.
func wideNetworks(t *testing.T, usually int) (first, count int) {
	t.Helper()
	text := os.Getenv("CANDELA_TEST_WIDE")
	if text == "" {
		return 0, usually
	}
	number, at, _ := strings.Cut(text, "@")
	count, err := strconv.Atoi(number)
	if err == nil && at != "" {
		first, err = strconv.Atoi(at)
	}
	if err != nil || count < 1 || first < 0 {
		t.Fatalf("CANDELA_TEST_WIDE=%q: want the number of networks to draw, such as 3000 or 3000@10000", text)
	}
	return first, count
}

// Correct hosts in small networks that mark, lose, delay and stop are not blamed, neither in the run nor from captures.
func TestCompliantTCPHostsInWideNetworksAreNotBlamed(t *testing.T) {
	first, count := wideNetworks(t, 60)
	const parts = 6
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			refused, ran := 0, 0
			for seed := first + part; seed < first+count; seed += parts {
				text, recorded := newNetworkDraw(uint64(seed), 500).wideNetwork()
				if recorded {
					text += captured
				}
				ran++
				if !blamesNobody(t, fmt.Sprintf("# %d\n", seed)+text, recorded) {
					refused++
				}
			}
			if 3*refused > ran {
				t.Errorf("%d of %d networks were refused", refused, ran)
			}
		})
	}
}

// These networks once caused findings against correct hosts. The first line of each says what the judge of TCP took for
// granted.
func TestNetworksThatOnceBlamedCorrectTCPHostsDoNotAnyMore(t *testing.T) {
	files, err := filepath.Glob("testdata/blamed/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for i, file := range files {
		if !runtimetest.Sampled(i) {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !blamesNobody(t, string(text), strings.Contains(string(text), "capture: true")) {
				t.Error("the test is refused")
			}
		})
	}
}

// sampling matches how much of a network is judged.
var sampling = regexp.MustCompile(`judge: .*\n`)

// In random networks, too, a sample says what the whole says of the same flows: of hosts with faults of ECN and others,
// and of correct ones.
func TestSampledFlowsOfWideNetworksAreJudgedAsAllFlows(t *testing.T) {
	first, count := wideNetworks(t, 12)
	bugs, found := tcp.Catalogue(), 0
	for seed := first; seed < first+min(count, 200); seed++ {
		d := newNetworkDraw(uint64(seed), 501)
		text, _ := d.wideNetwork()
		text = sampling.ReplaceAllString(text, "")
		if bug := bugs[d.IntN(len(bugs))]; bug.Bug != tcp.BugNoBackoff && !d.one(4) {
			text = strings.Replace(text, "{transport: tcp,", "{transport: tcp, bugs: ["+bug.Name+"],", 1)
		}
		tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
		if err != nil {
			continue
		}
		if _, err := switchtest.New(tests[0]); err != nil {
			continue
		}
		found += sampledAlike(t, text)
	}
	if found == 0 {
		t.Error("no finding is compared")
	}
}

// sampledAlike compares what a run says of the flows of a sample with what the sampled run says, and returns how many
// findings these are. What is found at the end of a run is left out, as the two need not end at once.
func sampledAlike(t *testing.T, text string) int {
	t.Helper()
	sampledText := text + "judge: {flows: 0.5, ports: 0}\n"
	p, err := switchtest.New(parse(t, sampledText)[0])
	if err != nil {
		t.Fatal(err)
	}
	full, part := outcome(t, text), outcome(t, sampledText)
	if full.Analysis == nil || part.Analysis == nil {
		return 0
	}
	end, of := min(flowsOf(t, full.Dir).EndNS, flowsOf(t, part.Dir).EndNS), needs()
	said := func(list []analyzers.Finding) (said []string) {
		for i := range list {
			f := &list[i]
			if f.Analyzer == "tcp" && of[f.Rule] == analyzers.NeedsFlow && p.Follows(f.Connection) && f.TimeNS < end {
				said = append(said, fmt.Sprintf("%s t=%dns %s", f.Rule, f.TimeNS, f.Message))
			}
		}
		return said
	}
	want, got := said(full.Analysis.Findings), said(part.Analysis.Findings)
	if !slices.Equal(got, want) {
		t.Errorf("%s\ngot  %s\nwant %s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return len(want)
}

// Faults of ECN are caught in such networks, but those of the reaction to marks, which need longer flows.
func TestSeededTCPBugsOfECNAreCaughtInWideNetworks(t *testing.T) {
	for _, bug := range tcp.Catalogue() {
		reaction := bug.Rule == "tcp.ecn-window" || bug.Rule == "tcp.ecn-overreaction"
		// Counted from the first of ECN, so that new faults before it do not change the sample.
		if bug.Bug < tcp.BugIgnoresECE || bug.Bug >= tcp.BugSwiftIgnoresDelay || reaction ||
			!silence() && (bug.Bug-tcp.BugIgnoresECE)%4 != 3 {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			caughtIn(t, bug.Rule, false, func(seed, stream uint64, _ string) string {
				text, _ := newNetworkDraw(seed, 600+stream).wideNetwork()
				text = sampling.ReplaceAllString(text, "")
				return strings.Replace(text, "{transport: tcp,", "{transport: tcp, bugs: ["+bug.Name+"],", 1)
			})
		})
	}
}
