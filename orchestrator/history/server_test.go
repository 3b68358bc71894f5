package history_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/runtimetest"
)

// passage hands bytes on between a client and the server of the tests until it is shut: then both sides stay connected
// and nothing arrives any more, as with a server that is stopped.
type passage struct {
	mu   sync.Mutex
	shut bool
}

func (p *passage) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		shut := p.shut
		p.mu.Unlock()
		if err != nil && !shut {
			_ = to.Close()
			return
		}
		if err != nil {
			return
		}
		if shut {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// set lets bytes through, or not.
func (p *passage) set(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = shut
}

// startPassage returns a passage and the directory of its socket.
func startPassage(t *testing.T, server string) (*passage, string) {
	t.Helper()
	const socket = ".s.PGSQL.5432"
	dir, err := os.MkdirTemp("", "cdp") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	p := new(passage)
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", filepath.Join(server, socket))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			conns = append(conns, client, to)
			mu.Unlock()
			all.Go(func() { p.copy(to, client) })
			all.Go(func() { p.copy(client, to) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
		_ = os.RemoveAll(dir)
	})
	return p, dir
}

// TestAServerThatStopsAnsweringIsGivenUp shuts the way to a real server in the middle of a writer's work: the writer
// gets an error within the bound of the address, questions too, and what was acknowledged is there.
func TestAServerThatStopsAnsweringIsGivenUp(t *testing.T) {
	runtimetest.SkipRace(t)
	direct := postgres(t)
	p, dir := startPassage(t, server.Dir())
	address := strings.Replace(direct, "host="+url.QueryEscape(server.Dir()), "host="+url.QueryEscape(dir), 1) +
		"&statement_timeout=1s&connect_timeout=1"
	s, err := history.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	defer func() {
		go func() { closed <- s.Close() }()
		select {
		case err := <-closed:
			t.Log(err) // an error may follow from the shut passage
		case <-time.After(20 * time.Second):
			t.Error("the store does not close")
		}
	}()
	ingest(t, s, writerRuns(0, 0, writerBatch)...)
	p.set(true)
	for name, call := range map[string]func(context.Context) error{
		"write": func(ctx context.Context) error {
			_, err := s.Ingest(ctx, writerRuns(0, writerBatch, writerBatch)...)
			return err
		},
		"read": func(ctx context.Context) error {
			_, err := s.List(ctx, history.Filter{})
			return err
		},
		"open": func(ctx context.Context) error {
			_, err := history.Open(ctx, address)
			return err
		},
	} {
		began := time.Now()
		err := call(t.Context())
		if took := time.Since(began); err == nil || took > 15*time.Second ||
			!strings.Contains(err.Error(), "server") || strings.Contains(err.Error(), "busy") {
			t.Errorf("%s: after %v: %v", name, took, err)
		}
	}
	p.set(false)
	after := open(t, direct)
	have := whole(t, after, 0, writerBatch)
	if done := ingest(t, after, writerRuns(0, 0, 2*writerBatch)...); done.New != 2*writerBatch-have {
		t.Errorf("%d runs were there; importing again: %+v", have, done)
	}
}

// TestAFullDiskOfTheServerLosesNothing has the tables in a tablespace on a small tmpfs.
func TestAFullDiskOfTheServerLosesNothing(t *testing.T) {
	runtimetest.SkipRace(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIP: only root mounts a tmpfs")
	}
	direct := postgres(t)
	dir, err := os.MkdirTemp("", "cdt")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("SKIP: a tmpfs cannot be mounted here: %v", err)
	}
	uid, gid := server.Owner()
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	psql := func(text string) {
		t.Helper()
		out, err := server.Command("psql", "-h", server.Dir(), "-d", "postgres", "-c", text).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", text, err, out)
		}
	}
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Trim(u.Path, "/")
	t.Cleanup(func() {
		psql("DROP DATABASE " + name + " WITH (FORCE)")
		psql("DROP TABLESPACE small")
		if err := errors.Join(syscall.Unmount(dir, 0), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	psql("CREATE TABLESPACE small LOCATION '" + dir + "'")
	psql("ALTER DATABASE " + name + " SET default_tablespace = small")
	fillDisk(t, direct, dir)
}
