package main

import (
	_ "embed"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator/report"
)

// stamped is the version that make set by -ldflags -X (tools/version): it does not depend on GOFLAGS.
var stamped string

// archived is the commit of sources from git archive, which replaces the placeholder.
//
//go:embed commit.txt
var archived string

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

// toolVersion names the sources that the binary was built from.
func toolVersion() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(stamped, archived, info)
}

// versionOf returns the first of: the version of make, the toolchain's record of the repository or the released module,
// the commit of an archive.
func versionOf(stamp, archive string, info *debug.BuildInfo) string {
	if stamp != "" {
		return stamp
	}
	if info != nil {
		if v := recorded(info); v != "" {
			return v
		}
	}
	if commit := strings.TrimSpace(archive); !strings.HasPrefix(commit, "$") && commit != "" {
		return shortened(commit)
	}
	return "unknown"
}

// recorded returns the toolchain's record: the commit, or the version of a module from a proxy.
func recorded(info *debug.BuildInfo) string {
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	switch {
	case revision != "":
		return shortened(revision) + dirty
	case info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return ""
}

func shortened(commit string) string { return commit[:min(12, len(commit))] }

// toolName is the command that calls this binary: its path as it was called, or its name if that is on the PATH.
func toolName() string {
	if name := os.Args[0]; strings.ContainsRune(name, os.PathSeparator) && !strings.HasSuffix(name, ".test") {
		return report.ShellWord(name)
	}
	return "candela"
}
