package main

import (
	"errors"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// scratch runs tests one after the other on one virtual switch and keeps only their outcomes.
type scratch struct {
	*orchestrator.Scratch
	rack virtual.Rack
}

func newScratch() *scratch {
	s := &scratch{}
	s.Scratch = orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed,
		error) {
		return s.rack.Build(spec)
	})
	return s
}

// Close ends the session, then the switch.
func (s *scratch) Close() error {
	s.Scratch.Close()
	return s.rack.Close()
}

// closeAll closes several.
func closeAll(list []*scratch) error {
	var errs []error
	for _, s := range list {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
