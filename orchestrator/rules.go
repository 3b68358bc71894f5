package orchestrator

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/aqm"
	"candela.dev/candela/analyzers/bolt"
	"candela.dev/candela/analyzers/boltswitch"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/decision"
	"candela.dev/candela/analyzers/deflect"
	"candela.dev/candela/analyzers/fair"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/lock"
	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/analyzers/netchain"
	"candela.dev/candela/analyzers/pfabric"
	"candela.dev/candela/analyzers/queues"
	"candela.dev/candela/analyzers/rank"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/rp"
	"candela.dev/candela/analyzers/sai"
	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/analyzers/trim"
)

// Rules lists every rule that an analyzer of NIC tests checks: analyzers in report order, the rules of each sorted by
// id. [SwitchRules] lists those of switch tests.
func Rules() []analyzers.Rule {
	return sorted(gbn.Rules(), retrans.Rules(), cnp.Rules(), rp.Rules(), trim.Rules(), fields.Rules(), counters.Rules())
}

// sorted joins lists of rules, each sorted by id.
func sorted(lists ...[]analyzers.Rule) []analyzers.Rule {
	var all []analyzers.Rule
	for _, rules := range lists {
		slices.SortStableFunc(rules, func(a, b analyzers.Rule) int { return strings.Compare(a.ID, b.ID) })
		all = append(all, rules...)
	}
	return all
}

// SwitchRules lists every rule that an analyzer of switch tests checks, sorted like those of [Rules].
func SwitchRules() []analyzers.Rule {
	return sorted(aqm.Rules(), bolt.Rules(), boltswitch.Rules(), decision.Rules(), deflect.Rules(), fair.Rules(),
		forwarding.Rules(), lock.Rules(), ndp.Rules(), netchain.Rules(), pfabric.Rules(), queues.Rules(), rank.Rules(),
		sai.Rules(), tcp.Rules())
}

// Causes lists an example of each cause that an analyzer may report.
func Causes() []cause.Cause {
	return slices.Concat(gbn.Causes(), retrans.Causes(), cnp.Causes(), rp.Causes(), trim.Causes(), fields.Causes(),
		counters.Causes(), aqm.Causes(), bolt.Causes(), boltswitch.Causes(), decision.Causes(), deflect.Causes(),
		fair.Causes(), forwarding.Causes(), lock.Causes(), ndp.Causes(), netchain.Causes(), pfabric.Causes(),
		queues.Causes(), rank.Causes(), sai.Causes(), tcp.Causes())
}

func causesOf(rule string) []cause.Cause {
	return slices.DeleteFunc(Causes(), func(c cause.Cause) bool { return c.Rule != rule })
}

// WriteRules writes docs/reference/rules.md.
func WriteRules(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, `# Rules

What the analyzers check. The page is generated from their tables (`+"`go test ./orchestrator -run Rules -update`"+`).
The meaning of an id never changes; new rules get new ids.

The severity is that of a finding which the packets prove. Where they only suggest it (a capture that may have missed
packets, connections that were inferred), the same rule is reported with a lower severity, the finding says why, and
its headline begins with "As far as the trace shows". Only violations fail a run; `+"`--strict`"+` adds warnings.
Clauses are those of the InfiniBand Architecture Specification, volume 1, unless they name another document; where only
the section is known, the section is given.

A finding says what happened. Each rule has a sentence for each cause, with the code that the key `+"`cause`"+` of
findings in JSON has. The examples are what tests of the analyzers make them report; what depends on the trace is in
italics. Findings that a report leaves out are counted by a note whose cause is `+"`"+cause.NotListed+"`"+`.

Rules of switch tests say what they need to see: all packets of a *flow* at the NICs of its hosts, of all flows at the
NIC of a *host*, or at all ports of a *switch*. With less (`+"`judge`"+`) a rule is not judged, and run.json lists it.
`)
	all := append(Rules(), SwitchRules()...)
	for len(all) > 0 {
		analyzer, _, _ := strings.Cut(all[0].ID, ".")
		n := slices.IndexFunc(all, func(r analyzers.Rule) bool { return !strings.HasPrefix(r.ID, analyzer+".") })
		if n < 0 {
			n = len(all)
		}
		writeRules(b, analyzer, all[:n])
		all = all[n:]
	}
	return b.Flush()
}

func writeRules(b *bufio.Writer, analyzer string, rules []analyzers.Rule) {
	needs, rule := "", ""
	if rules[0].Needs != "" {
		needs, rule = " needs |", "---|"
	}
	fmt.Fprintf(b, "\n## %s\n\n| rule | severity |%s clause | a conforming implementation |\n|---|---|%s---|---|\n",
		analyzer, needs, rule)
	for _, r := range rules {
		if needs != "" {
			needs = fmt.Sprintf(" %s |", r.Needs)
		}
		fmt.Fprintf(b, "| `%s` | %s |%s %s | %s |\n", r.ID, r.Severity, needs, cell(r.Clause), cell(r.Statement))
	}
	first := true
	for _, r := range rules {
		for _, c := range causesOf(r.ID) {
			if first {
				fmt.Fprintf(b, "\n### What %s reports\n\n| rule | cause | example |\n|---|---|---|\n", analyzer)
				first = false
			}
			fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", r.ID, c.Code, cell(c.Example()))
		}
	}
}

func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}
