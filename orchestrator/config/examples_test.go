package config_test

import (
	"path/filepath"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
)

// examples returns the example configurations that come with Candela.
func examples(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../configs/*.yml", "../../configs/broken/*.yml"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	if len(files) < 2 {
		t.Fatalf("found only %d example configurations", len(files))
	}
	return files
}

func TestEveryExampleLoadsAndPlans(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			test, err := config.Load(file, config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plan.New(test); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s\n%s", test.YAML(), test.Hash())
		})
	}
}
