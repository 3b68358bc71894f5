package history_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/history"
)

// server is a PostgreSQL of the package's tests, as user postgres on a unix socket in a temporary directory.
var server struct {
	sync.Mutex
	tried  bool
	dir    string
	skip   string
	stop   func()
	number int
}

func TestMain(m *testing.M) {
	if os.Getenv(writerVariable) != "" {
		os.Exit(writeUntilKilled())
	}
	status := m.Run()
	if server.stop != nil {
		server.stop()
	}
	os.Exit(status)
}

// postgres returns the address of a new database, or skips the test.
func postgres(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	if !server.tried {
		server.tried = true
		if err := startPostgres(); err != nil {
			server.skip = err.Error()
		}
	}
	if server.skip != "" {
		t.Skipf("SKIP: PostgreSQL: %s", server.skip)
	}
	server.number++
	name := fmt.Sprintf("h%d", server.number)
	admin := asPostgres("createdb", "-h", server.dir, name)
	if out, err := admin.CombinedOutput(); err != nil {
		t.Fatalf("createdb: %v\n%s", err, out)
	}
	return "postgres:///" + name + "?user=postgres&host=" + url.QueryEscape(server.dir)
}

var postgresUser *syscall.Credential // nil: this process is not root

func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return name
	}
	return found[len(found)-1]
}

func asPostgres(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "PGUSER=postgres", "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: postgresUser, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func startPostgres() error {
	if _, err := exec.LookPath(program("initdb")); err != nil {
		return errors.New("initdb is missing; tools/setup installs Debian's postgresql")
	}
	dir, err := os.MkdirTemp("", "candela-pg")
	if err != nil {
		return err
	}
	clean := func() { _ = os.RemoveAll(dir) }
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			clean()
			return fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres: %w", err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		postgresUser = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return err
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := asPostgres("initdb", "-D", data, "-A", "trust", "-N", "-U", "postgres").CombinedOutput(); err != nil {
		clean()
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(os.TempDir(), "candela-pg.log"))
	if err != nil {
		return err
	}
	cmd := asPostgres("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	// It ends with the thread that started it, so that thread must not end before.
	cmd.SysProcAttr.Pdeathsig = 0
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		clean()
		return err
	}
	server.dir = dir
	server.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		_ = log.Close()
		clean()
	}
	ready := time.Now().Add(time.Minute)
	for time.Now().Before(ready) {
		if asPostgres("pg_isready", "-q", "-h", dir).Run() == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	server.stop()
	server.stop = nil
	return errors.New("the server was not ready within a minute")
}

// engines runs a test on both engines.
func engines(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "history.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgres(t)) })
}

func open(t testing.TB, address string) *history.Store {
	t.Helper()
	s, err := history.Open(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
