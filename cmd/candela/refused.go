package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// refusal is a test that does not run: the file has errors, or the testbed of the command cannot run it.
type refusal struct {
	file, testbed string
	reason        error
	wrong         bool // the file has errors
}

// refused returns why a test does not load. The testbed is the reason if its description is correct and the test loads
// for its own testbed. Every other reason is an error in the file.
func refused(file string, f runFlags, err error) refusal {
	r := refusal{file: file, testbed: f.testbed, reason: err, wrong: true}
	if f.testbed == "" {
		return r
	}
	if _, e := config.LoadTestbed(f.testbed); e != nil {
		return r
	}
	f.testbed = ""
	if _, e := loadFile(file, f); e != nil {
		return r
	}
	r.wrong = false
	bed, _ := networkLab(r.testbed)
	if data, e := os.ReadFile(file); e == nil && config.IsSwitchTest(data) && r.testbed != config.NetnsTestbed &&
		bed == nil {
		r.reason = fmt.Errorf("%s: a test of a switch runs in a network of its own, not on testbed %s", file, r.testbed)
	}
	return r
}

// exit is the contribution of the test to the exit status of the command.
func (r *refusal) exit() orchestrator.Exit {
	if r.wrong {
		return orchestrator.ExitUsage
	}
	return orchestrator.ExitPass
}

// say prints on stderr what the summary on stdout does not contain: all problems of a wrong file and, with JSON on
// stdout, that a test was refused.
func (r *refusal) say(w io.Writer, json bool) {
	switch {
	case r.wrong:
		printError(w, r.reason)
	case json:
		fmt.Fprintf(w, "refused: %s\n", r.brief())
	}
}

// allRefused is the error if no test can run.
func allRefused(list []refusal) error {
	var reasons []error
	for _, r := range list {
		reasons = append(reasons, r.reason)
	}
	return errors.Join(reasons...)
}

// report is the line of a test in the summary of several.
func (r *refusal) report() *report.Report {
	base := filepath.Base(r.file)
	rep := &report.Report{Name: cmp.Or(strings.TrimSuffix(base, ".yml"), base), File: r.file, Testbed: r.testbed}
	if r.wrong {
		rep.Wrong = r.brief()
	} else {
		rep.Refused = r.brief()
	}
	return rep
}

// brief is the first problem, the number of further ones, and the advice of the last one.
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

// scaledTimes prints for how many files the testbed lengthens timeouts.
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
	fmt.Fprintf(w,
		"note: testbed %s lengthens the timeouts %s (its timeout-floor is %d); config.yml of each run contains "+
			"the timeouts in use\n",
		bed.Name, tests, bed.Floor())
}
