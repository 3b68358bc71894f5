package vm

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	acceleratorTCG = "tcg"
	acceleratorKVM = "kvm"
)

// snapshot returns the snapshot file of a freshly booted guest; empty: none is kept. The name identifies image, QEMU
// and its arguments. Snapshots are per user: one that another user could change is not restored.
func (c *Config) snapshot(found *image, accelerator string) string {
	if c.NoSnapshot || found.Key == "" {
		return ""
	}
	program, err := exec.LookPath(c.QEMU)
	if err != nil {
		return ""
	}
	info, err := os.Stat(program)
	if err != nil {
		return ""
	}
	same := &guest{name: "g", dir: "/"}
	h := sha256.New()
	fmt.Fprintln(h, found.Key, program, info.Size(), info.ModTime().UnixNano(),
		strings.Join(same.arguments(c, accelerator, ""), "\x00"))
	return filepath.Join(c.Image, fmt.Sprintf("snapshot-%d-%s", os.Getuid(), hex.EncodeToString(h.Sum(nil))[:16]))
}

// restorable reports whether path is a snapshot of this user.
func restorable(path string) bool {
	if path == "" {
		return false
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(owner.Uid) == os.Getuid()
}

// kvmMark is a file in the image's directory: KVM runs nothing in the current boot of the machine.
const kvmMark = "kvm-unusable"

func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(text)
}

// kvm reports whether hardware virtualisation is available and not marked as unusable.
func (c *Config) kvm() bool {
	if c.NoKVM {
		return false
	}
	if mark, err := os.ReadFile(filepath.Join(c.Image, kvmMark)); err == nil && string(mark) == bootID() {
		return false
	}
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return device.Close() == nil
}

// forgoKVM records, if it can, that KVM runs nothing here.
func (c *Config) forgoKVM() {
	c.NoKVM = true
	_ = os.WriteFile(filepath.Join(c.Image, kvmMark), []byte(bootID()), 0o644)
}

// consoleEnding is the suffix of the console output that is saved with a snapshot.
const consoleEnding = ".console"

const saveTime = 30 * time.Second

// save writes a snapshot of the guest, which then continues.
func (g *guest) save(ctx context.Context, path string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	fresh := path + ".new"
	defer func() {
		if err != nil {
			_ = os.Remove(fresh)
		}
	}()
	m, err := openMonitor(ctx, g.monitor())
	if err != nil {
		return err
	}
	defer m.close()
	// The default bandwidth limit would make saving slow.
	if err := m.do("migrate-set-parameters", map[string]any{"max-bandwidth": int64(16) << 30}, nil); err != nil {
		return err
	}
	// Do not stop the guest first: it would be restored stopped. QEMU stops it at the end.
	err = m.migrate(ctx, "exec:cat > "+quoted(fresh))
	if err := errors.Join(err, m.do("cont", nil, nil)); err != nil {
		return err
	}
	said, err := os.ReadFile(g.console())
	if err == nil {
		err = os.WriteFile(path+consoleEnding, said, 0o600)
	}
	if err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// monitor is a QMP connection to a guest's QEMU.
type monitor struct {
	conn net.Conn
	in   *bufio.Scanner
	stop func() bool
}

func openMonitor(ctx context.Context, path string) (*monitor, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	m := &monitor{conn: conn, in: bufio.NewScanner(conn)}
	m.in.Buffer(nil, 1<<20)
	m.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return m, m.do("qmp_capabilities", nil, nil)
}

func (m *monitor) close() {
	m.stop()
	_ = m.conn.Close()
}

// do executes a command and waits for its answer, skipping events and the greeting.
func (m *monitor) do(command string, arguments, result any) error {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := m.conn.Write(append(line, '\n')); err != nil {
		return err
	}
	for m.in.Scan() {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Desc string `json:"desc"`
			} `json:"error"`
		}
		if err := json.Unmarshal(m.in.Bytes(), &answer); err != nil {
			return err
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("monitor, %s: %s", command, answer.Error.Desc)
		case answer.Return == nil:
			continue
		case result == nil:
			return nil
		}
		return json.Unmarshal(answer.Return, result)
	}
	return errors.Join(m.in.Err(), io.ErrUnexpectedEOF)
}

// migrate writes the machine's state to uri and waits for completion.
func (m *monitor) migrate(ctx context.Context, uri string) error {
	if err := m.do("migrate", map[string]any{"uri": uri}, nil); err != nil {
		return err
	}
	for {
		var now struct {
			Status string `json:"status"`
			Desc   string `json:"error-desc"`
		}
		if err := m.do("query-migrate", nil, &now); err != nil {
			return err
		}
		switch now.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("snapshot: %s %s", now.Status, now.Desc)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
