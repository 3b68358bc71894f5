package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check, import and describe test files"}
	cmd.AddCommand(newConfigCheck(), newConfigImport(), newConfigSchema())
	return cmd
}

func newConfigCheck() *cobra.Command {
	var explain bool
	var testbed string
	cmd := &cobra.Command{
		Use:   "check FILE|DIR...",
		Short: "Check tests as candela run does, without running them",
		Example: `  candela config check configs
  candela config check --explain configs/quickstart.yml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := testFiles(args)
			if err != nil {
				return err
			}
			plans, unfit, err := loadPlans(files, runFlags{testbed: testbed}, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			for i := range plans {
				if err := checked(cmd.OutOrStdout(), &plans[i], explain); err != nil {
					return infrastructure(err)
				}
			}
			status := orchestrator.ExitPass
			for i := range unfit {
				status = worse(status, unfit[i].exit())
				if unfit[i].wrong {
					unfit[i].say(cmd.ErrOrStderr(), false)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: refused for this testbed\n  %s\n", unfit[i].file, unfit[i].brief())
			}
			if status != orchestrator.ExitPass {
				return statusError{status: status}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "print the message schedule and the packet of each event")
	cmd.Flags().StringVar(&testbed, "testbed", "",
		"testbed instead of the file's: virtual, netns, netns-afpacket, bmv2, vm, or the file of a description")
	return cmd
}

// checked prints that a test is correct or, with explain, its schedule and events. Every point of a sweep is explained.
func checked(w io.Writer, p *planned, explain bool) error {
	if explain {
		if p.ofSwitch != nil {
			return p.ofSwitch.Explain(w)
		}
		return p.Explain(w)
	}
	_, point := p.named()
	switch {
	case point == nil:
		_, err := fmt.Fprintf(w, "%s: ok\n", p.file)
		return err
	case point.Index == 1:
		_, err := fmt.Fprintf(w, "%s: ok, %d points\n", p.file, point.Of)
		return err
	}
	return nil
}

func newConfigImport() *cobra.Command {
	return &cobra.Command{
		Use:     "import FILE",
		Short:   "Convert a test of Lumina's prototype, to stdout",
		Example: `  candela config import lumina.yml > mine.yml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			ours, err := config.Import(args[0], data, configOptions(""))
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(ours); err != nil {
				return infrastructure(err)
			}
			return nil
		},
	}
}

func newConfigSchema() *cobra.Command {
	var testbed, reference, ofSwitch, ofNight bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of test files, for editors",
		Example: `  candela config schema > candela.schema.json
  candela config schema --switch > candela-switch.schema.json
  candela config schema --reference`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			document := config.JSONSchema
			switch {
			case ofNight && (ofSwitch || testbed || reference):
				return fmt.Errorf("--nightly excludes the other flags: the reference covers plans, too")
			case ofNight:
				document = config.NightlyJSONSchema
			case ofSwitch && testbed:
				return fmt.Errorf("--switch and --testbed exclude each other")
			case ofSwitch:
				document = switchDocument(reference)
			case testbed && reference:
				return fmt.Errorf("--testbed and --reference exclude each other: the reference covers both")
			case testbed:
				document = config.TestbedJSONSchema
			case reference:
				document = config.Reference
			}
			if _, err := cmd.OutOrStdout().Write(document()); err != nil {
				return infrastructure(err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&testbed, "testbed", false, "print the schema of testbed descriptions instead")
	cmd.Flags().BoolVar(&ofSwitch, "switch", false,
		"print the schema, or with --reference the reference, of switch tests instead")
	cmd.Flags().BoolVar(&ofNight, "nightly", false, "print the schema of plans of candela nightly instead")
	cmd.Flags().BoolVar(&reference, "reference", false, "print a reference in Markdown instead")
	return cmd
}
