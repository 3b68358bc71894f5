package nic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// A Journal is a file with the settings that are changed at the moment, and their former values. A process that is
// killed leaves it behind, and the next one restores what it names. A nil Journal keeps nothing.
type Journal struct {
	root *os.Root

	mu   sync.Mutex
	list []Record // in the order of the changes
}

// JournalFile is the name of the file.
const JournalFile = "changed-settings.json"

// OpenJournal reads the journal in a directory; a missing one is empty.
func OpenJournal(root *os.Root) (*Journal, error) {
	j := &Journal{root: root}
	text, err := root.ReadFile(JournalFile)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &j.list)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, which has the former values of settings that a killed agent changed: %w: restore the "+
			"settings by hand and remove the file", JournalFile, err)
	}
	return j, nil
}

// Pending lists what is changed.
func (j *Journal) Pending() []Record {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

func (j *Journal) add(r Record) error {
	return j.edit(func(list []Record) []Record { return append(list, r) })
}

func (j *Journal) remove(r Record) error {
	return j.edit(func(list []Record) []Record {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i] == r {
				return slices.Delete(list, i, i+1)
			}
		}
		return list
	})
}

func (j *Journal) replace(r, by Record) error {
	return j.edit(func(list []Record) []Record {
		if i := slices.Index(list, r); i >= 0 {
			list[i] = by
		}
		return list
	})
}

// edit changes the list on disk, and then here.
func (j *Journal) edit(f func([]Record) []Record) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	list := f(slices.Clone(j.list))
	if err := j.write(list); err != nil {
		return fmt.Errorf("note the former value in %s: %w", JournalFile, err)
	}
	j.list = list
	return nil
}

// write replaces the file at once: whoever is killed meanwhile leaves the old one or the new one.
func (j *Journal) write(list []Record) error {
	if len(list) == 0 {
		err := j.root.Remove(JournalFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	const next = JournalFile + ".new"
	f, err := j.root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return j.root.Rename(next, JournalFile)
}

// Restore restores what a killed process has left, the last change first, and returns what it did, for people. A
// setting that somebody has changed since is left as it is. What can't be restored stays in the journal. open finds a
// NIC by its interface; interfaces limits whose settings are restored, and nil means all.
func (j *Journal) Restore(open func(name string) (*NIC, error), interfaces ...string) (done []string, err error) {
	var failed []error
	for _, r := range slices.Backward(j.Pending()) {
		if len(interfaces) > 0 && !slices.Contains(interfaces, r.Interface) {
			continue
		}
		what, err := j.restore(&r, open)
		if err != nil {
			failed = append(failed, fmt.Errorf("a killed agent changed %s of interface %s from %q to %q, and that can't be "+
				"restored: %w", r.Setting, r.Interface, r.Former, r.Set, err))
			continue
		}
		done = append(done, what)
	}
	return done, errors.Join(failed...)
}

func (j *Journal) restore(r *Record, open func(name string) (*NIC, error)) (string, error) {
	n, err := open(r.Interface)
	if err != nil {
		return "", err
	}
	n.journal = j
	if is := n.address(); is != r.Address {
		return "", fmt.Errorf("the interface has another address: %s, not %s", is, r.Address)
	}
	s, err := n.settingOf(r)
	if err != nil {
		return "", err
	}
	is, err := s.read()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s of interface %s", r.Setting, r.Interface)
	switch ours := s.equal(is, r.Set) || r.Found != "" && s.equal(is, r.Found); {
	case s.equal(is, r.Former):
		return fmt.Sprintf("%s is %q as before", name, is), j.remove(*r)
	case !ours:
		return fmt.Sprintf("%s is left at %q: it was changed after the agent set it to %q", name, is, r.Set), j.remove(*r)
	}
	return fmt.Sprintf("%s is restored to %q", name, r.Former), n.putBack(r)
}
