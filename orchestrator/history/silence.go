package history

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// boundSilence makes connections of a configuration fail when the server says nothing for longer than patience. The
// server ends each statement in time if it lives; one that is stopped, or behind a link that is gone, would be waited
// for as long as the kernel sends again, a quarter of an hour or for ever.
func boundSilence(config *pgx.ConnConfig, patience time.Duration) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatient{Conn: conn, patience: patience}, nil
	}
}

// impatient is a connection on which each read and write ends within patience, and no later than the deadline that its
// user sets.
type impatient struct {
	net.Conn
	patience time.Duration

	mu            sync.Mutex
	reads, writes time.Time // deadlines of the user; zero: none
}

// SetDeadline implements net.Conn.
func (c *impatient) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads, c.writes = t, t
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *impatient) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *impatient) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = t
	return c.Conn.SetWriteDeadline(t)
}

// sooner returns the user's deadline, or the end of patience if that comes first.
func (c *impatient) sooner(deadline time.Time) time.Time {
	end := time.Now().Add(c.patience)
	if deadline.IsZero() || end.Before(deadline) {
		return end
	}
	return deadline
}

// Read implements net.Conn.
func (c *impatient) Read(p []byte) (int, error) {
	c.mu.Lock()
	err := c.Conn.SetReadDeadline(c.sooner(c.reads))
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *impatient) Write(p []byte) (int, error) {
	c.mu.Lock()
	err := c.Conn.SetWriteDeadline(c.sooner(c.writes))
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
