package main

import (
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// loadWaivers reads a file of waivers as of today; nil without a file.
func loadWaivers(file string) (*orchestrator.Waivers, error) {
	if file == "" {
		return nil, nil
	}
	known := orchestrator.Models().Rules
	for _, r := range switchtest.Rules() {
		known = append(known, r.ID)
	}
	list, err := config.LoadWaivers(file, known)
	if err != nil {
		return nil, err
	}
	return orchestrator.NewWaivers(list, time.Now()), nil
}

// warnOfWaivers prints which waivers expired or matched nothing.
func warnOfWaivers(cmd *cobra.Command, w *orchestrator.Waivers) {
	for _, text := range w.Warnings() {
		printProblem(cmd.ErrOrStderr(), "warning: "+text)
	}
}
