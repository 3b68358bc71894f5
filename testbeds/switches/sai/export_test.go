package sai

import (
	"maps"
	"slices"
)

// Conditions lists what limits bugs.
func Conditions() []string { return slices.Sorted(maps.Keys(conditions())) }
