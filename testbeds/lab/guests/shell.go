//go:build linux

package guests

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// Shell is the command that opens a root shell on a machine, in place of ssh. The shell has no prompt.
func (l *Lab) Shell(name string) string {
	host, port, _ := net.SplitHostPort(l.shells[name])
	return "nc " + host + " " + port
}

// Do has a shell of a machine run commands, as its owner would, and returns what they print on both outputs. It ends
// with ctx, then with what was printed until then; the commands may go on.
func (l *Lab) Do(ctx context.Context, name, commands string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.shells[name])
	if err != nil {
		return "", fmt.Errorf("shell of %s: %w", name, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	if _, err := fmt.Fprintf(conn, "exec 2>&1\n%s\nexit\n", commands); err != nil {
		return "", fmt.Errorf("shell of %s: %w", name, err)
	}
	out, err := io.ReadAll(conn)
	if err != nil {
		err = fmt.Errorf("shell of %s: %w", name, err)
	}
	return string(out), err
}

// setClock does what NTP does in a lab. A guest begins at a whole second of this machine, which may be one too early.
func (l *Lab) setClock(ctx context.Context, name string) error {
	now := time.Now()
	next := now.Truncate(time.Second).Add(time.Second)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(next.Sub(now)):
	}
	out, err := l.Do(ctx, name, fmt.Sprintf("date -u -s @%d", next.Unix()))
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
