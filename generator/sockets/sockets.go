// Package sockets transfers bytes over the TCP of a Linux kernel, between real hosts of a test.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Transfer is a connection: From connects to a port of To and sends.
type Transfer struct {
	Number     int
	From, To   netip.Addr
	Port       uint16
	Bytes      int64  // 0: until Stop
	Congestion string // kernel's name of the congestion control
	DSCP       uint8
	Leaves     bool // End will stop it: little is unsent at any time, so that it leaves soon
}

// Ended reports that the receiver of a transfer has all bytes, or an error.
type Ended struct {
	Number int
	Err    error
}

// Group has the transfers of one or more hosts. Stop ends its goroutines.
type Group struct {
	report func(Ended)
	group  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards the fields below
	closed  bool
	closes  []io.Closer
	senders map[int]net.Conn // by number
	ended   map[int]bool     // by End
	trips   map[int]time.Duration
}

// New returns a group that calls report, from its own goroutines, for each received transfer and for each that failed
// before Stop.
func New(report func(Ended)) *Group {
	g := &Group{report: report, senders: make(map[int]net.Conn), ended: make(map[int]bool),
		trips: make(map[int]time.Duration)}
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
	g.group.Go(func() { g.tell(t.Number, g.read(l, t)) })
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

// tell reports the end of a transfer, unless the group has ended.
func (g *Group) tell(number int, err error) {
	if g.ctx.Err() == nil {
		g.report(Ended{number, err})
	}
}

// Send opens a transfer and sends its bytes, in the background.
func (g *Group) Send(t Transfer, at Place) {
	g.group.Go(func() {
		if err := g.write(t, at); err != nil {
			g.tell(t.Number, err)
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
	ended := g.sends(t.Number, conn)
	defer g.leave(t.Number)
	buffer := make([]byte, 1<<16)
	for left := t.Bytes; !ended && (t.Bytes == 0 || left > 0); left -= int64(len(buffer)) {
		if t.Bytes > 0 && left < int64(len(buffer)) {
			buffer = buffer[:left]
		}
		_, err := conn.Write(buffer)
		if ended = g.hasEnded(t.Number); err != nil && !ended {
			return err
		}
	}
	g.leave(t.Number)
	return conn.Close()
}

// sends registers the sender's connection, and reports whether the transfer has ended already.
func (g *Group) sends(number int, conn net.Conn) (ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.senders[number] = conn
	return g.ended[number]
}

// leave notes what the kernel measured of a connection that is about to be closed.
func (g *Group) leave(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.measure(number)
	delete(g.senders, number)
}

func (g *Group) measure(number int) {
	if conn := g.senders[number]; conn != nil {
		if trip := leastTrip(conn); trip > 0 {
			g.trips[number] = trip
		}
	}
}

func (g *Group) hasEnded(number int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended[number]
}

// End has the sender of a transfer write nothing more: it closes the connection once what is written has been
// acknowledged.
func (g *Group) End(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended[number] = true
	if conn := g.senders[number]; conn != nil {
		_ = conn.SetWriteDeadline(time.Unix(1, 0)) // it fails if the connection is closed
	}
}

// Trips returns the least RTT that the kernel measured for each transfer of which this group has been the sender.
func (g *Group) Trips() map[int]time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.trips)
}

// Go runs f as one of the group's goroutines; ctx ends with Stop.
func (g *Group) Go(f func(ctx context.Context)) { g.group.Go(func() { f(g.ctx) }) }

// Stop ends every goroutine and closes every socket. It may be called more than once.
func (g *Group) Stop() {
	g.cancel()
	g.mu.Lock()
	g.closed = true
	for number := range g.senders {
		g.measure(number)
	}
	for _, c := range g.closes {
		_ = c.Close() // some are already closed
	}
	g.closes = nil
	g.mu.Unlock()
	g.group.Wait()
}
