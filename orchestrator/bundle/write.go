package bundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"time"

	"candela.dev/candela/orchestrator"
)

// Write packs a run into w. The run must be complete; an abandoned run cannot be reproduced.
func Write(w io.Writer, run *orchestrator.OpenedRun, withTrace bool) (*Manifest, error) {
	if !run.Document.Complete {
		return nil, fmt.Errorf("%s was not completed (%v): there is nothing to reproduce", run.Dir(), run.Document.Reasons)
	}
	m, err := describe(run, withTrace)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", run.Dir(), err)
	}
	head, err := m.encode()
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", run.Dir(), err)
	}
	archive := tar.NewWriter(w)
	if err := archive.WriteHeader(header(manifestName, int64(len(head)))); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", run.Dir(), err)
	}
	if _, err := archive.Write(head); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", run.Dir(), err)
	}
	for _, f := range m.Files {
		if !f.Stored {
			continue
		}
		if err := store(archive, run, f); err != nil {
			return nil, fmt.Errorf("bundle %s: %s: %w", run.Dir(), f.Name, err)
		}
	}
	return m, archive.Close()
}

// header gives every member the same owner, mode and date, so that the archive depends only on the run.
func header(name string, size int64) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0).UTC(),
		Format: tar.FormatUSTAR}
	if size > 8<<30-1 {
		h.Format = tar.FormatPAX // USTAR has eleven octal digits for a size
	}
	return h
}

func store(archive *tar.Writer, run *orchestrator.OpenedRun, f File) error {
	file, err := openMember(run, f.Name)
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(header(f.Name, f.Size)); err != nil {
		return errors.Join(err, file.Close())
	}
	n, err := io.Copy(archive, io.LimitReader(file, f.Size))
	if err == nil && n != f.Size {
		err = fmt.Errorf("was %d bytes long and has now %d: it is being changed", f.Size, n)
	}
	return errors.Join(err, file.Close())
}
