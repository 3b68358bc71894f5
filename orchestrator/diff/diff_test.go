package diff

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
)

func finding(rule string, connection int, psn int64) analyzers.Finding {
	return analyzers.Finding{Rule: rule, Connection: connection, PSN: psn}
}

func TestFindingsAreMatchedByRuleConnectionAndPSN(t *testing.T) {
	a := []analyzers.Finding{finding("gbn.a", 1, 5), finding("gbn.a", 1, 5), finding("gbn.b", 1, 5)}
	b := []analyzers.Finding{finding("gbn.a", 1, 5), finding("gbn.b", 2, 5)}
	got := compareFindings(a, b)
	want := Findings{
		Appeared:    []analyzers.Finding{finding("gbn.b", 2, 5)},
		Disappeared: []analyzers.Finding{finding("gbn.a", 1, 5), finding("gbn.b", 1, 5)},
		Same:        1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestMetricsThatOnlyOneRunHasHaveNoRatio(t *testing.T) {
	a := []analyzers.Metric{{Name: "m", Unit: "ns", Count: 2, P50: 10, P99: 20}, {Name: "only-a", Count: 1, P50: 7}}
	b := []analyzers.Metric{{Name: "m", Unit: "ns", Count: 2, P50: 25, P99: 20}}
	ratio := 2.5
	want := []Metric{
		{Name: "m", Unit: "ns", A: Distribution{2, 10, 20}, B: Distribution{2, 25, 20}, Ratio: &ratio},
		{Name: "only-a", A: Distribution{1, 7, 0}},
	}
	if d := cmp.Diff(want, compareMetrics(a, b)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestSettingsAreNamedByTheirPath(t *testing.T) {
	got := make(map[string]string)
	flatten(got, "",
		[]byte("name: x\ntraffic:\n  mtu: 1024\n  data-pkt-events:\n    - {psn: 1}\n    - {psn: 2}\nexpect: {}\n"))
	want := map[string]string{
		"name": "x", "traffic.mtu": "1024", "expect": "{}",
		"traffic.data-pkt-events[0]": "{psn: 1}", "traffic.data-pkt-events[1]": "{psn: 2}",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestARunDoesNotDifferFromItself(t *testing.T) {
	r := &Run{
		Name: "r", Document: orchestrator.RunDocument{ToolVersion: "v"}, config: map[string]string{"seed": "1"},
		Analysis: &analyzers.Analysis{Findings: []analyzers.Finding{finding("gbn.a", 1, 1)},
			Metrics: []analyzers.Metric{{Name: "m", Count: 1}}},
	}
	same := Compare(r, r)
	if !same.Same {
		t.Errorf("differs: %+v", same)
	}
	var out bytes.Buffer
	if err := same.Write(&out); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("JSON: %v\n%s", err, &out)
	}
}

func TestTextShowsNoControlCharactersOfTheFiles(t *testing.T) {
	a := &Run{Name: "a\x1b[2J", config: map[string]string{"k\x1b": "v\a"}}
	var out bytes.Buffer
	if err := Compare(a, &Run{Name: "b"}).Text(&out, report.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\a") {
		t.Errorf("%q", out.String())
	}
}

// FuzzRead reads hostile documents: an error or a run that can be compared, never a panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"testbed":"virtual","components":[{"name":"a","properties":[{"name":"b","value":"c"}]}]}`),
		[]byte("a:\n  - b\n"), []byte(`{}`))
	f.Fuzz(func(t *testing.T, environment, config, other []byte) {
		read := func(name string) ([]byte, error) {
			switch name {
			case "environment.json":
				return environment, nil
			case "config.yml", "testbed.yml":
				return config, nil
			}
			return other, nil
		}
		r, err := Read("run", orchestrator.RunDocument{}, read)
		if err != nil {
			return
		}
		if report := Compare(r, r); !report.Same {
			t.Errorf("a run differs from itself: %+v", report)
		}
	})
}
