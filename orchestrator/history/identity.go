package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

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

// origin returns the first key that a test is known to have had.
func (t *Test) origin() string {
	if len(t.Was) > 0 {
		return t.Was[0]
	}
	return t.Key()
}

// pointText returns the values of a point, in the order of the sweep, without seeds.
func pointText(values []config.Assigned) string {
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
