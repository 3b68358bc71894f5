package exploration

import (
	"embed"
	"fmt"
	"path"

	"candela.dev/candela/orchestrator/config"
)

// startFiles are tests that lead to states that few random changes lead to together; each says which transitions it is
// there for. Their instants are those of the profile spec on the default testbed. Together they take all that is
// reachable, which a test asserts.
//
//go:embed starts/*.yml
var startFiles embed.FS

// starts returns the first tests: the base, and the base with the traffic of each start.
func starts(base *config.Test) ([]*config.Test, error) {
	files, err := startFiles.ReadDir("starts")
	if err != nil {
		return nil, fmt.Errorf("list the starts: %w", err)
	}
	list := []*config.Test{base}
	for _, f := range files {
		data, err := startFiles.ReadFile(path.Join("starts", f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a start: %w", err)
		}
		start, err := config.Parse(f.Name(), data, config.Options{})
		if err != nil {
			return nil, fmt.Errorf("parse a start: %w", err)
		}
		t := *base
		t.Traffic = start.Traffic
		repair(&t)
		list = append(list, &t)
	}
	return list, nil
}
