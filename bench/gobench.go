package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// benchmark is a Go benchmark of this module.
type benchmark struct {
	pkg  string // relative to the root: "./injector/pipeline"
	name string // "BenchmarkProcess", "BenchmarkParse/v4"
	unit string // as the benchmark prints it: "ns/op", "MB/s", or one of its own metrics
	// perSecond turns nanoseconds into a rate: things that happen per unit. Zero: the value is used unchanged.
	perSecond float64
	// cpus is how many processors the benchmark has; zero: as many as the run says. A client and a server need one each.
	cpus int
	// at is the commit of which the benchmark is, with today's files listed in with; empty: today's.
	at   string
	with []string
}

func (s benchmark) open(ctx context.Context, lab *lab) (sampler, error) {
	root := lab.root
	if s.at != "" {
		var err error
		if root, err = lab.sources(ctx, s.at); err != nil {
			return nil, err
		}
		for _, file := range s.with {
			if err := replace(filepath.Join(root, s.pkg, file), filepath.Join(lab.root, s.pkg, file)); err != nil {
				return nil, err
			}
		}
	}
	binary, err := lab.testBinary(ctx, root, s.pkg)
	if err != nil {
		return nil, err
	}
	args := []string{"-test.run=^$", "-test.bench=" + exactly(s.name), "-test.count=1",
		"-test.benchtime=" + lab.opts.benchtime.String(), "-test.cpu=" + strconv.Itoa(cmp.Or(s.cpus, lab.opts.cpu))}
	return func(ctx context.Context) (float64, error) {
		took, err := lab.execute(ctx, filepath.Join(root, s.pkg), nil, binary, args...)
		if err != nil {
			return 0, err
		}
		v, err := metric(string(took.output), s.unit)
		if why, skipped := skipReason(string(took.output)); err != nil && skipped {
			return 0, fmt.Errorf("%w: %s", errSkipped, why)
		}
		if err != nil {
			return 0, fmt.Errorf("%s in %s: %w", s.name, s.pkg, err)
		}
		if s.perSecond != 0 {
			v = s.perSecond * 1e9 / v
		}
		return v, nil
	}, nil
}

func replace(file, by string) error {
	content, err := os.ReadFile(by)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// testBinary compiles the tests of a package once. A package without tests has no binary.
func (l *lab) testBinary(ctx context.Context, root, pkg string) (string, error) {
	key := filepath.Join(root, pkg)
	if binary, ok := l.binaries[key]; ok {
		return binary, nil
	}
	binary := filepath.Join(l.dir, fmt.Sprintf("%d-%s.test", len(l.binaries), filepath.Base(pkg)))
	if _, err := l.execute(ctx, root, nil, "go", "test", "-c", "-o", binary, pkg); err != nil {
		return "", err
	}
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("package %s has no tests", pkg)
	}
	l.binaries[key] = binary
	return binary, nil
}

// exactly returns the -bench pattern of one benchmark; each level of sub-benchmarks has a pattern.
func exactly(name string) string {
	levels := strings.Split(name, "/")
	for i, level := range levels {
		levels[i] = "^" + regexp.QuoteMeta(level) + "$"
	}
	return strings.Join(levels, "/")
}

// errSkipped says that a benchmark lacks a privilege or a program: neither a measurement nor a failure.
var errSkipped = errors.New("SKIP")

// skipReason finds why a benchmark skipped itself: "--- SKIP: BenchmarkX" and, on the next line, "file.go:12: reason".
func skipReason(output string) (why string, skipped bool) {
	_, after, skipped := strings.Cut(output, "--- SKIP: ")
	_, after, _ = strings.Cut(after, "\n")
	line, _, _ := strings.Cut(after, "\n")
	if _, reason, found := strings.Cut(line, ".go:"); found {
		_, line, _ = strings.Cut(reason, ": ")
	}
	return strings.TrimSpace(line), skipped
}

var errNoBenchmark = errors.New("no such benchmark")

// metric finds the value of a unit in the output of one benchmark: "BenchmarkX-1  100  12.3 ns/op  4 widgets/s".
func metric(output, unit string) (float64, error) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if fields[i+1] == unit {
				return strconv.ParseFloat(fields[i], 64)
			}
		}
		return 0, fmt.Errorf("reports no %s: %s", unit, strings.TrimSpace(line))
	}
	return 0, errNoBenchmark
}
