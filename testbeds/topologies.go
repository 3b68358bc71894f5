package testbeds

import (
	"embed"
	"path"
	"strings"
)

// topologies are the built-in networks for switch tests.
//
//go:embed switches/*.yml
var topologies embed.FS

// Topology returns the built-in description of a network for switch tests.
func Topology(name string) (data []byte, ok bool) {
	if name != path.Base(name) {
		return nil, false
	}
	data, err := topologies.ReadFile("switches/" + name + ".yml")
	return data, err == nil
}

// TopologyNames lists the built-in networks, sorted.
func TopologyNames() []string {
	entries, err := topologies.ReadDir("switches")
	if err != nil {
		return nil // embedded: always present
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yml"))
	}
	return names
}
