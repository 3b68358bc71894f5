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

// sure says what is known of the choices beside the standard.
const sure = `
## How sure the choices are

IBTA's text was not at hand. Choices were checked against Linux's ipath_rc.c, soft-RoCE and pib_rc.c (nminoru/pib).

- Confirmed: a fatal NAK after an unanswered READ or atomic taken for an implied NAK; a duplicate SEND or WRITE
  acknowledged by its own PSN or a later one; a repetition that shares an answer which left after it arrived; a
  repeated READ answered before later requests; a duplicate that repeats nothing dropped or refused; an old MSN in the
  answer to a duplicate atomic.
- Not confirmed: a restart decided before progress that still comes.
- Possibly too lax: an old MSN in answers to duplicate READs and SENDs; answering a duplicate that repeats nothing.
- Stricter than 9.4.4 as pib quotes it: a repeated READ starts at the first missing response and keeps the end (Lumina
  thesis).
`

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
	b.WriteString(sure)
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
