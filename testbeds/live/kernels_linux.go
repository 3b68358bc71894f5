package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
)

// kernels are the TCP connections between the kernels of hosts. Their goroutines read and write sockets and end with
// stop.
type kernels struct {
	s       *Switch
	waiting []Connection // by start
	open    int          // that have begun and not finished
	endless bool
	done    chan ended
	group   sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex // guards closers
	closed bool
	closes []io.Closer
}

// ended says that a connection's receiver has all, or what went wrong.
type ended struct {
	number int
	err    error
}

// look is how often the kernel's connections are asked whether they have finished: no frame tells.
const look = 5 * time.Millisecond

func openKernels(s *Switch) (*kernels, error) {
	k := &kernels{s: s, waiting: s.cfg.Connections, done: make(chan ended, 2*len(s.cfg.Connections))}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	for _, c := range k.waiting {
		k.endless = k.endless || c.Bytes == 0
		if err := k.listen(c); err != nil {
			return k, fmt.Errorf("connection %d: %w", c.Number, err)
		}
	}
	return k, nil
}

// control sets the options of a connection's sockets.
func (c *Connection) control(_, _ string, raw syscall.RawConn) error {
	var err error
	failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, c.Congestion)
		if err != nil {
			err = fmt.Errorf("congestion control %q: %w", c.Congestion, err)
			return
		}
		if c.IPv6 {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(c.DSCP)<<2)
			return
		}
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, int(c.DSCP)<<2)
	})
	return errors.Join(failed, err)
}

func (c *Connection) address() (network, at string) {
	port := strconv.Itoa(FirstPort + c.Number)
	if c.IPv6 {
		return "tcp6", net.JoinHostPort(c.Dst.IPv6().String(), port)
	}
	return "tcp4", net.JoinHostPort(c.Dst.IPv4().String(), port)
}

// keep has x closed by stop; false: the run has ended.
func (k *kernels) keep(x io.Closer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.closes = append(k.closes, x)
	}
	return !k.closed
}

// listen opens the server of a connection, and starts its reader.
func (k *kernels) listen(c Connection) error {
	var l net.Listener
	network, at := c.address()
	config := net.ListenConfig{Control: c.control}
	err := k.s.hosts[c.Dst].inside.do(func() (err error) {
		l, err = config.Listen(k.ctx, network, at)
		return err
	})
	if err != nil {
		return err
	}
	k.keep(l)
	k.group.Go(func() { k.report(c.Number, k.read(l, c)) })
	return nil
}

// read takes all bytes of a connection.
func (k *kernels) read(l net.Listener, c Connection) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	if !k.keep(conn) {
		return conn.Close()
	}
	if c.Bytes > 0 {
		if _, err = io.CopyN(io.Discard, conn, c.Bytes); err == nil {
			err = conn.Close()
		}
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}

// report passes on how a connection ended, unless the run has.
func (k *kernels) report(number int, err error) {
	if k.ctx.Err() == nil {
		k.done <- ended{number, err} // there is room for all
	}
}

// write sends what a connection has to send.
func (k *kernels) write(c Connection) error {
	var conn net.Conn
	network, at := c.address()
	dialer := net.Dialer{Control: c.control}
	err := k.s.hosts[c.Src].inside.do(func() (err error) {
		conn, err = dialer.DialContext(k.ctx, network, at)
		return err
	})
	if err != nil {
		return err
	}
	if !k.keep(conn) {
		return conn.Close()
	}
	buffer := make([]byte, 1<<16)
	for left := c.Bytes; c.Bytes == 0 || left > 0; left -= int64(len(buffer)) {
		if c.Bytes > 0 && left < int64(len(buffer)) {
			buffer = buffer[:left]
		}
		if _, err := conn.Write(buffer); err != nil {
			return err
		}
	}
	return conn.Close()
}

// serve starts what is due and hears of what has finished.
func (k *kernels) serve(now clock.Time) error {
	for len(k.waiting) > 0 && k.waiting[0].Start <= now {
		c := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.open++
		k.group.Go(func() {
			if err := k.write(c); err != nil {
				k.report(c.Number, err)
			}
		})
	}
	for {
		select {
		case e := <-k.done:
			if e.err != nil {
				return fmt.Errorf("kernel connection %d: %w", e.number, e.err)
			}
			k.open--
			k.s.cfg.Finished(now, e.number)
		default:
			return nil
		}
	}
}

func (k *kernels) next(now clock.Time) clock.Time {
	at := now.Add(clock.FromStd(look) / clock.Duration(k.s.cfg.Slowdown))
	if len(k.waiting) > 0 {
		at = min(at, k.waiting[0].Start)
	}
	return at
}

// over reports whether every connection has finished.
func (k *kernels) over() bool { return len(k.waiting) == 0 && k.open == 0 && !k.endless }

// stop ends every goroutine.
func (k *kernels) stop() {
	k.cancel()
	k.mu.Lock()
	k.closed = true
	for _, c := range k.closes {
		_ = c.Close() // some are closed already
	}
	k.mu.Unlock()
	k.group.Wait()
}

func (k *kernels) close() error {
	k.stop()
	return nil
}
