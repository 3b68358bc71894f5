package switchtest_test

import (
	"fmt"
	"strings"
	"testing"
)

// Grants of a backup pass the original if there is no other path, also those of requests that a server had returned.
func TestGrantsOfABackupPassTheOriginal(t *testing.T) {
	text := strings.NewReplacer("reroute-us: 100", "reroute-us: 600", "at-us: 2500", "at-us: 2600", "changes: [",
		"changes: [{at-us: 2100, trunk: {from: left, to: backup, failed: true}}, ").Replace(fmt.Sprintf(failover, 1, ""))
	if found, n := lockRun(t, text); len(found) > 0 || n["pushed-back"] < 50 {
		t.Errorf("%v, %v", found, n)
	}
}
