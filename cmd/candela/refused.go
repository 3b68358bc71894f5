package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// refusal is a test that is correct and not for the testbed that the command asks for.
type refusal struct {
	file, testbed string
	reason        error
}

// refused reports whether a test that does not load is refused for the testbed alone: on its own testbed it loads, and
// the testbed's description is correct. Everything else is a mistake in a file.
func refused(file string, f runFlags, err error) (refusal, bool) {
	if f.testbed == "" {
		return refusal{}, false
	}
	if _, e := config.LoadTestbed(f.testbed); e != nil {
		return refusal{}, false
	}
	r := refusal{file: file, testbed: f.testbed, reason: err}
	f.testbed = ""
	if _, e := loadFile(file, f); e != nil {
		return refusal{}, false
	}
	if data, e := os.ReadFile(file); e == nil && config.IsSwitchTest(data) && r.testbed != config.NetnsTestbed {
		r.reason = fmt.Errorf("%s: a test of a switch runs in a network of its own, not on testbed %s", file, r.testbed)
	}
	return r, true
}

// allRefused is the error if no test is left to run.
func allRefused(list []refusal) error {
	var reasons []error
	for _, r := range list {
		reasons = append(reasons, r.reason)
	}
	return errors.Join(reasons...)
}

// report is the line of a test in the summary of several.
func (r *refusal) report() *report.Report {
	return &report.Report{
		Name: strings.TrimSuffix(filepath.Base(r.file), ".yml"), File: r.file, Testbed: r.testbed,
		Refused: r.brief(),
	}
}

// brief is the first problem, how many more there are, and what the last one advises.
func (r *refusal) brief() string {
	var problems, advice []string
	for line := range strings.Lines(r.reason.Error()) {
		if strings.HasPrefix(line, " ") {
			advice = append(advice, strings.TrimSpace(line))
			continue
		}
		problems, advice = append(problems, strings.TrimSpace(line)), nil
	}
	text := problems[0]
	if n := len(problems) - 1; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(append([]string{text}, advice...), "; ")
}

// scaledTimes says for how many files a testbed lengthens the timeouts; nothing if for none.
func scaledTimes(plans []planned, w io.Writer) {
	files := make(map[string]bool)
	var bed *config.Testbed
	for _, p := range plans {
		if p.Plan != nil && p.Test.TimeScale > 1 {
			files[p.file], bed = true, p.Test.Testbed
		}
	}
	if len(files) == 0 {
		return
	}
	tests := "of 1 test"
	if n := len(files); n > 1 {
		tests = fmt.Sprintf("of %d tests", n)
	}
	fmt.Fprintf(w, "note: testbed %s lengthens the timeouts %s (its timeout-floor is %d); config.yml of each run has "+
		"the times that it ran with\n",
		bed.Name, tests, bed.Floor())
}
