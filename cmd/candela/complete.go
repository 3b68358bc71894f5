package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds"
)

// completer lists what a shell may insert at the cursor.
type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completeValues makes every command below c complete its arguments and the values of its flags. A flag of one name
// means the same in all commands.
func completeValues(c *cobra.Command) {
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = completeArgs
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if complete := flagCompleter(c, f.Name); complete != nil {
			// It fails only for an unknown flag, or one that has a function already.
			_ = c.RegisterFlagCompletionFunc(f.Name, complete)
		}
	})
}

// flagCompleter returns the completer of a flag, nil for numbers, free text and files.
func flagCompleter(c *cobra.Command, flag string) completer {
	switch flag {
	case "testbed":
		return testbedNames
	case "profile", "peer":
		return words(profileNames)
	case "profiles":
		return listOf(profileNames)
	case "bugs":
		return listOf(func() []string { return configOptions("").Bugs })
	case "rule":
		return words(func() []string { return configOptions("").Rules })
	case "set":
		return words(func() []string { return modelNames(c.Name()) }, cobra.ShellCompDirectiveNoSpace)
	case "tap":
		return words(fixed("requester=", "responder=", "before=", "after="), cobra.ShellCompDirectiveNoSpace)
	case "format":
		return words(fixed("text", "json"))
	case "input":
		return words(fixed("auto", "mirror", "plain", "lumina"))
	case "role":
		return words(fixed("requester", "responder"))
	case "datapath":
		return words(fixed("xdp", "afpacket", "qemu", "bmv2"))
	case "ports", "mirror", "interface":
		return listOf(interfaceNames)
	case "after", "connections", "junit", "waivers", "ca", "cert", "key", "crl", "database-config":
		return nil // files: the shell completes them
	case "out", "configs", "corpus", "dir":
		if c.Flags().ShorthandLookup("o") != nil {
			return nil // a file
		}
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
	return nil
}

// completeArgs completes arguments by their words in the usage line.
func completeArgs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	_, takes, _ := strings.Cut(cmd.Use, " ")
	switch {
	case strings.HasPrefix(takes, "FILE|DIR"), takes == "CONFIG":
		return []string{"yml", "yaml"}, cobra.ShellCompDirectiveFilterFileExt
	case takes == "TESTBED":
		return testbedNames(cmd, args, typed)
	case strings.HasPrefix(takes, "RESULT"), strings.HasPrefix(takes, "[RESULT]"):
		return beginning(reproductions()[cmd.Name()].IDs(), typed), cobra.ShellCompDirectiveNoFileComp
	case takes == "":
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault // runs and captures are files
}

func fixed(list ...string) func() []string { return func() []string { return list } }

// words completes one of a list of words.
func words(list func() []string, more ...cobra.ShellCompDirective) completer {
	directive := cobra.ShellCompDirectiveNoFileComp
	for _, m := range more {
		directive |= m
	}
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return beginning(list(), typed), directive
	}
}

// listOf completes words that commas separate; a word is offered once.
func listOf(list func() []string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before, last := "", typed
		if i := strings.LastIndexByte(typed, ','); i >= 0 {
			before, last = typed[:i+1], typed[i+1:]
		}
		given := strings.Split(before, ",")
		var found []string
		for _, w := range beginning(list(), last) {
			if !slices.Contains(given, w) {
				found = append(found, before+w)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// beginning returns the words with the prefix typed, sorted.
func beginning(list []string, typed string) []string {
	found := slices.DeleteFunc(slices.Clone(list), func(w string) bool { return !strings.HasPrefix(w, typed) })
	slices.Sort(found)
	return slices.Compact(found)
}

func profileNames() []string {
	var names []string
	for _, p := range configOptions("").Profiles {
		names = append(names, p.Name)
	}
	return names
}

// modelNames lists the parameters for --set of a reproduction.
func modelNames(paper string) []string {
	var names []string
	if paper == "lumina" {
		for _, p := range append(rdma.Profiles(), rdma.Variants()...) {
			names = append(names, p.Name+".")
		}
		return names
	}
	for _, m := range configOptions("").Switches {
		for _, p := range m.Parameters.Names() {
			names = append(names, m.Name+"."+p+"=")
		}
	}
	return names
}

// testbedNames completes built-in testbeds and descriptions in files.
func testbedNames(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	names := append([]string{config.VirtualTestbed, config.NetnsTestbed, config.NetnsAFPacketTestbed, config.BMv2Testbed,
		config.VMTestbed}, testbeds.TopologyNames()...)
	files, err := filepath.Glob(typed + "*")
	if err != nil {
		files = nil // typed is not a valid pattern
	}
	for _, f := range files {
		switch info, err := os.Stat(f); {
		case err != nil:
		case info.IsDir():
			names = append(names, f+"/")
		case strings.HasSuffix(f, ".yml"):
			names = append(names, f)
		}
	}
	found := beginning(names, typed)
	if len(found) == 1 && strings.HasSuffix(found[0], "/") {
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// interfaceNames lists the network interfaces of this machine.
func interfaceNames() []string {
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		return nil // another system
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wordsOfLine is what the script of cobra needs of the package bash-completion, for shells without it: the words as
// bash itself divides the line.
const wordsOfLine = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref() {
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    }
fi

`

// completeWithoutPackage makes the script for bash work in a shell that has not loaded bash-completion.
func completeWithoutPackage(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.RunE == nil {
		return
	}
	bash.Long = `Print the autocompletion script for bash. It needs no other package.

To load completions in the current shell session:

	source <(candela completion bash)

To load them in every new session, as root:

	candela completion bash > /etc/bash_completion.d/candela`
	write := bash.RunE
	bash.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := io.WriteString(cmd.OutOrStdout(), wordsOfLine); err != nil {
			return err
		}
		return write(cmd, args)
	}
}
