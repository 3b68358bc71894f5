//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"

	"candela.dev/candela/injector/transport"
)

// beAnotherUser becomes another user, and does what other users do.
func beAnotherUser(task string) (exit int) {
	var uid, gid int
	var what, path string
	_, err := fmt.Sscan(task, &uid, &gid, &what, &path)
	err = errors.Join(err, syscall.Setgroups([]int{gid}), syscall.Setresgid(gid, gid, gid),
		syscall.Setresuid(uid, uid, uid))
	if err == nil && what == "serve" {
		err = serveAll(path)
	}
	if err != nil || what == "serve" {
		fmt.Println(err)
		return 1
	}
	conn, err := transport.Dial("unix:"+path, nil)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err = p4pb.NewP4RuntimeClient(conn).Capabilities(ctx, &p4pb.CapabilitiesRequest{})
		conn.Close()
	}
	fmt.Printf("ANSWER %v\n", err)
	return 0
}

// serveAll serves a switch to everybody until its standard input ends.
func serveAll(path string) error {
	lis, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server, err := newSwitch()
	if err = errors.Join(err, os.Chmod(path, 0o666)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	fmt.Println("SERVING")
	return server.Serve(ctx, lis)
}

// callAs makes a call as another user and returns its error in words.
func callAs(t *testing.T, uid, gid int, path string) string {
	t.Helper()
	cmd := anotherUser(t, uid, gid, "call", path)
	out, err := cmd.CombinedOutput()
	_, answer, ok := strings.Cut(string(out), "ANSWER ")
	if err != nil || !ok {
		t.Fatalf("%v: %s", err, out)
	}
	answer, _, _ = strings.Cut(answer, "\n")
	return answer
}

func anotherUser(t *testing.T, uid, gid int, what, path string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP-root: only root can become another user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^$")
	cmd.Env = append(os.Environ(), asUser+"="+fmt.Sprint(uid, " ", gid, " ", what, " ", path))
	return cmd
}

// open returns a directory that everybody may enter.
func open(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "candela-transport")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// logged is a log that several goroutines write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const nobody = 65534

func TestAnotherUserIsRefused(t *testing.T) {
	path := filepath.Join(open(t, 0o755), "s")
	var log logged
	lis, opts, err := transport.Listen("unix:"+path, transport.ServerConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, lis, opts)
	if got := callAs(t, 0, 0, path); got != "<nil>" {
		t.Errorf("this user: %s", got)
	}
	if got := callAs(t, nobody, nobody, path); !strings.Contains(got, "permission denied") {
		t.Errorf("another user: %s", got)
	}
	// Whatever the mode of the file says, the kernel says who calls.
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, gid := range []int{nobody, 0} {
		if got := callAs(t, nobody, gid, path); got == "<nil>" || strings.Contains(got, "permission denied") {
			t.Errorf("another user who may connect, in group %d: %s", gid, got)
		}
	}
	if !strings.Contains(log.String(), "user 65534 (process ") ||
		!strings.Contains(log.String(), "is neither root nor user 0") {
		t.Errorf("the server's log: %s", log.String())
	}
}

func TestAGroupMayBeLetIn(t *testing.T) {
	const group, user = 23456, 12345
	path := filepath.Join(open(t, 0o755), "s")
	lis, opts, err := transport.Listen("unix:"+path, transport.ServerConfig{Group: strconv.Itoa(group)})
	if errors.Is(err, os.ErrPermission) {
		t.Skip("SKIP-root: only root can give a socket to a group")
	}
	if err != nil {
		t.Fatal(err)
	}
	serve(t, lis, opts)
	if got := callAs(t, user, group, path); got != "<nil>" {
		t.Errorf("a member: %s", got)
	}
	if got := callAs(t, user, user, path); !strings.Contains(got, "permission denied") {
		t.Errorf("somebody else: %s", got)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := callAs(t, user, user, path); got == "<nil>" {
		t.Error("another user who may connect is served")
	}
	if _, _, err := transport.Listen("unix:"+path+"2", transport.ServerConfig{Group: "no-such-group"}); err == nil {
		t.Error("an unknown group is accepted")
	}
}

func TestASocketBelongsToItsUserAlone(t *testing.T) {
	for _, tt := range []struct {
		group string
		mode  os.FileMode
	}{{"", 0o600}, {strconv.Itoa(os.Getegid()), 0o660}} {
		path := filepath.Join(t.TempDir(), "s")
		lis, _, err := transport.Listen("unix:"+path, transport.ServerConfig{Group: tt.group})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != tt.mode {
			t.Errorf("group %q: %v, %v; want mode %v", tt.group, info.Mode(), err, tt.mode)
		}
		lis.Close()
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a closed listener leaves its socket: %v", err)
		}
	}
}

func TestWhatNoSocketMayBe(t *testing.T) {
	dir := t.TempDir()
	shared := filepath.Join(dir, "shared")
	if err := errors.Join(os.Mkdir(shared, 0o700), os.Chmod(shared, 0o777)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ address, want string }{
		"no path":                    {"unix:", "wants a path"},
		"an abstract socket":         {"unix:@candela", "abstract"},
		"an abstract socket of gRPC": {"unix-abstract:candela", "abstract"},
		"a path that is too long": {"unix:/tmp/" + strings.Repeat("x", 103),
			"has 108 bytes, and the kernel takes 107"},
		"a directory where all may write":  {"unix:" + shared + "/s", "others may write there"},
		"a directory that is none at all":  {"unix:/dev/null/s", "not a directory"},
		"a socket and a certificate's CRL": {"unix:" + dir + "/s", "certificates are for HOST:PORT"},
	} {
		cfg := transport.ServerConfig{}
		if strings.Contains(name, "CRL") {
			cfg.Files = &transport.Files{CRL: "x"}
		}
		lis, _, err := transport.Listen(tt.address, cfg)
		if err == nil {
			lis.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	for _, address := range []string{"unix:", "unix:@candela", "unix-abstract:x", "unix:/" + strings.Repeat("x", 200)} {
		if conn, err := transport.Dial(address, nil); err == nil {
			conn.Close()
			t.Errorf("%s is dialled", address)
		}
	}
	longest := filepath.Join(dir, strings.Repeat("x", 107-len(dir)-1))
	lis, _, err := transport.Listen("unix:"+longest, transport.ServerConfig{})
	if err != nil {
		t.Fatalf("a path of %d bytes: %v", len(longest), err)
	}
	lis.Close()
}

func TestAServerOfAnotherUserIsRefused(t *testing.T) {
	dir := open(t, 0o777|os.ModeSticky)
	path := filepath.Join(dir, "s")
	cmd := anotherUser(t, nobody, nobody, "serve", path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stdin.Close(); _ = cmd.Wait() }()
	said := make([]byte, 4096)
	for text := ""; !strings.Contains(text, "SERVING"); {
		n, err := out.Read(said)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		text += string(said[:n])
	}
	if err := capabilities(t, "unix:"+path, nil); err == nil || !strings.Contains(err.Error(), "user 65534 serves it") {
		t.Errorf("an impostor: %v", err)
	}
	// Its own user is admitted, and so would be root.
	if got := callAs(t, nobody, nobody, path); got != "<nil>" {
		t.Errorf("its own user: %s", got)
	}
	if _, _, err := transport.Listen("unix:"+path, transport.ServerConfig{}); err == nil ||
		!strings.Contains(err.Error(), "a socket of user 65534") {
		t.Errorf("in its place: %v", err)
	}
}

// Of several servers that start together where a killed one has left its socket, one serves, and is reached.
func TestOneOfManyServersTakesTheSocket(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "s")
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		dead.Close()
		var all sync.WaitGroup
		var mu sync.Mutex
		var up []net.Listener
		for range 8 {
			all.Go(func() {
				lis, _, err := transport.Listen("unix:"+path, transport.ServerConfig{})
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				up = append(up, lis)
			})
		}
		all.Wait()
		if len(up) != 1 {
			t.Fatalf("%d servers have the socket", len(up))
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("it is not reached: %v", err)
		}
		conn.Close()
		up[0].Close()
	}
}
