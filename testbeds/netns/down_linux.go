package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"candela.dev/candela/testbeds/procfs"
)

// Down ends a testbed, whatever is left of it; of one whose state can't be read, the processes that serve on its
// sockets. That there is none is no error. A directory that no testbed has made is left alone.
func Down(stateDir, name string) error {
	if stateDir == "" {
		stateDir = StateDir
	}
	s, err := Load(stateDir, name)
	switch {
	case err == nil:
		err = s.end()
	case nameForm.MatchString(name) && !errors.Is(err, os.ErrPermission):
		err = salvage(filepath.Join(stateDir, name), err)
	}
	if err != nil {
		return fmt.Errorf("testbed %s: %w", name, err)
	}
	return nil
}

// Made reports whether a testbed of that name is up, or has left something.
func Made(stateDir, name string) bool {
	if stateDir == "" {
		stateDir = StateDir
	}
	if !nameForm.MatchString(name) {
		return false
	}
	if _, err := Load(stateDir, name); err == nil {
		return true
	}
	_, err := readMaker(filepath.Join(stateDir, name))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// salvage ends a testbed whose state can't be read, for the reason in cause.
func salvage(dir string, cause error) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	maker, err := readMaker(dir)
	switch {
	case err != nil:
		return fmt.Errorf("%s was made by no testbed (%w); if you know what it is: rm -r %s", dir, errors.Join(cause, err),
			dir)
	case maker.Alive():
		return fmt.Errorf("process %d is making it, or uses it: wait for its end, or end it with kill %d", maker.PID,
			maker.PID)
	}
	pids, err := procfs.Serving(dir)
	failed := []error{err}
	for _, pid := range pids {
		if p, err := identify(pid); err == nil {
			failed = append(failed, p.kill(startTime))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// damaged is the error of a state that can't be read. It says how to get rid of the testbed, if one has made the
// directory.
func damaged(dir string, err error) error {
	err = fmt.Errorf("%s is damaged: %w", filepath.Join(dir, stateFile), err)
	if _, unknown := readMaker(dir); unknown == nil {
		err = fmt.Errorf("%w; to remove what is left of the testbed: candela testbed down %s", err, filepath.Base(dir))
	}
	return err
}

// inTheWay says why a testbed can't have its directory.
func inTheWay(stateDir, name string) error {
	dir := filepath.Join(stateDir, name)
	_, err := Load(stateDir, name)
	maker, unknown := readMaker(dir)
	switch {
	case err == nil:
		return fmt.Errorf("it is up already: candela testbed down %s", name)
	case unknown == nil && maker.Alive():
		return fmt.Errorf("process %d is making it right now", maker.PID)
	case unknown == nil:
		return fmt.Errorf("its remains are in %s: candela testbed down %s", dir, name)
	}
	return fmt.Errorf("%s is in the way, and no testbed has made it; if you know what it is: rm -r %s", dir, dir)
}
