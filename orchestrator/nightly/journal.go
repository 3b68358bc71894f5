package nightly

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
)

// Files of a night.
const (
	journalFile   = "journal.jsonl"
	journalSchema = "candela.journal/v1"
	summaryFile   = "summary.json"
	lockFile      = "lock"
)

// header is the first line of a journal.
type header struct {
	Schema  string        `json:"schema"`
	Plan    string        `json:"plan"`
	Night   history.Night `json:"night"`
	Began   time.Time     `json:"began"`
	Version string        `json:"tool_version"`

	dir string
}

// journal is what a night has done: a header, and a line for each attempt, on the disk before the next one starts.
type journal struct{ file *os.File }

// openJournal opens a journal, a new one if there is none, and reads its attempts. A last line that a kill cut short
// is removed.
func openJournal(name string, h header) (_ *journal, attempts []*Attempt, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if err := f.Truncate(int64(whole)); err != nil {
		return nil, nil, err
	}
	if _, err := f.Seek(int64(whole), 0); err != nil {
		return nil, nil, err
	}
	j := &journal{f}
	if whole == 0 {
		return j, nil, j.write(h)
	}
	for i, line := range bytes.Split(bytes.TrimSuffix(data[:whole], []byte("\n")), []byte("\n")) {
		if i == 0 {
			continue
		}
		a := new(Attempt)
		if err := json.Unmarshal(line, a); err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		attempts = append(attempts, a)
	}
	return j, attempts, nil
}

func (j *journal) add(a *Attempt) error { return j.write(a) }

func (j *journal) write(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	return errors.Join(err, j.file.Sync())
}

func (j *journal) close() error { return j.file.Close() }

// readHeader reads the first line of the journal in a directory of a night.
func readHeader(dir string) (*header, error) {
	data, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	line, _, whole := bytes.Cut(data, []byte("\n"))
	h := &header{dir: dir}
	if err := json.Unmarshal(line, h); err != nil || !whole || h.Schema != journalSchema {
		return nil, fmt.Errorf("%s: this is not a journal of a night", filepath.Join(dir, journalFile))
	}
	return h, nil
}

// nightDirs lists the directories of nights in out that have a journal, in the order of their dates.
func nightDirs(out string) (list []*header, err error) {
	entries, err := os.ReadDir(out)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if h, err := readHeader(filepath.Join(out, e.Name())); err == nil {
			list = append(list, h)
		}
	}
	slices.SortStableFunc(list, func(a, b *header) int { return a.Began.Compare(b.Began) })
	return list, nil
}

// resumable is how long after its start an unfinished night is gone on with. Later a new night is due.
const resumable = 24 * time.Hour

// unfinished returns the latest night, if it has no summary and is to be gone on with.
func unfinished(out string, now time.Time, date *history.Night) *header {
	list, err := nightDirs(out)
	if err != nil || len(list) == 0 {
		return nil
	}
	last := list[len(list)-1]
	_, err = os.Lstat(filepath.Join(last.dir, summaryFile))
	another := date != nil && *date != last.Night || date == nil && now.Sub(last.Began) >= resumable
	if another || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return last
}

// newDir makes the directory of a night; of a second night on one date with a number.
func newDir(out, date string) (string, error) {
	const most = 1000
	for i := 1; i <= most; i++ {
		name := filepath.Join(out, date)
		if i > 1 {
			name += fmt.Sprintf("-%d", i)
		}
		err := os.Mkdir(name, 0o777)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return "", fmt.Errorf("%s has %d directories of %s", out, most, date)
}

// BusyError says that the plan is being run.
type BusyError struct{ Plan, Holder string }

// Error names who runs it.
func (e *BusyError) Error() string {
	return fmt.Sprintf("the plan %s is being run: %s; wait until it ends, or stop it", e.Plan, e.Holder)
}

// lock makes this process the only one that runs a plan. The system frees the lock however the process ends. Both the
// file of the plan and its directory are locked: two plans of one name share a directory, and one plan may be copied.
func lock(p *config.NightPlan, out string, now time.Time) (unlock func(), err error) {
	var held []*os.File
	unlock = func() {
		for _, f := range held {
			_ = f.Close()
		}
	}
	name := filepath.Join(out, lockFile)
	for _, path := range []string{p.File(), name} {
		flags := os.O_RDONLY
		if path == name {
			flags = os.O_RDWR | os.O_CREATE
		}
		f, err := os.OpenFile(path, flags, 0o666)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, f)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			unlock()
			holder, _ := os.ReadFile(name)
			text := strings.TrimSpace(string(holder))
			if text == "" {
				text = "by another process"
			}
			return nil, &BusyError{p.File(), text}
		}
		if err != nil {
			unlock()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
	f := held[len(held)-1]
	if err := f.Truncate(0); err != nil {
		unlock()
		return nil, err
	}
	if _, err := fmt.Fprintf(f, "by process %d, since %s\n", os.Getpid(), now.UTC().Format(time.RFC3339)); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// readJournal reads the attempts of another night. A last line that a kill cut short is left out.
func readJournal(dir string) (attempts []*Attempt, err error) {
	data, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(data[:bytes.LastIndexByte(data, '\n')+1], []byte("\n"))
	for i, line := range lines {
		if i == 0 || len(line) == 0 {
			continue
		}
		a := new(Attempt)
		if err := json.Unmarshal(line, a); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", filepath.Join(dir, journalFile), i+1, err)
		}
		attempts = append(attempts, a)
	}
	return attempts, nil
}
