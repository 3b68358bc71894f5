package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

// explainUsage makes every command below c explain its arguments when they are wrong. A command with subcommands only
// shows its help and refuses unknown names; for those cobra would show the help and succeed.
func explainUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(flagError)
	for _, sub := range c.Commands() {
		explainUsage(sub)
	}
	if !c.Runnable() {
		c.Args = cobra.NoArgs
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		return errors.New(wrongArguments(cmd, args))
	}
}

func wrongArguments(cmd *cobra.Command, args []string) string {
	path := cmd.CommandPath()
	name := strings.TrimPrefix(path, cmd.Root().Name()+" ") // errors begin with the name of the program
	if cmd.HasAvailableSubCommands() {
		said := fmt.Sprintf("%s has no command %q", name, args[0])
		cmd.SuggestionsMinimumDistance = 2
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			said += fmt.Sprintf(" (did you mean %s?)", strings.Join(like, " or "))
		}
		return fmt.Sprintf("%s\n  %s --help lists them", said, path)
	}
	said := "no argument is given"
	switch {
	case !takesArguments(cmd):
		said = fmt.Sprintf("it takes no argument such as %q", args[0])
	case len(args) == 1:
		said = "one argument is given"
	case len(args) > 1:
		said = fmt.Sprintf("%d arguments are given", len(args))
	}
	return fmt.Sprintf("%s: %s\n  usage: %s\n  run %s --help for details", name, said, cmd.UseLine(), path)
}

// takesArguments reports whether the usage line of a command names any.
func takesArguments(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, " ") }

// flagError explains the values that a flag takes; Go's strconv errors are for programmers.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		return fmt.Errorf("--%s %q: want %s", flag.Name, invalid.GetValue(), wanted(flag.Value.Type()))
	}
	guess := ""
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		guess = flagMeant(cmd, missing.GetSpecifiedName())
	}
	return fmt.Errorf("%w%s\n  %s --help lists the flags", err, guess, cmd.CommandPath())
}

// flagMeant asks for the flag that a name which is none may mean: qpn is the number of a connection in all that is
// printed, and out is what other programs call output.
func flagMeant(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	for typed, meant := range map[string]string{"qpn": "connection", "output": "out", "out": "output"} {
		if typed == name && slices.Contains(names, meant) {
			return " (did you mean --" + meant + "?)"
		}
	}
	if guess := config.Closest(name, names); guess != "" {
		return " (did you mean --" + guess + "?)"
	}
	return ""
}

// wanted describes the values that a flag of a type takes.
func wanted(kind string) string {
	switch kind {
	case "uint", "uint64":
		return "a whole number from 0"
	case "int", "int64":
		return "a whole number"
	case "ints", "intSlice":
		return "whole numbers, such as 3,7"
	case "float64s", "float64Slice":
		return "numbers, such as 0.2,0.8"
	case "float64":
		return "a number"
	case "duration":
		return "a time with its unit, such as 90s or 1m30s"
	case "bool":
		return "true or false"
	}
	return kind
}

// renamed keeps the former name of a flag, which help no longer shows.
func renamed(fl *pflag.FlagSet, former, now string) {
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == former {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}

// writable fails if a file cannot be written. Commands that run for minutes check it before they start.
func writable(path string) error {
	_, err := os.Stat(path)
	file, opening := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if opening != nil {
		return opening
	}
	if opening = file.Close(); errors.Is(err, fs.ErrNotExist) {
		opening = errors.Join(opening, os.Remove(path))
	}
	return opening
}

// machineFailed reports whether the machine caused an error, rather than the user's input.
func machineFailed(err error) bool {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE,
		syscall.EPIPE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// interrupted reports whether err follows from a signal to stop. Failures of the lab after the signal count as its
// consequences.
func interrupted(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	var judged statusError
	lab := errors.As(err, &judged) && judged.status == orchestrator.ExitInfrastructure
	return lab || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}
