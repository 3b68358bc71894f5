package sai

import (
	"maps"
	"slices"
)

// Conditions lists the conditions that limit bugs.
func Conditions() []string { return slices.Sorted(maps.Keys(conditions())) }
