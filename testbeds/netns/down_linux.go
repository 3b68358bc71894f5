package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"candela.dev/candela/testbeds/procfs"
)

// Down ends a testbed or its remains. If its state can't be read, it ends the processes that serve on its sockets. A
// missing testbed is not an error. A directory that was not made by a testbed is left alone.
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

// Made reports whether a testbed of that name is up or left a directory.
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

// salvage ends a testbed whose state can't be read because of cause.
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

// damaged returns the error for an unreadable state. If a testbed made the directory, the error explains how to remove
// it.
func damaged(dir string, err error) error {
	err = fmt.Errorf("%s is damaged: %w", filepath.Join(dir, stateFile), err)
	if _, unknown := readMaker(dir); unknown == nil {
		err = fmt.Errorf("%w; to remove what is left of the testbed: candela testbed down %s", err, filepath.Base(dir))
	}
	return err
}

// inTheWay explains why a testbed can't have its directory.
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
