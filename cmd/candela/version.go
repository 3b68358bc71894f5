package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "candela %s %s %s/%s\n", toolVersion(), runtime.Version(), runtime.GOOS,
				runtime.GOARCH)
			return err
		},
	}
}

// toolVersion names the commit that the binary was built from, as far as the Go toolchain recorded it.
func toolVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if revision == "" {
		return info.Main.Version
	}
	return revision[:min(12, len(revision))] + dirty
}

// toolName is what to type to call this binary again: its path as it was called, or its bare name if that is on the
// PATH.
func toolName() string {
	if name := os.Args[0]; strings.ContainsRune(name, os.PathSeparator) && !strings.HasSuffix(name, ".test") {
		return name
	}
	return "candela"
}
