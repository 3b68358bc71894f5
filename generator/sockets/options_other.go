//go:build !linux

package sockets

import (
	"errors"
	"net"
	"time"
)

func leastTrip(net.Conn) time.Duration { return 0 }

func (*Transfer) options(int) error { return errors.New("the TCP of a kernel is that of Linux") }
