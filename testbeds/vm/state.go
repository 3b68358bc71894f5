package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"candela.dev/candela/testbeds/procfs"
)

// state is the state.json that a detached testbed leaves for later commands.
type state struct {
	Schema   string              `json:"schema"`
	Name     string              `json:"name"`
	Image    string              `json:"image"`
	Memory   int                 `json:"memory_mib"`
	Dumpers  []string            `json:"dumpers"`
	Restored bool                `json:"restored"`
	KVM      bool                `json:"kvm"`
	Switch   *process            `json:"switch"`
	Guests   map[string]*process `json:"guests"`
}

const (
	stateSchema = "candela.vm-testbed/v1"
	stateFile   = "state.json"
	lockFile    = "lock"
)

// stateRoot is the directory of detached testbeds. It must be short, because socket paths are limited.
func stateRoot() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && len(dir) < 40 {
		return filepath.Join(dir, "candela-vm")
	}
	return filepath.Join("/tmp", fmt.Sprintf("candela-vm-%d", os.Getuid()))
}

func join(list []string) string { return strings.Join(list, ",") }

func (c *Config) directory() (string, error) {
	if !c.Detach {
		return os.MkdirTemp("", "candela-vm") // short, because it holds sockets
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return "", err
	}
	if err := checkOwn(c.StateDir); err != nil {
		return "", err
	}
	dir := filepath.Join(c.StateDir, c.Name)
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("it is up already, or its remains are there: candela testbed down %s", c.Name)
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// save writes the state, also of an incomplete testbed.
func (g *Guests) save() error {
	s := state{
		Schema: stateSchema, Name: g.cfg.Name, Image: g.cfg.Image, Memory: g.cfg.Memory, Dumpers: g.cfg.Dumpers, Switch: g.sw,
		Guests: make(map[string]*process),
	}
	for _, one := range g.guests {
		if one != nil && one.process != nil {
			s.Guests[one.name], s.Restored, s.KVM = one.process, one.restored, one.kvm
		}
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fresh := filepath.Join(g.dir, stateFile+".new")
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(g.dir, stateFile))
}

// checkOwn refuses a directory that another user controls: its state lists the processes to end, and in /tmp anyone can
// create it first.
func checkOwn(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case ok && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("directory %s belongs to user %d, not to this one: what it says about processes is not believed",
			dir, owner.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("directory %s has mode %v: others may write there; chmod go-w %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// load reads the state of a testbed; it returns os.ErrNotExist if there is none.
func load(dir string) (*state, error) {
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := checkOwn(d); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	var s state
	err = json.Unmarshal(text, &s)
	if err == nil && s.Schema != stateSchema {
		err = fmt.Errorf("schema %q, want %s", s.Schema, stateSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; to remove what is left of the testbed: candela testbed down %s",
			filepath.Join(dir, stateFile), err, filepath.Base(dir))
	}
	return &s, nil
}

// ErrDown reports that no testbed of that name is up.
var ErrDown = errors.New("the testbed is not up")

// Attach attaches to a testbed that [Up] left with Config.Detach, or returns ErrDown. The testbed stays when the Guests
// are closed. One process can be attached at a time.
func Attach(ctx context.Context, cfg Config) (_ *Guests, err error) {
	cfg.setState()
	g := &Guests{attached: true, dir: filepath.Join(cfg.StateDir, cfg.Name), watched: newWatches()}
	s, err := load(g.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, ErrDown
	case err != nil:
		return nil, fmt.Errorf("testbed %s: %w", cfg.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("testbed %s: %w", cfg.Name, err), g.Close())
		}
	}()
	if err := g.take(); err != nil {
		return nil, err
	}
	if join(s.Dumpers) != join(cfg.Dumpers) {
		return nil, fmt.Errorf("it is up with the dumpers %q, its description has %q: candela testbed down %s", s.Dumpers,
			cfg.Dumpers, cfg.Name)
	}
	if err := cfg.chooseImage(); err != nil {
		return nil, err
	}
	if cfg.Image != "" && s.Image != cfg.Image {
		return nil, fmt.Errorf("it is up with the image %s, not with %s: candela testbed down %s", s.Image, cfg.Image,
			cfg.Name)
	}
	cfg.Image, cfg.Memory = s.Image, s.Memory
	if g.image, err = cfg.setDefaults(); err != nil {
		return nil, err
	}
	g.cfg = cfg
	g.adopt(s)
	if dead := g.Dead(); len(dead) > 0 || g.sw == nil || g.one() == nil {
		return nil, fmt.Errorf("%s has ended: candela testbed down %s%s", strings.Join(dead, " and "), cfg.Name,
			g.lastWords())
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range g.guests {
		if one != nil {
			group.Go(func() error { return one.connect(ctx, restoreTime, 0) })
		}
	}
	return g, group.Wait()
}

func (g *Guests) adopt(s *state) {
	if s.Switch != nil {
		g.sw = s.Switch
		g.sw.watch(g.watched)
	}
	for side, name := range names() {
		if p := s.Guests[name]; p != nil {
			p.watch(g.watched)
			g.guests[side] = &guest{name: name, dir: g.dir, process: p, restored: s.Restored, kvm: s.KVM}
		}
	}
}

func (g *Guests) take() (err error) {
	if g.lock, err = os.OpenFile(filepath.Join(g.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := syscall.Flock(int(g.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another command uses it: %w", err)
	}
	return nil
}

// Down ends a detached testbed, or its remains. A missing testbed is not an error.
func Down(cfg Config) error {
	cfg.setState()
	dir := filepath.Join(cfg.StateDir, cfg.Name)
	for _, d := range []string{cfg.StateDir, dir} {
		if err := checkOwn(d); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("testbed %s: %w", cfg.Name, err)
		}
	}
	s, err := load(dir)
	if err != nil {
		if err = salvage(dir); err != nil {
			err = fmt.Errorf("testbed %s: %w", cfg.Name, err)
		}
		return err
	}
	g := &Guests{cfg: cfg, dir: dir, watched: newWatches()}
	g.adopt(s)
	if err := g.end(); err != nil {
		return fmt.Errorf("testbed %s: %w", cfg.Name, err)
	}
	return nil
}

// salvage ends a testbed whose state can't be read, by the processes that serve its sockets.
func salvage(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s is of another user", dir)
	}
	pids, err := procfs.Serving(dir)
	failed := []error{err}
	for _, pid := range pids {
		p := &process{ID: pid}
		if p.Start, err = startOf(pid); err != nil {
			continue // it has ended
		}
		watched := newWatches()
		p.watch(watched)
		failed = append(failed, p.kill())
		watched.end()
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// State describes briefly whether a testbed is up.
func State(cfg Config) string {
	cfg.setState()
	s, err := load(filepath.Join(cfg.StateDir, cfg.Name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "no"
	case err != nil:
		return err.Error()
	}
	g := &Guests{watched: newWatches()}
	defer g.watched.end()
	g.adopt(s)
	if dead := g.Dead(); len(dead) > 0 {
		return "broken: " + strings.Join(dead, " and ") + " ended"
	}
	return "yes"
}
