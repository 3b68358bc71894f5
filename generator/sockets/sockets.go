// Package sockets transfers bytes over the TCP of a Linux kernel, between real hosts of a test.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Transfer is a connection: From connects to a port of To and sends.
type Transfer struct {
	Number     int
	From, To   netip.Addr
	Port       uint16
	Bytes      int64  // 0: until Stop
	Congestion string // kernel's name of the congestion control
	DSCP       uint8
}

// Ended reports that the receiver of a transfer has all bytes, or an error.
type Ended struct {
	Number int
	Err    error
}

// Group has the transfers of one or more hosts. Stop ends its goroutines.
type Group struct {
	ended  func(Ended)
	group  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex // guards the fields below
	closed bool
	closes []io.Closer
}

// New returns a group that calls ended, from its own goroutines, for each received transfer and for each that failed
// before Stop.
func New(ended func(Ended)) *Group {
	g := &Group{ended: ended}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// A Place runs f where the sockets are to be opened, such as in a network namespace.
type Place func(f func() error) error

// Here is the namespace of the calling thread.
func Here(f func() error) error { return f() }

// control sets the options of a transfer's sockets.
func (t *Transfer) control(_, _ string, raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) { err = t.options(int(fd)) })
	return errors.Join(failed, err)
}

func (t *Transfer) network() string {
	if t.To.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// keep registers x to be closed by Stop; false: the group has ended.
func (g *Group) keep(x io.Closer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closes = append(g.closes, x)
	}
	return !g.closed
}

// Receive opens the server of a transfer and starts its reader.
func (g *Group) Receive(t Transfer, at Place) error {
	var l net.Listener
	config := net.ListenConfig{Control: t.control}
	err := at(func() (err error) {
		l, err = config.Listen(g.ctx, t.network(), netip.AddrPortFrom(t.To, t.Port).String())
		return err
	})
	if err != nil {
		return fmt.Errorf("connection %d: %w", t.Number, err)
	}
	if !g.keep(l) {
		return l.Close()
	}
	g.group.Go(func() { g.report(t.Number, g.read(l, t)) })
	return nil
}

// read reads all bytes of a transfer.
func (g *Group) read(l net.Listener, t Transfer) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	if !g.keep(conn) {
		return conn.Close()
	}
	if t.Bytes > 0 {
		if _, err = io.CopyN(io.Discard, conn, t.Bytes); err == nil {
			err = conn.Close()
		}
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}

// report reports the end of a transfer, unless the group has ended.
func (g *Group) report(number int, err error) {
	if g.ctx.Err() == nil {
		g.ended(Ended{number, err})
	}
}

// Send opens a transfer and sends its bytes, in the background.
func (g *Group) Send(t Transfer, at Place) {
	g.group.Go(func() {
		if err := g.write(t, at); err != nil {
			g.report(t.Number, err)
		}
	})
}

func (g *Group) write(t Transfer, at Place) error {
	var conn net.Conn
	dialer := net.Dialer{Control: t.control, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(t.From, 0))}
	err := at(func() (err error) {
		conn, err = dialer.DialContext(g.ctx, t.network(), netip.AddrPortFrom(t.To, t.Port).String())
		return err
	})
	if err != nil {
		return err
	}
	if !g.keep(conn) {
		return conn.Close()
	}
	buffer := make([]byte, 1<<16)
	for left := t.Bytes; t.Bytes == 0 || left > 0; left -= int64(len(buffer)) {
		if t.Bytes > 0 && left < int64(len(buffer)) {
			buffer = buffer[:left]
		}
		if _, err := conn.Write(buffer); err != nil {
			return err
		}
	}
	return conn.Close()
}

// Go runs f as one of the group's goroutines; ctx ends with Stop.
func (g *Group) Go(f func(ctx context.Context)) { g.group.Go(func() { f(g.ctx) }) }

// Stop ends every goroutine and closes every socket. It may be called more than once.
func (g *Group) Stop() {
	g.cancel()
	g.mu.Lock()
	g.closed = true
	for _, c := range g.closes {
		_ = c.Close() // some are already closed
	}
	g.closes = nil
	g.mu.Unlock()
	g.group.Wait()
}
