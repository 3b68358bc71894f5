package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"candela.dev/candela/exporter"
	"candela.dev/candela/orchestrator/nightly"
)

// dashboardQueries returns the queries of the Grafana dashboard.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	data, err := os.ReadFile("../../packaging/grafana/candela.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			queries = append(queries, q.Expr)
		}
	}
	if len(queries) < 15 {
		t.Fatalf("%d queries", len(queries))
	}
	return queries
}

func TestTheDashboardShowsMetricsThatAreExportedAndAllOfThem(t *testing.T) {
	exported := make(map[string]bool)
	name := regexp.MustCompile(`fqName: "(candela_[a-z_]+)"`)
	ch := make(chan *prometheus.Desc, 1000)
	registry := prometheus.NewRegistry()
	nightly.NewMetrics(describer{ch, registry}, "p")
	newAgentMetrics(describer{ch, registry})
	(&switchMetrics{}).Describe(ch)
	exporter.New("v", "c").Describe(ch)
	close(ch)
	for d := range ch {
		if m := name.FindStringSubmatch(d.String()); m != nil {
			exported[m[1]] = true
		}
	}
	shown := make(map[string]bool)
	for _, q := range dashboardQueries(t) {
		for _, m := range regexp.MustCompile(`candela_[a-z_]+`).FindAllString(q, -1) {
			m = strings.TrimSuffix(m, "_bucket")
			if shown[m] = true; !exported[m] {
				t.Errorf("%s is not exported", m)
			}
		}
	}
	for m := range exported {
		if !shown[m] {
			t.Errorf("the dashboard does not show %s", m)
		}
	}
	if len(exported) < 15 {
		t.Errorf("%d metrics: %v", len(exported), exported)
	}
}

// describer registers collectors and passes their descriptions on.
type describer struct {
	ch chan *prometheus.Desc
	prometheus.Registerer
}

func (d describer) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		c.Describe(d.ch)
	}
	d.Registerer.MustRegister(list...)
}

func (d describer) Register(c prometheus.Collector) error {
	c.Describe(d.ch)
	return nil
}

func TestPromtoolReadsTheQueriesOfTheDashboard(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIP: promtool is missing; tools/setup installs Debian's prometheus")
	}
	var b bytes.Buffer
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, q := range dashboardQueries(t) {
		q = strings.NewReplacer("$__rate_interval", "5m", "$plan", ".*").Replace(q)
		fmt.Fprintf(&b, "  - record: dashboard:query_%d\n    expr: %q\n", i, q)
	}
	rules := filepath.Join(t.TempDir(), "rules.yml")
	check := func() ([]byte, error) {
		if err := os.WriteFile(rules, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.CommandContext(t.Context(), promtool, "check", "rules", rules).CombinedOutput()
	}
	if out, err := check(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	b.WriteString("  - record: dashboard:wrong\n    expr: \"sum(\"\n")
	if out, err := check(); err == nil {
		t.Errorf("promtool accepts a wrong query\n%s", out)
	}
}
