package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace"
)

// Places of --tap.
const (
	tapRequester = "requester"
	tapResponder = "responder"
	tapBefore    = "before"
	tapAfter     = "after"
)

// chooseTaps fills in which captures to analyse and where they were taken.
func chooseTaps(ctx context.Context, o *orchestrator.AnalyzeOptions, args []string, after string, taps []string) error {
	if len(taps) > 0 {
		if len(args) > 0 || after != "" {
			return fmt.Errorf("--tap names every capture: leave out %s", strings.Join(append(args, nonEmpty("--after", after)...), " "))
		}
		return placedTaps(o, taps)
	}
	if len(args) == 0 {
		return fmt.Errorf("no run directory and no capture named")
	}
	o.Trace, o.More, o.Second, o.Ordered = args[0], args[1:], after, after != ""
	if len(args) == 1 {
		return nil
	}
	one, err := orchestrator.OneCapture(ctx, args)
	switch {
	case err != nil:
		return err
	case one:
		return nil
	case len(args) == 2 && after == "":
		o.More, o.Second = nil, args[1]
		return nil
	}
	return fmt.Errorf("%s are not the files of one capture: they overlap in time or repeat packets; name at most two captures, each with its files: --tap PLACE=FILE,FILE",
		strings.Join(args, ", "))
}

func nonEmpty(flag, value string) []string {
	if value == "" {
		return nil
	}
	return []string{flag + " " + value}
}

// placedTaps reads --tap flags.
func placedTaps(o *orchestrator.AnalyzeOptions, taps []string) error {
	files := map[string]string{}
	for _, t := range taps {
		place, file, ok := strings.Cut(t, "=")
		switch {
		case !ok || file == "":
			return fmt.Errorf("--tap %q: want PLACE=FILE", t)
		case place != tapRequester && place != tapResponder && place != tapBefore && place != tapAfter:
			return fmt.Errorf("--tap %q: unknown place %q (%s, %s, %s, %s)", t, place, tapRequester, tapResponder, tapBefore, tapAfter)
		case files[place] != "":
			return fmt.Errorf("--tap %q: %s was named before, as %s", t, place, files[place])
		}
		files[place] = file
	}
	for _, pair := range []struct {
		first, second string
		placement     trace.Placement
	}{
		{tapRequester, tapResponder, trace.PlacementHosts},
		{tapBefore, tapAfter, trace.PlacementBracket},
	} {
		if files[pair.first] != "" && files[pair.second] != "" && len(files) == 2 {
			o.Trace, o.More = tapFiles(files[pair.first])
			o.Second, o.SecondMore = tapFiles(files[pair.second])
			o.Placement = pair.placement
			return nil
		}
	}
	if len(files) == 1 {
		for _, file := range files {
			o.Trace, o.More = tapFiles(file)
		}
		return nil
	}
	return fmt.Errorf("--tap: name one place, or two that belong together: %s and %s, or %s and %s",
		tapRequester, tapResponder, tapBefore, tapAfter)
}

// tapFiles splits the files of a --tap, unless a file has that very name.
func tapFiles(list string) (first string, more []string) {
	if _, err := os.Stat(list); err == nil {
		return list, nil
	}
	files := strings.Split(list, ",")
	return files[0], files[1:]
}
