package switchtest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

func queuesOf(t testing.TB, dir string) *switchtest.QueuesDocument {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "queues.json"))
	doc := new(switchtest.QueuesDocument)
	if err == nil {
		err = json.Unmarshal(data, doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Two hosts send packets of 1000 bytes, 800 ns each, into one port: the first 1250, the second 125 from 100 us on.
// After the n-th of the second n packets wait, 99 at most: in the instant in which two arrive and one leaves, 100 fit.
const overload = `
topology: {kind: single-switch, hosts: 4, link: {gbps: 10, delay-ns: 0}}
switch-under-test: {model: droptail, data-queue-bytes: 100000}
hosts: {transport: raw, packet-size: 1000}
workload:
  - flow: {src: 0, dst: 3, packets: 1250, rate-gbps: 10}
  - flow: {src: 1, dst: 3, packets: 125, rate-gbps: 10, start-us: 100}
duration-us: 2000
queue-statistics: MODE
judge: JUDGE
expect: {EXPECT}
`

func overloadTest(mode, judge, expect string) string {
	return strings.NewReplacer("MODE", mode, "JUDGE", judge, "EXPECT", expect).Replace(overload)
}

func TestQueueStatisticsAreThoseOfAQueueThatIsComputed(t *testing.T) {
	for _, c := range []struct{ mode, judge string }{{"exact", "full"}, {"exact", "off"},
		{"exact", "{flows: 0.5, ports: 2}"}, {"sampled", "full"}, {"sampled", "off"}} {
		o := outcome(t, overloadTest(c.mode, c.judge, "queue-max-bytes: 100000, unfinished: {min: 0}"))
		if o.Verdict.Exit != orchestrator.ExitPass {
			t.Fatalf("%+v", o.Verdict)
		}
		doc := queuesOf(t, o.Dir)
		if len(doc.Queues) != 1 || doc.Used != 1 || doc.Measured != c.mode || doc.EndNS != 2_000_000 {
			t.Fatalf("%+v", doc)
		}
		q := doc.Queues[0]
		// 1 to 98 packets for 800 ns each, twice, and 99 for 1027 times as long
		const steps, mean = 98 + 98 + 1027, 1000 * (98*99 + 99*1027) * 0.8 / 2000
		waited, tolerance := int64(steps*800), 1e-9
		if c.mode == "sampled" {
			waited, tolerance = q.WaitedNS, 0.01
			if q.WaitedNS/1000 != steps*8/10 && q.WaitedNS/1000 != steps*8/10+1 {
				t.Errorf("%v: something waited for %d ns", c, q.WaitedNS)
			}
		}
		series, most := 0.0, int64(0)
		for i := range q.Series.Mean {
			series, most = series+q.Series.Mean[i], max(most, q.Series.Max[i])
		}
		if q.Switch != "switch" || q.Port != 3 || math.Abs(q.Mean-mean) > tolerance*mean || q.WaitedNS != waited ||
			math.Abs(q.MeanPackets-mean/1000) > tolerance*mean || q.P50 != 0 || q.P95 < 99_000 || q.P95 > 100_000 ||
			q.P999 != q.P95 || q.Max != 100_000 || q.MaxPackets != 100 || q.Enqueued != q.Dequeued || q.Enqueued != 1375-26 ||
			q.Dropped != 26 || !maps.Equal(q.Reasons, map[string]int64{"tail": 26}) ||
			math.Abs(series*8/2000-q.Mean) > 1e-9*mean || most != 99_000 || q.Series.StretchNS != 8000 {
			t.Errorf("%v: %+v, want a mean of %g bytes; the series has %g, at most %d", c, q, mean, series*8/2000, most)
		}
	}
}

func TestQueuesAreExpectedInEveryMode(t *testing.T) {
	for _, judge := range []string{"full", "off"} {
		for expect, fails := range map[string]bool{
			"queue-mean-bytes: {min: 44550, max: 44550}": false, "queue-mean-bytes: {max: 44549}": true,
			"queue-p99-bytes: {max: 98999}": true, "queue-max-bytes: {max: 99999}": true,
			"counters: {switch.port-3.queue-0.dropped: 26}": false,
		} {
			o := outcome(t, overloadTest("exact", judge, expect+", unfinished: {min: 0}"))
			if (o.Verdict.Exit == orchestrator.ExitFail) != fails {
				t.Errorf("judge %s, %s: %+v", judge, expect, o.Verdict)
			}
		}
	}
	text := overloadTest("off", "full", "queue-mean-bytes: 1")
	if _, err := switchtest.New(parse(t, text)[0]); err == nil || !strings.Contains(err.Error(), "queue-statistics") {
		t.Errorf("queues are not measured: %v", err)
	}
}

// Up to 64 hosts queues are measured exactly, beyond they are sampled; config.yml says so.
func TestHowQueuesAreMeasuredFollowsFromTheConfiguration(t *testing.T) {
	for hosts, want := range map[int]string{64: "exact", 65: "sampled"} {
		p, err := switchtest.New(parse(t, fmt.Sprintf("\ntopology: {kind: single-switch, hosts: %d}\n"+
			"switch-under-test: {model: droptail}\nworkload: [flow: {src: 0, dst: 1, packets: 3}]\n", hosts))[0])
		if err != nil {
			t.Fatal(err)
		}
		if text := string(p.Test.YAML()); !strings.Contains(text, "queue-statistics: "+want+"\n") {
			t.Errorf("%d hosts:\n%s", hosts, text)
		}
	}
}
