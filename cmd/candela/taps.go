package main

import (
	"fmt"
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
func chooseTaps(o *orchestrator.AnalyzeOptions, args []string, after string, taps []string) error {
	if len(taps) > 0 {
		if len(args) > 0 || after != "" {
			return fmt.Errorf("--tap names every capture: leave out %s", strings.Join(append(args, nonEmpty("--after", after)...), " "))
		}
		return placedTaps(o, taps)
	}
	switch {
	case len(args) == 0:
		return fmt.Errorf("no run directory and no capture named")
	case len(args) == 2 && after != "":
		return fmt.Errorf("three captures (%s, %s, --after %s): name at most two", args[0], args[1], after)
	case len(args) == 2:
		o.Trace, o.Second = args[0], args[1]
	default:
		o.Trace, o.Second, o.Ordered = args[0], after, after != ""
	}
	return nil
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
			o.Trace, o.Second, o.Placement = files[pair.first], files[pair.second], pair.placement
			return nil
		}
	}
	if len(files) == 1 {
		for _, file := range files {
			o.Trace = file
		}
		return nil
	}
	return fmt.Errorf("--tap: name one place, or two that belong together: %s and %s, or %s and %s",
		tapRequester, tapResponder, tapBefore, tapAfter)
}
