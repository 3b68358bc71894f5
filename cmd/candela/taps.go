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

// chooseTaps sets the captures to analyse and their places.
func chooseTaps(ctx context.Context, o *orchestrator.AnalyzeOptions, args []string, after string, taps []string) error {
	if len(taps) > 0 {
		if len(args) > 0 || after != "" {
			return fmt.Errorf("--tap names every capture: leave out %s",
				strings.Join(append(args, nonEmpty("--after", after)...), " "))
		}
		return placedTaps(o, taps)
	}
	if len(args) == 0 {
		return fmt.Errorf("name a run directory, a bundle or a capture")
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
	return fmt.Errorf("%s are not the files of one capture: they overlap in time or share packets; name each capture "+
		"with its files: --tap NAME=FILE,FILE",
		strings.Join(args, ", "))
}

func nonEmpty(flag, value string) []string {
	if value == "" {
		return nil
	}
	return []string{flag + " " + value}
}

// placedTaps reads --tap flags.
func placedTaps(o *orchestrator.AnalyzeOptions, flags []string) error {
	var taps []orchestrator.Tap
	index := map[string]int{}
	stdin := 0
	for _, t := range flags {
		name, file, ok := strings.Cut(t, "=")
		if !ok || file == "" || name == "" {
			return fmt.Errorf("--tap %q: want PLACE=FILE or NAME=FILE", t)
		}
		if i, named := index[name]; named {
			return fmt.Errorf("--tap %q: %s was named before, as %s", t, name, strings.Join(taps[i].Files, ","))
		}
		index[name] = len(taps)
		first, more := tapFiles(file)
		taps = append(taps, orchestrator.Tap{Name: name, Files: append([]string{first}, more...)})
		if first == orchestrator.StandardInput {
			stdin++
		}
	}
	if stdin > 1 {
		return fmt.Errorf("--tap: standard input (-) can be one capture only")
	}
	if len(taps) == 1 {
		return loneTap(o, &taps[0])
	}
	for _, pair := range []struct {
		first, second string
		placement     trace.Placement
	}{
		{tapRequester, tapResponder, trace.PlacementHosts},
		{tapBefore, tapAfter, trace.PlacementBracket},
	} {
		i, first := index[pair.first]
		j, second := index[pair.second]
		if first && second {
			o.Placement = pair.placement
			o.OnlyTaps(taps, i, j, "their places are given and enclose the path between the hosts")
			return nil
		}
	}
	o.Notes = append(o.Notes,
		"the names of the captures are not places: the upstream capture is inferred from the packets")
	if len(taps) > 2 {
		o.Taps = taps
		return nil
	}
	o.OnlyTaps(taps, 0, 1, "")
	return nil
}

// loneTap reads the --tap flag of a single capture.
func loneTap(o *orchestrator.AnalyzeOptions, t *orchestrator.Tap) error {
	places := map[string]trace.Place{
		tapRequester: trace.PlaceRequester, tapResponder: trace.PlaceResponder, tapBefore: trace.PlaceBefore,
		tapAfter: trace.PlaceAfter,
	}
	place, ok := places[t.Name]
	if !ok {
		return fmt.Errorf("--tap %s: name the place of a single capture: %s, %s, %s or %s", t.Name, tapRequester,
			tapResponder, tapBefore, tapAfter)
	}
	o.Trace, o.More, o.Place = t.Files[0], t.Files[1:], place
	return nil
}

// tapFiles splits the list of files of a --tap, unless the list is the name of one file.
func tapFiles(list string) (first string, more []string) {
	if _, err := os.Stat(list); err == nil {
		return list, nil
	}
	files := strings.Split(list, ",")
	return files[0], files[1:]
}
