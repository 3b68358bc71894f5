package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"candela.dev/candela/trace"
)

// StandardInput is the path that means standard input.
const StandardInput = "-"

// OpenCaptures returns the capture in the files at paths: one file, the files of a ring buffer, or "-" for in. A trace
// is read more than once, so standard input is copied to a temporary file, which release removes.
func OpenCaptures(ctx context.Context, paths []string, in io.Reader) (src trace.Source, release func() error,
	err error) {
	release = func() error { return nil }
	if len(paths) == 1 && paths[0] == StandardInput {
		return spool(ctx, in)
	}
	parts := make([]trace.Source, 0, len(paths))
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case p == StandardInput:
			return src, release, inputError{errors.New("- is standard input and cannot be one of several files")}
		case err != nil:
			return src, release, inputError{err}
		case info.IsDir() && len(paths) > 1:
			return src, release, inputError{fmt.Errorf("%s is a directory; several arguments are the files of one capture", p)}
		}
		parts = append(parts, trace.FileSource(p))
	}
	if len(parts) == 1 {
		return parts[0], release, nil
	}
	src, err = trace.Join(parts...)
	if err != nil {
		err = traceError(err)
	}
	return src, release, err
}

// OneCapture reports whether several files are parts of one capture.
func OneCapture(ctx context.Context, paths []string) (bool, error) {
	parts := make([]trace.Source, 0, len(paths))
	for _, p := range paths {
		if info, err := os.Stat(p); p == StandardInput || err != nil || info.IsDir() {
			return true, nil // OpenCaptures returns the error
		}
		parts = append(parts, trace.FileSource(p))
	}
	one, err := trace.Continuous(ctx, parts)
	if err != nil {
		err = traceError(err)
	}
	return one, err
}

func spool(ctx context.Context, in io.Reader) (src trace.Source, release func() error, err error) {
	file, err := os.CreateTemp("", "candela-stdin-*")
	if err != nil {
		return src, func() error { return nil }, err
	}
	release = func() error { return os.Remove(file.Name()) }
	_, err = io.Copy(file, contextReader{ctx, in})
	if err = errors.Join(err, file.Close()); err != nil {
		return src, func() error { return nil }, errors.Join(fmt.Errorf("copy standard input: %w", err), release())
	}
	src = trace.FileSource(file.Name())
	src.Name = "standard input"
	return src, release, nil
}

// contextReader stops reading when ctx ends.
type contextReader struct {
	ctx context.Context
	in  io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.in.Read(b)
}
