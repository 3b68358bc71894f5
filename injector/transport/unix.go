package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"candela.dev/candela/injector/transport/filelock"
)

const unixPrefix = "unix:"

var errUnixTLS = errors.New(
	"certificates are for HOST:PORT; a unix: address never leaves the machine, and the kernel says who calls: " +
		"give one or the other")

// maxSocketPath is the longest path of a socket, in bytes: 107 on Linux (unix(7), less the final zero).
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// socketPath returns the path of a unix: address; ok is false for any other address.
func socketPath(address string) (path string, ok bool, err error) {
	if strings.HasPrefix(address, "unix-abstract:") || strings.HasPrefix(address, "vsock:") {
		return "", true,
			fmt.Errorf("address %q: allowed are unix:PATH and HOST:PORT; an abstract socket has neither owner nor mode", address)
	}
	path, ok = strings.CutPrefix(address, unixPrefix)
	if !ok {
		return "", false, nil
	}
	return path, true, CheckSocketPath(path)
}

// CheckSocketPath reports a path that no socket may have.
func CheckSocketPath(path string) error {
	switch {
	case path == "":
		return errors.New("unix: wants a path, such as unix:/run/candela/agent.sock")
	case path[0] == '@' || strings.ContainsRune(path, 0):
		return fmt.Errorf("socket %q: an abstract socket has neither owner nor mode; give a path in the file system", path)
	case len(path) > maxSocketPath:
		return fmt.Errorf("socket %s: its path has %d bytes, and the kernel takes %d: choose a shorter directory or name",
			path, len(path),
			maxSocketPath)
	}
	return nil
}

// process is who is at the other end of a unix socket.
type process struct {
	uid    uint32
	groups []uint32
	pid    int32 // 0: unknown
}

func (p process) String() string {
	if p.pid == 0 {
		return fmt.Sprintf("user %d", p.uid)
	}
	return fmt.Sprintf("user %d (process %d)", p.uid, p.pid)
}

// trusted reports whether p is root or this process's user.
func (p process) trusted() bool { return p.uid == 0 || int(p.uid) == os.Geteuid() }

// noGroup means that no group may use a socket.
const noGroup = -1

// groupID returns the id of a group by name or number, noGroup for none.
func groupID(name string) (int, error) {
	if name == "" {
		return noGroup, nil
	}
	id := name
	if g, err := user.LookupGroup(name); err == nil {
		id = g.Gid
	}
	n, err := strconv.ParseUint(id, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("group %q: this machine has no such group", name)
	}
	return int(n), nil
}

// startPatience bounds the wait for another server that is starting on the same path.
const startPatience = 10 * time.Second

// listenUnix makes a socket for root, the user of this process, and the members of a group.
func listenUnix(path, group string) (_ *socket, err error) {
	gid, err := groupID(group)
	if err != nil {
		return nil, err
	}
	if err := safeDirectory(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	// If two servers start together, one may find the remains of an earlier one and remove the socket of the other.
	lock, err := filelock.Acquire(path+".lock", startPatience)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	lis.SetUnlinkOnClose(false)
	s := &socket{UnixListener: lis, path: path, gid: gid}
	if s.info, err = os.Lstat(path); err == nil {
		err = s.furnish()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// socket is a listener whose callers the kernel has identified.
type socket struct {
	*net.UnixListener
	path   string
	info   os.FileInfo // of the socket
	gid    int
	closed sync.Once
}

// furnish sets the socket's owner and mode. A client that connects earlier is identified by its credentials, too.
func (s *socket) furnish() error {
	mode := os.FileMode(0o600)
	if s.gid != noGroup {
		if err := os.Chown(s.path, -1, s.gid); err != nil {
			return err
		}
		mode = 0o660
	}
	return os.Chmod(s.path, mode)
}

// admits reports whether a process may call.
func (s *socket) admits(p process) bool {
	return p.trusted() || s.gid != noGroup && slices.Contains(p.groups, uint32(s.gid))
}

// caller identifies the other end of an accepted connection.
func (s *socket) caller(conn net.Conn) (name string, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return "", fmt.Errorf("a %T is not a unix socket", conn)
	}
	p, err := peerOf(c)
	if err != nil {
		return "", err
	}
	if !s.admits(p) {
		return "", fmt.Errorf("%v is neither root nor user %d%s", p, os.Geteuid(), s.orGroup())
	}
	return fmt.Sprintf("user %d", p.uid), nil
}

func (s *socket) orGroup() string {
	if s.gid == noGroup {
		return ""
	}
	return fmt.Sprintf(" nor in group %d", s.gid)
}

// Close removes the socket, unless another has taken its place.
func (s *socket) Close() (err error) {
	s.closed.Do(func() {
		if now, missing := os.Lstat(s.path); missing == nil && s.info != nil && os.SameFile(now, s.info) {
			err = os.Remove(s.path)
		}
		err = errors.Join(err, s.UnixListener.Close())
	})
	return err
}

// safeDirectory creates the directory of a socket, and refuses one where other users could replace it. In /tmp only the
// owner of a file may remove it, so they cannot.
func safeDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf(
			"directory %s has mode %v: others may write there, and put a socket of theirs in its place; chmod go-w %s", dir,
			info.Mode().Perm(), dir)
	}
	if owner, ok := ownerOf(info); ok && owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("directory %s belongs to user %d, who could put another socket in its place; it must be root's "+
			"or this user's", dir, owner)
	}
	return nil
}

func ownerOf(info os.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

// probeTime is how long a server has to accept a connection before it counts as hung.
const probeTime = 2 * time.Second

// removeStale removes a socket without a server, which a killed one leaves. Other files stay.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is in the way, and is not a socket", path)
	}
	if owner, ok := ownerOf(info); ok && owner != os.Geteuid() {
		return fmt.Errorf("%s is in the way: a socket of user %d", path, owner)
	}
	conn, err := net.DialTimeout("unix", path, probeTime)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s: another server listens there", path), conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, os.ErrNotExist):
		return nil // its server has just ended
	}
	return fmt.Errorf("%s: another server listens there, and does not answer: %w", path, err)
}

// dialUnix connects to a socket and checks who serves it: root, this user, or the owner of its directories. In a
// directory like /tmp any user can create a name first.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T is not a unix socket", conn), conn.Close())
	}
	p, err := peerOf(u)
	if err == nil && !p.trusted() {
		err = onlyBy(path, int(p.uid))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), conn.Close())
	}
	return conn, nil
}

// onlyBy reports whether a user other than root, this one and uid could have made the socket at path.
func onlyBy(path string, uid int) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		owner, known := ownerOf(info)
		if info.Mode().Perm()&0o022 != 0 || known && owner != 0 && owner != os.Geteuid() && owner != uid {
			return fmt.Errorf("user %d serves it, who is neither root nor user %d, and others may write to %s, too", uid,
				os.Geteuid(), dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
