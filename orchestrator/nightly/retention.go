package nightly

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/history"
)

// retain removes the captures of passing runs beyond those that the plan keeps for a week, and compresses the others.
// It looks only at runs in the journal of this night that are in its directory, and only at captures.
func (n *night) retain() error {
	kept, err := n.keptThisWeek()
	if err != nil {
		return err
	}
	var failed []error
	for _, c := range n.states {
		for _, a := range c.list {
			if !n.ours(a) {
				continue
			}
			remove := false
			if a.Verdict == history.Pass {
				kept[c.key]++
				remove = kept[c.key] > n.Plan.Retention.PassingPerWeek
			}
			if err := thin(a.Dir, remove, n.Plan.Retention.Compress); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// keptThisWeek counts the passing runs of earlier nights of the week whose captures are there, by case. A run counts
// for the same case only.
func (n *night) keptThisWeek() (map[string]int, error) {
	year, week := weekOf(n.date)
	kept := make(map[string]int)
	nights, err := nightDirs(filepath.Dir(n.dir))
	if err != nil {
		return nil, err
	}
	for _, h := range nights {
		if y, w := weekOf(h.Night); h.dir == n.dir || y != year || w != week || h.Began.After(n.began) {
			continue
		}
		attempts, err := readJournal(h.dir)
		if err != nil {
			return nil, err
		}
		for _, a := range attempts {
			if a.Verdict != history.Pass || a.Dir == "" {
				continue
			}
			if files, err := captures(a.Dir); err == nil && len(files) > 0 {
				kept[a.Case]++
			}
		}
	}
	return kept, nil
}

func weekOf(n history.Night) (year, week int) {
	return time.Unix(int64(n)*int64(24*time.Hour/time.Second), 0).UTC().ISOWeek()
}

// ours reports whether this night made the run of an attempt: its directory is in that of the night, is not a link, and
// is of that run.
func (n *night) ours(a *Attempt) bool {
	rel, err := filepath.Rel(n.dir, a.Dir)
	if a.Dir == "" || err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return false
	}
	for dir := a.Dir; len(dir) > len(n.dir); dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	run, err := orchestrator.OpenRun(a.Dir)
	if err != nil {
		return false
	}
	same := run.Document.RunID == a.Run
	return run.Close() == nil && same
}

// captures lists the captures of a run that are regular files.
func captures(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".pcap" {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func thin(dir string, remove, compress bool) error {
	files, err := captures(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		switch {
		case remove:
			err = os.Remove(f)
		case compress:
			err = Compress(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Compress replaces a file by its content compressed with zstd, under the same name: readers of captures recognise it.
// A file that is compressed, or would not shrink, stays. The file is whole at every instant.
func Compress(name string) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	var magic [4]byte
	if n, err := io.ReadFull(in, magic[:]); err != nil || n < len(magic) || string(magic[:]) == "\x28\xb5\x2f\xfd" {
		return nil // too short, or done
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	partial := name + ".zst.partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = io.Copy(z, in)
		err = errors.Join(err, z.Close(), out.Sync())
	}
	smaller := false
	if after, e := out.Stat(); err == nil {
		err, smaller = e, e == nil && after.Size() < info.Size()
	}
	if err = errors.Join(err, out.Close()); err != nil || !smaller {
		return errors.Join(err, os.Remove(partial))
	}
	// The time of the capture, not that of its compression.
	if err := os.Chtimes(partial, info.ModTime(), info.ModTime()); err != nil {
		return fmt.Errorf("compress: %w", errors.Join(err, os.Remove(partial)))
	}
	return os.Rename(partial, name)
}
