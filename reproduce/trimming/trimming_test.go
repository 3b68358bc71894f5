package trimming

import (
	"os"
	"strings"
	"testing"
	"time"
)

func testConfig(t *testing.T) Config {
	t.Helper()
	fixed := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	return Config{Workers: 2, Version: "test", Wall: func() time.Time { return fixed }}
}

func TestEveryResultIsWithinTolerance(t *testing.T) {
	cfg := testConfig(t)
	var ids []string
	if only := os.Getenv("TRIMMING_RESULTS"); only != "" {
		ids = strings.Split(only, ",")
	}
	results, err := Run(t.Context(), cfg, ids...)
	if err != nil {
		t.Fatal(err)
	}
	if err := results.WriteText(os.Stdout); err != nil {
		t.Fatal(err)
	}
}
