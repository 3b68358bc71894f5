package oracle

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the table in docs/internals/oracle.md")

func TestChoicesAreDocumented(t *testing.T) {
	const file, begin, end = "../../docs/internals/oracle.md", " -update -->\n", "<!-- end -->"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	var b strings.Builder
	b.WriteString("| endpoint | what it may and must do | clause |\n|---|---|---|\n")
	for _, c := range Choices() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Endpoint, c.What, c.Clause)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), old); diff != "" {
		t.Errorf("table of choices (-want +have):\n%s", diff)
	}
}
