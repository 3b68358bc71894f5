package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const samplePackage = "candela.dev/candela/bench/mutate/testdata/sample"

// TestEveryMutantOfTheSampleMeetsItsFate builds all mutants of a small package, and knows which its tests kill.
func TestEveryMutantOfTheSampleMeetsItsFate(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a package for some seconds")
	}
	dir := t.TempDir()
	reasons, results := filepath.Join(dir, "reasons.txt"), filepath.Join(dir, "results.json")
	lines := []string{
		"# a comment", "",
		samplePackage + "\tShift\tminus 1\tmask in uint32(n)<<3&mask\tthe low bit is 0 anyway",
		samplePackage + "\tGrade\tboundary\tn > 10\tis killed",
		samplePackage + "\tGrade\tboundary\tn > 11\tdoes not exist",
	}
	if err := os.WriteFile(reasons, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"-packages", "./testdata/sample", "-count", "0", "-reasons", reasons, "-json", results, "-patience",
		"1", "-minimum", "0.8"}
	if code := run(t.Context(), args, &stdout, &stderr); code != 1 {
		t.Fatalf("exit %d, want 1 for stale reasons\n%s%s", code, &stdout, &stderr)
	}
	const want = `candela.dev/candela/bench/mutate/testdata/sample: 45 of 56 mutants killed, 80.4 %; 4 not reached; 1 of the survivors have a reason (81.8 % without them); drawn of 56
  testdata/sample/sample.go:29	Between	boundary	n < big	survived
  testdata/sample/sample.go:29	Between	times 2	big in n < big	survived
  testdata/sample/sample.go:54	Name	drop branch	case Low	survived
  testdata/sample/sample.go:54	Name	remove	log("low")	survived
  testdata/sample/sample.go:62	Shift	minus 1	mask in uint32(n)<<3&mask	survived	(the low bit is 0 anyway)
  testdata/sample/sample.go:66	Unused	zero result	return n + 1	not reached
  testdata/sample/sample.go:66	Unused	arithmetic	n + 1	not reached
  testdata/sample/sample.go:66	Unused	plus 1	1 in n + 1	not reached
  testdata/sample/sample.go:66	Unused	minus 1	1 in n + 1	not reached
  testdata/sample/sample.go:70	Endless	plus 1	0 in i := 0	survived
  testdata/sample/sample.go:70	Endless	minus 1	0 in i := 0	survived
  stale: "Grade\tboundary\tn > 10" is killed by TestGrade: delete its reason
  stale: no mutant has the key "Grade\tboundary\tn > 11": delete its reason or correct the key
`
	if diff := cmp.Diff(want, strings.ReplaceAll(stdout.String(), "bench/mutate/testdata/sample/sample.go",
		"testdata/sample/sample.go")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	b, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var rep struct {
		Packages []struct {
			Results []struct{ Function, Operator, Expression, Outcome, By string }
		}
	}
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Packages[0].Results {
		if r.Function == "Endless" && r.Operator == opRemove &&
			(r.Expression != "i++" || r.Outcome != killed || r.By != "TestEndless") {
			t.Errorf("a mutant that never ends: %+v", r)
		}
	}
}

// TestTheSampleDependsOnKeysAndSeed draws of a list, and of the same list with others in between.
func TestTheSampleDependsOnKeysAndSeed(t *testing.T) {
	make := func(n, step int) []*mutant {
		var list []*mutant
		for i := 0; i < n; i += step {
			list = append(list, &mutant{Package: "p", Func: fmt.Sprintf("f%d", i), Op: opRemove, Expr: "x"})
		}
		return list
	}
	names := func(list []*mutant) map[string]bool {
		set := map[string]bool{}
		for _, m := range list {
			set[m.Func] = true
		}
		return set
	}
	all := make(1000, 1)
	first, other := sample(all, 300, 1), sample(all, 300, 2)
	if len(first) != 300 || cmp.Equal(names(first), names(other)) || !cmp.Equal(names(first), names(sample(all, 300, 1))) {
		t.Error("the seed alone must decide")
	}
	half, kept := names(sample(make(1000, 2), 150, 1)), 0
	for name := range half {
		if names(first)[name] {
			kept++
		}
	}
	if kept < 120 {
		t.Errorf("%d of 150 are in both samples; other mutants must change few choices", kept)
	}
	last := -1
	for _, m := range first {
		var i int
		if _, err := fmt.Sscanf(m.Func, "f%d", &i); err != nil || i <= last {
			t.Fatalf("%s after f%d", m.Func, last)
		}
		last = i
	}
}

func TestReasonsThatCannotBeReadAreErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"spaces for tabs", "p f negate x reason", ":1: want package, function"},
		{"no reason", "#\np\tf\tnegate\tx\t", ":2: want package, function"},
		{"twice", "p\tf\tnegate\tx\treason\np\tf\tnegate\tx\treason", ":2: the same mutant"},
	}
	for _, test := range tests {
		path := filepath.Join(t.TempDir(), "reasons")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readReasons(path); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestWrongArgumentsAreErrors(t *testing.T) {
	for _, args := range [][]string{{}, {"-packages", "./nowhere"},
		{"-packages", "./testdata/sample", "-only", "no such text"}, {"-x"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%q: exit %d, %s", args, code, &stderr)
		}
	}
}
