package generator

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fakeQP records posted requests.
type fakeQP struct {
	posts    []WorkRequest
	receives int
	err      error
}

func (q *fakeQP) PostSend(_ clock.Time, wr WorkRequest) error {
	q.posts = append(q.posts, wr)
	return q.err
}

func (q *fakeQP) PostRecv(clock.Time, ReceiveRequest) error {
	q.receives++
	return nil
}

func newFakes(n int) ([]Ends, [][2]*fakeQP) {
	ends, fakes := make([]Ends, n), make([][2]*fakeQP, n)
	for i := range ends {
		for side := range fakes[i] {
			fakes[i][side] = &fakeQP{}
			ends[i][side] = End{QP: fakes[i][side], Region: Region{Base: 0x1000, Length: 1 << 20, RKey: uint32(10*i + side)}}
		}
	}
	return ends, fakes
}

func us(n int64) clock.Time { return clock.Time(n) * clock.Time(clock.Microsecond) }

func mustWorkload(t *testing.T, cfg WorkloadConfig, ends []Ends) *Workload {
	t.Helper()
	w, err := NewWorkload(cfg, ends)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func writes(messages, depth int) WorkloadConfig {
	return WorkloadConfig{Traffic: Traffic{Verbs: []Verb{Write}, Messages: messages, MessageSize: 4096, MTU: 1024,
		TxDepth: depth}}
}

func TestTxDepthBoundsWhatIsOutstanding(t *testing.T) {
	ends, fakes := newFakes(1)
	w := mustWorkload(t, writes(5, 2), ends)
	check := func(want int) {
		t.Helper()
		if got := len(fakes[0][Requester].posts); got != want {
			t.Errorf("%d posts, want %d", got, want)
		}
	}
	must(t, w.Start(0))
	check(2)
	for i := range uint64(5) {
		if w.Done() {
			t.Error("done too early")
		}
		must(t, w.Completion(us(int64(i)+1), 0, Requester, Completion{ID: i, Status: Success}))
		check(min(5, 3+int(i)))
	}
	if !w.Done() {
		t.Error("not done")
	}
	if wr := fakes[0][Requester].posts[4]; wr.RKey != 1 || wr.RemoteAddr != 0x1000 || wr.Length != 4096 {
		t.Errorf("posted %+v", wr)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBarrierWaitsForAllQueuePairs(t *testing.T) {
	ends, fakes := newFakes(2)
	cfg := writes(2, 1)
	cfg.BarrierSync = true
	w := mustWorkload(t, cfg, ends)
	must(t, w.Start(0))
	must(t, w.Completion(us(1), 0, Requester, Completion{ID: 0, Status: Success}))
	if len(fakes[0][Requester].posts) != 1 {
		t.Error("the second round started before the first was over")
	}
	must(t, w.Completion(us(2), 1, Requester, Completion{ID: 0, Status: RetryExceeded}))
	if len(fakes[0][Requester].posts) != 2 || len(fakes[1][Requester].posts) != 1 {
		t.Error("a failed queue pair must neither hold up the others nor go on")
	}
	must(t, w.Completion(us(3), 0, Requester, Completion{ID: 1, Status: Success}))
	if !w.Done() {
		t.Error("not done")
	}
}

func TestReceivesAreKeptPostedForThoseVerbsThatConsumeThem(t *testing.T) {
	ends, fakes := newFakes(1)
	cfg := writes(7, 1)
	cfg.Verbs = []Verb{Write, Send, WriteImm}
	cfg.ReceiveDepth = 3
	w := mustWorkload(t, cfg, ends)
	must(t, w.Start(0))
	if got := fakes[0][Responder].receives; got != 3 {
		t.Errorf("%d receives posted at the start, want 3", got)
	}
	for range 4 { // messages 2, 3, 5 and 6 consume one each
		must(t, w.Completion(us(1), 0, Responder, Completion{Receive: true, Status: Success}))
	}
	if got := fakes[0][Responder].receives; got != 4 {
		t.Errorf("%d receives posted in all, want 4: one for each message that consumes one", got)
	}
}

func TestBidirectionalTrafficPostsOnBothSides(t *testing.T) {
	ends, fakes := newFakes(1)
	cfg := writes(1, 1)
	cfg.Bidirectional = true
	w := mustWorkload(t, cfg, ends)
	must(t, w.Start(0))
	must(t, w.Completion(us(1), 0, Responder, Completion{Status: Success}))
	if w.Done() {
		t.Error("done with the requester's message outstanding")
	}
	must(t, w.Completion(us(1), 0, Requester, Completion{Status: Success}))
	if !w.Done() || fakes[0][Responder].posts[0].RKey != 0 {
		t.Error("the responder's request must go to the requester's memory")
	}
}

func TestImpossibleCompletionsAreErrors(t *testing.T) {
	ends, _ := newFakes(1)
	w := mustWorkload(t, writes(2, 1), ends)
	must(t, w.Start(0))
	for name, err := range map[string]error{
		"not posted":         w.Completion(0, 0, Requester, Completion{ID: 1, Status: Success}),
		"unknown connection": w.Completion(0, 1, Requester, Completion{ID: 0, Status: Success}),
		"silent side":        w.Completion(0, 0, Responder, Completion{ID: 0, Status: Success}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	must(t, w.Completion(0, 0, Requester, Completion{ID: 0, Status: Success}))
	if w.Completion(0, 0, Requester, Completion{ID: 0, Status: Success}) == nil {
		t.Error("completed twice: no error")
	}
}

func TestPostErrorsNameConnectionAndMessage(t *testing.T) {
	ends, fakes := newFakes(2)
	fakes[1][Requester].err = errors.New("no such verb")
	err := mustWorkload(t, writes(2, 1), ends).Start(0)
	if err == nil || !strings.Contains(err.Error(), "connection 2, requester, message 1: no such verb") {
		t.Errorf("error %v", err)
	}
}

func TestWorkloadConfigIsChecked(t *testing.T) {
	ends, _ := newFakes(1)
	_, err := NewWorkload(WorkloadConfig{Traffic: Traffic{MessageSize: -1}}, ends)
	for _, want := range []string{"requester of connection 1", "no verb", "0 messages", "message size -1", "tx-depth 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	cfg := writes(1, 1)
	cfg.ReceiveDepth = -1
	if _, err := NewWorkload(cfg, ends); err == nil {
		t.Error("negative receive depth accepted")
	}
}

func TestReportGolden(t *testing.T) {
	ends, _ := newFakes(2)
	cfg := writes(3, 2)
	cfg.Verbs = []Verb{Write, Read}
	w := mustWorkload(t, cfg, ends)
	must(t, w.Start(us(1)))
	must(t, w.Completion(us(3), 0, Requester, Completion{ID: 0, Status: Success}))
	must(t, w.Completion(us(6), 0, Requester, Completion{ID: 1, Status: Success}))
	must(t, w.Completion(us(9), 0, Requester, Completion{ID: 2, Status: Success}))
	must(t, w.Completion(us(5), 1, Requester, Completion{ID: 0, Status: RetryExceeded}))
	var got bytes.Buffer
	report := w.Report()
	must(t, report.Write(&got))
	const golden = "testdata/report.json"
	if *update {
		must(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestStatusNamesRoundTrip(t *testing.T) {
	for s := Success; s <= ReceiverNotReadyExceed; s++ {
		text, _ := s.MarshalText()
		var back Status
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	var s Status
	if err := s.UnmarshalText([]byte("IBV_WC_OK")); err == nil || !strings.Contains(err.Error(), "IBV_WC_SUCCESS") {
		t.Errorf("unknown status: %v", err)
	}
}

func TestVerbsRoundTripAndCountPSNs(t *testing.T) {
	for v := Write; v <= FetchAdd; v++ {
		if back, ok := ParseVerb(v.String()); !ok || back != v {
			t.Errorf("%s: %v %t", v, back, ok)
		}
	}
	for _, c := range []struct {
		verb              Verb
		length, mtu, psns int
	}{{Write, 0, 1024, 1}, {Write, 1024, 1024, 1}, {Read, 1025, 1024, 2}, {Send, 10240, 1024, 10},
		{FetchAdd, 4096, 256, 1}} {
		if got := c.verb.PSNs(c.length, c.mtu); got != c.psns {
			t.Errorf("%s of %d bytes at MTU %d: %d PSNs, want %d", c.verb, c.length, c.mtu, got, c.psns)
		}
	}
}
