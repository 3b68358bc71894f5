package runtimetest

import (
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
)

// A Postgres is the PostgreSQL server of a package's tests, as user postgres on a unix socket in a temporary directory.
// The first test that needs it starts it; TestMain stops it.
type Postgres struct {
	mu     sync.Mutex
	tried  bool
	dir    string
	skip   string
	stop   func()
	number int
	user   *syscall.Credential // nil: this process is not root
}

// Database returns the address of a new database, or skips the test.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.tried {
		p.tried = true
		if err := p.start(); err != nil {
			p.skip = err.Error()
		}
	}
	if p.skip != "" {
		t.Skipf("SKIP: PostgreSQL: %s", p.skip)
	}
	p.number++
	name := fmt.Sprintf("h%d", p.number)
	if out, err := p.Command("createdb", "-h", p.dir, name).CombinedOutput(); err != nil {
		t.Fatalf("createdb: %v\n%s", err, out)
	}
	return "postgres:///" + name + "?user=postgres&host=" + url.QueryEscape(p.dir)
}

// Dir returns the directory of the socket, once a test has a database.
func (p *Postgres) Dir() string { return p.dir }

// Owner returns the user and group of the server.
func (p *Postgres) Owner() (uid, gid int) {
	if p.user == nil {
		return os.Getuid(), os.Getgid()
	}
	return int(p.user.Uid), int(p.user.Gid)
}

// Stop ends the server, if it runs.
func (p *Postgres) Stop() {
	if p.stop != nil {
		p.stop()
	}
}

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

// Command returns a command of PostgreSQL as user postgres.
func (p *Postgres) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "PGUSER=postgres", "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (p *Postgres) start() error {
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
		p.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return err
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := p.Command("initdb", "-D", data, "-A", "trust", "-N", "-U", "postgres").CombinedOutput(); err != nil {
		clean()
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(os.TempDir(), "candela-pg.log"))
	if err != nil {
		return err
	}
	cmd := p.Command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	// It ends with the thread that started it, so that thread must not end before.
	cmd.SysProcAttr.Pdeathsig = 0
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		clean()
		return err
	}
	p.dir = dir
	p.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		_ = log.Close()
		clean()
	}
	ready := time.Now().Add(time.Minute)
	for time.Now().Before(ready) {
		if p.Command("pg_isready", "-q", "-h", dir).Run() == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.stop()
	p.stop = nil
	return errors.New("the server was not ready within a minute")
}
