package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A report is the outcome of a run. Score counts every mutant of the sample; one that is equivalent to the original
// counts as surviving.
type report struct {
	Seed     uint64          `json:"seed"`
	Packages []packageReport `json:"packages"`
}

type packageReport struct {
	Package    string   `json:"package"`
	Possible   int      `json:"possible"` // mutants of which the sample was drawn
	Sampled    int      `json:"sampled"`
	Killed     int      `json:"killed"`
	Unreached  int      `json:"not_reached"`
	Equivalent int      `json:"equivalent"` // survivors with a reason in the committed list
	Score      float64  `json:"score"`      // killed of those sampled
	Net        float64  `json:"net_score"`  // killed of those sampled that are not equivalent
	Stale      []string `json:"stale,omitempty"`
	Results    []result `json:"results"`
}

// summarise counts the results of one package. reasons is the committed list by key, from which it removes what it
// finds.
func summarise(pkg string, possible []*mutant, results []result, reasons map[string]string) packageReport {
	p := packageReport{Package: pkg, Possible: len(possible), Sampled: len(results)}
	known := map[string]bool{}
	for _, m := range possible {
		known[m.key()] = true
	}
	for i := range results {
		r := &results[i]
		reason, listed := reasons[r.key()]
		switch {
		case r.Outcome == killed:
			p.Killed++
			if listed {
				p.Stale = append(p.Stale, fmt.Sprintf("%q is killed by %s: delete its reason", r.key(), r.By))
			}
		case listed:
			p.Equivalent++
			r.Reason = reason
		}
		if r.Outcome == unreached {
			p.Unreached++
		}
	}
	for key := range reasons {
		if !known[key] {
			p.Stale = append(p.Stale, fmt.Sprintf("no mutant has the key %q: delete its reason or correct the key", key))
		}
	}
	p.Score = share(p.Killed, p.Sampled)
	p.Net = share(p.Killed, p.Sampled-p.Equivalent)
	return p
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func (p packageReport) print(w io.Writer, root string) {
	fmt.Fprintf(w, "%s: %d of %d mutants killed, %.1f %%; %d not reached; %d of the survivors have a reason (%.1f %% "+
		"without them); drawn of %d\n",
		p.Package, p.Killed, p.Sampled, 100*p.Score, p.Unreached, p.Equivalent, 100*p.Net, p.Possible)
	for _, r := range p.Results {
		if r.Outcome == killed {
			continue
		}
		path, err := filepath.Rel(root, r.File)
		if err != nil {
			path = r.File
		}
		fmt.Fprintf(w, "  %s:%d\t%s\t%s", path, r.Line, r.key(), r.Outcome)
		if r.Reason != "" {
			fmt.Fprintf(w, "\t(%s)", r.Reason)
		}
		fmt.Fprintln(w)
	}
	for _, s := range p.Stale {
		fmt.Fprintf(w, "  stale: %s\n", s)
	}
}

// readReasons reads the committed list of survivors: package, function, operator, expression, optional #n, and the
// reason, separated by tabs.
func readReasons(path string) (map[string]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	reasons := map[string]map[string]string{}
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		n++
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) < 5 || len(fields) > 6 || fields[len(fields)-1] == "" {
			return nil, fmt.Errorf("%s:%d: want package, function, operator, expression, perhaps #n, and a reason, with tabs "+
				"between them", path, n)
		}
		pkg, key, reason := fields[0], strings.Join(fields[1:len(fields)-1], "\t"), fields[len(fields)-1]
		if reasons[pkg] == nil {
			reasons[pkg] = map[string]string{}
		}
		if _, ok := reasons[pkg][key]; ok {
			return nil, fmt.Errorf("%s:%d: the same mutant has a reason above", path, n)
		}
		reasons[pkg][key] = reason
	}
	return reasons, lines.Err()
}

func (r report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// readKilled returns which test killed each mutant of an earlier run, by package and key.
func readKilled(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var earlier struct {
		Packages []struct {
			Results []struct {
				Package, Function, Operator, Expression, Outcome, By string
				Nth                                                  int
			}
		}
	}
	if err := json.Unmarshal(b, &earlier); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	by := map[string]string{}
	for _, p := range earlier.Packages {
		for _, r := range p.Results {
			if r.Outcome == killed {
				m := mutant{Func: r.Function, Op: r.Operator, Expr: r.Expression, Nth: r.Nth}
				by[r.Package+"\t"+m.key()] = r.By
			}
		}
	}
	return by, nil
}
