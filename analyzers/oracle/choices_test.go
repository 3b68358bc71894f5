package oracle

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/reference/oracle-choices.md")

func TestChoicesAreDocumented(t *testing.T) {
	const file = "../../docs/reference/oracle-choices.md"
	var b strings.Builder
	b.WriteString(`# What the endpoints of the oracle may do

Each choice that [the oracle](../internals/oracle.md) allows, with its clause of IBTA volume 1
(` + "`go test ./analyzers/oracle -run Choices -update`" + ` rewrites this page).

| endpoint | what it may and must do | clause |
|---|---|---|
`)
	for _, c := range Choices() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Endpoint, c.What, c.Clause)
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("%s (-want +have; -update rewrites it):\n%s", file, diff)
	}
}
