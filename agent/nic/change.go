package nic

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"candela.dev/candela/testbeds"
)

// setting is something of a NIC that is read and written as text, so that another process can restore it.
type setting struct {
	name    string // in errors and records
	read    func() (string, error)
	write   func(value string) error
	same    func(read, value string) bool // nil: equal texts
	restore func(read string) string      // what to write to get a value back that was read; nil: the same text
	knob    knob                          // of a file
}

func (s *setting) equal(read, value string) bool {
	if s.same == nil {
		return read == value
	}
	return s.same(read, value)
}

// change writes the setting, reads it back and compares. The value that was found is returned, too.
func (s *setting) change(value string) (found string, err error) {
	if err := s.write(value); err != nil {
		return "", fmt.Errorf("%s: set %q: %w", s.name, value, err)
	}
	if found, err = s.read(); err != nil {
		return "", fmt.Errorf("%s: set %q, read back: %w", s.name, value, err)
	}
	if !s.equal(found, value) {
		return found, fmt.Errorf("%s: set %q, read back %q", s.name, value, found)
	}
	return found, nil
}

// wish is a setting and what it shall be.
type wish struct {
	setting
	value string
}

// A Record is a setting that was changed, with all that another process needs to restore it.
type Record struct {
	Interface string `json:"interface"`
	Address   string `json:"address"` // Ethernet, of the interface: names go to other cards
	Setting   string `json:"setting"`
	Former    string `json:"former"`
	Set       string `json:"set"`
	Found     string `json:"found,omitempty"`  // instead of Set, if the device took another value
	Commit    string `json:"commit,omitempty"` // of a file, see knob
	Prefix    string `json:"prefix,omitempty"`
}

// turn changes one setting. The former value is in the journal before the device has the new one.
func (n *NIC) turn(w *wish) error {
	before, err := w.read()
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	former := before
	if w.restore != nil {
		former = w.restore(before)
	}
	n.made = append(n.made, testbeds.Property{Name: "set/" + w.name, Value: describe(w.value, former, w.equal(before,
		w.value))})
	if w.equal(before, w.value) {
		return nil
	}
	r := Record{Interface: n.Interface, Address: n.address(), Setting: w.name, Former: former, Set: w.value,
		Commit: w.knob.commit, Prefix: w.knob.prefix}
	if err := n.journal.add(r); err != nil {
		return fmt.Errorf("%s: it is not changed: %w", w.name, err)
	}
	n.changed = append(n.changed, r)
	found, err := w.change(w.value)
	if err != nil && found != "" {
		last := &n.changed[len(n.changed)-1]
		last.Found = found
		err = errors.Join(err, n.journal.replace(r, *last))
	}
	return err
}

func describe(value, former string, same bool) string {
	if same {
		return value + " (as it was)"
	}
	return fmt.Sprintf("%s (was %s)", value, former)
}

// address is the Ethernet address; empty: unreadable.
func (n *NIC) address() string {
	text, err := n.files.read(n.net("address"))
	if err != nil {
		return ""
	}
	return text
}

// Made lists the settings that Apply made, with their former values.
func (n *NIC) Made() []testbeds.Property { return n.made }

// putBack restores one setting. An interface that is gone has none.
func (n *NIC) putBack(r *Record) error {
	s, err := n.settingOf(r)
	if err == nil {
		_, err = s.change(r.Former)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("interface %q: restore: %w", n.Interface, err)
	}
	return n.journal.remove(*r)
}

// Close restores every setting that Apply changed, the last first, and continues after errors. It may be called again.
// What it can't restore stays in the journal.
func (n *NIC) Close() error {
	var failed []error
	for _, r := range slices.Backward(n.changed) {
		failed = append(failed, n.putBack(&r))
	}
	n.changed = nil
	return errors.Join(failed...)
}
