package detection

import (
	"fmt"
	"io"
	"strings"

	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/generator/rdma"
)

const catalogueHead = `# Seeded bugs

What can be broken in a NIC model, made from the catalogue itself (` + "`go test ./orchestrator/detection -update`" +
	` rewrites this page).
Each is a switch on any profile:

` + "```yaml" + `
responder:
  nic: {profile: cx5, bugs: [no-nack]}
` + "```" + `

The test of a bug is the smallest one that exposes it, and passes when the rule beside it fires. A rule that starts with
` + "`expect.`" + ` is an expectation of the test about times or completions, where the specification sets no bound. ` +
	"`make detection`" + `
runs them all, and counts false alarms on compliant NICs.

| bug | what it does | caught by |
|---|---|---|
`

const ndpHead = `
## NDP hosts

Bugs of the hosts in tests of switches, which docs/guide/switch-tests.md describes; the tests of package
` + "`switchtest`" + ` run them all. Those of the SAI switch are in docs/reference/switch-reference.md.

` + "```yaml" + `
hosts: {transport: ndp, bugs: [early-timeout]}
` + "```" + `

| bug | what it does | caught by |
|---|---|---|
`

// WriteCatalogue writes docs/reference/bugs.md.
func WriteCatalogue(w io.Writer) error {
	var b strings.Builder
	b.WriteString(catalogueHead)
	for _, bug := range rdma.Catalogue() {
		origin := ""
		if bug.Origin != "" {
			origin = "; seen in " + bug.Origin
		}
		fmt.Fprintf(&b, "| [%s](../../configs/detect/%s.yml) | %s%s | `%s` |\n", bug.Name, bug.Name, bug.Description, origin,
			bug.Rule)
	}
	b.WriteString(ndpHead)
	for _, bug := range ndp.Catalogue() {
		fmt.Fprintf(&b, "| %s | %s%s. | `%s` |\n", bug.Name, strings.ToUpper(bug.What[:1]), bug.What[1:], bug.Rule)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
