//go:build !linux

package sockets

import "errors"

func (*Transfer) options(int) error { return errors.New("the TCP of a kernel is that of Linux") }
