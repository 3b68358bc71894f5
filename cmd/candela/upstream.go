package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/upstream"
	"candela.dev/candela/trace"
)

// upstreamFlags are the options of candela report --upstream.
type upstreamFlags struct {
	finding, subject, packets, test, source, priorArt string
}

func (f *upstreamFlags) flags(fl *pflag.FlagSet) {
	fl.StringVar(&f.finding, "upstream", "",
		"finding to report to the maintainers of the device: a rule, or its number in\n"+
			"the report")
	fl.StringVar(&f.subject, "subject", "", "with --upstream: subject (default what happened)")
	fl.StringVar(&f.packets, "packets", "", "with --upstream: FIRST-LAST, the packets that prove it (default the\n"+
		"finding's, what they refer to, and neighbours)")
	fl.StringVar(&f.test, "test", "", "with --upstream: smaller test to quote, as candela minimize writes it")
	fl.StringVar(&f.source, "source", "", "with --upstream: file with text on where in the sources it comes from")
	fl.StringVar(&f.priorArt, "prior-art", "", "with --upstream: file with text on earlier reports")
}

// check refuses options that only --upstream has.
func (f *upstreamFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"subject", "packets", "test", "source", "prior-art"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s: only --upstream FINDING has it", name)
		}
	}
	return nil
}

func (f *upstreamFlags) write(cmd *cobra.Command, args []string, out string) error {
	if len(args) != 1 {
		return errors.New("--upstream: want one run directory or bundle")
	}
	if cmd.Flags().Changed("title") {
		return errors.New("--title: a site has it; --upstream takes --subject")
	}
	doc, err := f.document(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	if out != "" {
		if err := writeUpstream(out, doc); err != nil {
			return infrastructure(err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "files   %s\n", out)
	}
	if f.priorArt == "" {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"Before you send it, search the archives of the list; --prior-art FILE adds what you find.")
	}
	_, err = cmd.OutOrStdout().Write(doc.Text)
	return err
}

func writeUpstream(dir string, doc *upstream.Document) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{upstream.TextFile, doc.Text}, {upstream.PacketsFile, doc.Packets}, {upstream.TestFile, doc.Test},
		{upstream.ProgramFile, doc.Program},
	} {
		if file.data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file.name), file.data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// document judges a run directory or a bundle and writes a finding of it.
func (f *upstreamFlags) document(ctx context.Context, path string) (doc *upstream.Document, err error) {
	o := upstream.Options{Finding: f.finding, Subject: f.subject}
	if o.First, o.Last, err = parsePackets(f.packets); err != nil {
		return nil, err
	}
	for _, file := range []struct {
		flag, name string
		text       *string
	}{{"source", f.source, &o.Source}, {"prior-art", f.priorArt, &o.PriorArt}} {
		if file.name == "" {
			continue
		}
		data, err := os.ReadFile(file.name)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", file.flag, err)
		}
		*file.text = string(data)
	}
	if f.test != "" {
		if o.Test, err = os.ReadFile(f.test); err != nil {
			return nil, fmt.Errorf("--test: %w", err)
		}
		if _, err := config.Load(f.test, configOptions("")); err != nil {
			return nil, fmt.Errorf("--test: %w", err)
		}
	}
	options, release, err := unpackArchive(ctx, orchestrator.AnalyzeOptions{Trace: path, Workers: 1,
		Version: toolVersion(), Command: toolName(), Config: configOptions("")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if info, err := os.Stat(options.Trace); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: want a run directory or a bundle: a capture does not record its environment", path)
	}
	run, err := openUpstream(ctx, options)
	if err != nil {
		return nil, err
	}
	if o.Test == nil {
		o.Test = reduction.Terse(run.Test.WithTestbedFile(run.Test.Testbed.Name), configOptions(""))
	}
	doc, err = upstream.Write(ctx, run, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// parsePackets reads FIRST-LAST; empty: 0, 0.
func parsePackets(text string) (first, last uint64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	from, to, _ := strings.Cut(text, "-")
	first, err = strconv.ParseUint(from, 10, 64)
	if err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || first == 0 || last < first {
		return 0, 0, fmt.Errorf("--packets %s: want FIRST-LAST, as 3-11", text)
	}
	return first, last, nil
}

// openUpstream judges the run of a directory and reads its documents.
func openUpstream(ctx context.Context, o orchestrator.AnalyzeOptions) (run *upstream.Run, err error) {
	root, err := os.OpenRoot(o.Trace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if _, err := root.Stat("flows.json"); err == nil {
		return nil, fmt.Errorf("%s: the run is a test of a switch; --upstream reports findings about NICs", o.Trace)
	}
	outcome, err := orchestrator.Analyze(ctx, o)
	if err != nil {
		return nil, inputOrInfrastructure(err)
	}
	run = &upstream.Run{Report: outcome.Report}
	read := func(name string) ([]byte, error) { return readBounded(root, name) }
	if run.Test, err = orchestrator.ParseRecorded("config.yml", read, o.Config); err != nil {
		return nil, err
	}
	for _, document := range []struct {
		name string
		to   any
	}{{"environment.json", &run.Environment}, {"counters.json", &run.Counters}} {
		data, err := read(document.name)
		if err == nil {
			err = json.Unmarshal(data, document.to)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", document.name, err)
		}
	}
	known, err := root.Open("connections.json")
	if err != nil {
		return nil, err
	}
	connections, err := trace.ReadConnections(known)
	if err = errors.Join(err, known.Close()); err != nil {
		return nil, err
	}
	run.Trace = trace.FileSource(filepath.Join(o.Trace, "trace.pcap"))
	run.Checked, run.Integrity, err = trace.Check(ctx, run.Trace,
		trace.Options{Format: trace.FormatMirror, Connections: connections})
	if err != nil {
		return nil, err
	}
	recorded, err := read("integrity.json")
	if err == nil { // the run had the counters of the switch to compare with
		err = json.Unmarshal(recorded, run.Integrity)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return run, err
}

// mostOfDocument bounds a document of a run directory, which is untrusted, in bytes.
const mostOfDocument = 64 << 20

func readBounded(root *os.Root, name string) (data []byte, err error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, mostOfDocument+1))
	if err == nil && len(data) > mostOfDocument {
		err = fmt.Errorf("%s is larger than %d bytes", name, mostOfDocument)
	}
	return data, err
}
