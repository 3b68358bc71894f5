// Package upstream writes findings for those who maintain the device: a text in the form of a bug report for a kernel's
// mailing list, the packets as a plain capture, the test, and a C program that needs nothing of Candela where the hosts
// alone can bring the finding about. All that it says comes from the run, except for what the user adds under a heading
// of its own.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/trace"
)

// Names of the files.
const (
	TextFile    = "report.txt"
	PacketsFile = "packets.pcap"
	TestFile    = "test.yml"
	ProgramFile = "reproducer.c"
)

// Run is a judged run with its documents.
type Run struct {
	Report      *report.Report
	Test        *config.Test
	Environment testbeds.Environment
	Integrity   *trace.IntegrityReport
	Counters    orchestrator.Counters
	Trace       trace.Source
	Checked     *trace.Checked
}

// Options are what the user adds and chooses.
type Options struct {
	Finding string // number in the report's order, from 1, or rule
	Subject string // empty: what happened
	// First and Last confine the packets; 0: those of the finding, what they refer to, and their neighbours.
	First, Last uint64
	Test        []byte // a smaller test than that of the run; nil: that of the run
	Source      string // what the user found in the sources of the device; empty: nothing
	PriorArt    string // earlier reports that the user found; empty: none
}

// Document is a finding as files.
type Document struct {
	Text, Packets, Test []byte
	Program             []byte // nil: the hosts alone cannot bring the finding about
}

// Find returns the finding that text names: a number in the order of the report, or a rule, of which the first finding
// counts that nothing excuses.
func Find(r *report.Report, text string) (*report.Finding, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > len(r.Findings) {
			return nil, fmt.Errorf("finding %d: the run has %d", n, len(r.Findings))
		}
		return &r.Findings[n-1], nil
	}
	i := slices.IndexFunc(r.Findings, func(f report.Finding) bool { return f.Rule == text && f.Waiver == "" && !f.Wanted })
	if i < 0 {
		i = slices.IndexFunc(r.Findings, func(f report.Finding) bool { return f.Rule == text })
	}
	if i >= 0 {
		return &r.Findings[i], nil
	}
	var rules []string
	for i := range r.Findings {
		rules = append(rules, r.Findings[i].Rule)
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("finding %q: the run has none", text)
	}
	slices.Sort(rules)
	return nil, fmt.Errorf("finding %q: want a number from 1 to %d or one of %s", text, len(rules),
		strings.Join(slices.Compact(rules), ", "))
}

// Write makes the files of a finding.
func Write(ctx context.Context, run *Run, o Options) (*Document, error) {
	if o.Last < o.First {
		return nil, fmt.Errorf("packets %d to %d: want the first before the last", o.First, o.Last)
	}
	f, err := Find(run.Report, o.Finding)
	if err != nil {
		return nil, err
	}
	w := &writer{run: run, finding: f, options: o, device: deviceOf(run, f)}
	if w.packets, err = choose(ctx, run.Checked, f, o.First, o.Last); err != nil {
		return nil, err
	}
	if len(w.packets.list) == 0 {
		return nil, errors.New("the trace has none of these packets")
	}
	doc := &Document{Test: o.Test}
	if doc.Packets, err = w.capture(ctx); err != nil {
		return nil, err
	}
	if doc.Program, w.noProgram, err = program(run.Test, f); err != nil {
		return nil, err
	}
	w.hasProgram = doc.Program != nil
	doc.Text = w.text()
	return doc, nil
}

// device is the host that the finding is about; the zero value: none in particular.
type device struct {
	role string // "requester"
	host *testbeds.Component
}

func deviceOf(run *Run, f *report.Finding) device {
	d := device{role: f.Role}
	for i := range run.Environment.Components {
		if c := &run.Environment.Components[i]; c.Kind == "host" && c.Name == f.Role {
			d.host = c
		}
	}
	return d
}

func property(c *testbeds.Component, name string) string {
	if c == nil {
		return ""
	}
	for _, p := range c.Properties {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// drivers are the names that linux-rdma gives drivers in subjects, by what environments call them.
var drivers = [...]struct{ property, contains, subject string }{
	{"model", "rdma_rxe", "RDMA/rxe"},
	{"driver", "mlx5", "RDMA/mlx5"},
	{"driver", "mlx4", "RDMA/mlx4"},
	{"driver", "irdma", "RDMA/irdma"},
	{"driver", "ice", "RDMA/irdma"},
	{"driver", "bnxt", "RDMA/bnxt_re"},
	{"driver", "hns", "RDMA/hns"},
	{"driver", "qed", "RDMA/qedr"},
}

// subsystem begins the subject: the driver if it is known, otherwise the device.
func (d device) subsystem() string {
	for _, known := range drivers {
		if strings.Contains(property(d.host, known.property), known.contains) {
			return known.subject
		}
	}
	for _, name := range []string{"model", "device", "nic"} {
		if text := property(d.host, name); text != "" {
			return text
		}
	}
	return d.role
}

// counted are the findings of the run that nothing excuses, by role.
func (w *writer) counted(role string) (n int) {
	for i := range w.run.Report.Findings {
		f := &w.run.Report.Findings[i]
		if f.Role == role && f.Severity == analyzers.Violation && f.Waiver == "" && !f.Wanted {
			n++
		}
	}
	return n
}
