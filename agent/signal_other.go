//go:build !unix

package agent

import "errors"

// signalProcess stops or continues a process; only Unix can.
func signalProcess(int, bool) error { return errors.New("processes can be stopped on Unix only") }
