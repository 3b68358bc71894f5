package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
)

// identityBytes is the length of the identity of a finding.
const identityBytes = 12

// identity returns what a finding is recognised by. It has no connection, PSN, time, seed or word of a sentence, which
// differ between two runs with one fault.
func identity(origin, point, rule, cause, role string) string {
	h := sha256.New()
	for _, part := range []string{origin, point, rule, cause, role} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:identityBytes])
}

// portless returns a role without that of the port; ok: it has one.
func portless(role string) (plain string, ok bool) {
	plain, _, ok = strings.Cut(role, ", ")
	return plain, ok
}

// origin returns the first key that a test is known to have had.
func (t *Test) origin() string {
	if len(t.Was) > 0 {
		return t.Was[0]
	}
	return t.Key()
}

// PointText returns the values of a point, in the order of the sweep, without seeds.
func PointText(values []config.Assigned) string {
	var words []string
	for _, v := range values {
		if v.Path == "seed" {
			continue
		}
		words = append(words, v.Path+"="+v.Value)
	}
	return strings.Join(words, " ")
}

// digest returns the hash of a list, for tables that keep each content once.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Unmet is the rule of a failed expectation, for the store. Its cause is the key of the expectation.
const Unmet = "expectation.unmet"

// complaints returns the findings and, of a run that failed for something else, what that was: so that a limit that a
// test exceeds has a history as a violation has.
func (r *Run) complaints() []Finding {
	if r.Verdict != Fail {
		return r.Findings
	}
	list := slices.Clone(r.Findings)
	seen := make(map[string]bool)
	for _, reason := range r.Reasons {
		key, _, _ := strings.Cut(reason, ":")
		if strings.HasPrefix(key, "expect.") && !strings.Contains(key, " ") && !seen[key] {
			seen[key] = true
			list = append(list, Finding{Rule: Unmet, Cause: key, Severity: analyzers.Violation, Headline: reason})
		}
	}
	if !slices.ContainsFunc(list, func(f Finding) bool { return f.Counts() }) {
		list = append(list, Finding{Rule: Unmet, Severity: analyzers.Violation,
			Headline: strings.Join(r.Reasons[:min(1, len(r.Reasons))], "")})
	}
	return list
}
