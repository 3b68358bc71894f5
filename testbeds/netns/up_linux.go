package netns

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"candela.dev/candela/agent"
	"candela.dev/candela/injector/transport"
	injectorpb "candela.dev/candela/proto/injector/v1"
)

// startTime bounds each phase of bringing a testbed up.
const startTime = 20 * time.Second

// Bed is a testbed that this process has made.
type Bed struct {
	State    State
	launcher *launcher
	detached bool
}

// Up makes a testbed. Without Detach it ends with the Bed's Close or with this process.
func Up(ctx context.Context, cfg Config) (_ *Bed, err error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("testbed: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("testbed %s: network namespaces need root", cfg.Name)
	}
	if cfg.Executable == "" {
		if cfg.Executable, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if err := clearDead(cfg.StateDir); err != nil {
		return nil, err
	}
	b := &Bed{launcher: newLauncher(), detached: cfg.Detach}
	b.State = State{Name: cfg.Name, Datapath: cfg.Datapath, MTU: cfg.mtu(), Dir: filepath.Join(cfg.StateDir, cfg.Name)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("testbed %s: %w", cfg.Name, err), b.remove())
		}
	}()
	if err := os.MkdirAll(cfg.StateDir, 0o755); err != nil {
		return nil, err
	}
	if _, err := claim(cfg.StateDir, cfg.Name); err != nil {
		b.State.Dir = "" // it isn't ours
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		return nil, inTheWay(cfg.StateDir, cfg.Name)
	}
	if !cfg.Detach {
		self, err := identify(os.Getpid())
		if err != nil {
			return nil, err
		}
		b.State.Owner = &self
	}
	err = b.build(ctx, &cfg)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return b, b.blame(err)
}

// blame returns the cause of a build error: a node whose process was killed or stopped takes precedence over an error
// that followed from it.
func (b *Bed) blame(err error) error {
	if err == nil {
		return nil
	}
	time.Sleep(blameGrace)
	if culprit := b.State.culprit(); culprit != nil {
		return culprit
	}
	return err
}

// blameGrace is the time for the cause of a failure to become visible.
const blameGrace = 50 * time.Millisecond

// build starts all nodes, cables them, and releases the agents, then the switch.
func (b *Bed) build(ctx context.Context, cfg *Config) error {
	s := &b.State
	tag, err := linkTag()
	if err != nil {
		return err
	}
	s.Hosts = [2]Node{{Name: "requester"}, {Name: "responder"}}
	for _, name := range cfg.Dumpers {
		s.Dumpers = append(s.Dumpers, Node{Name: name})
	}
	s.Switch = Node{Name: "switch"}
	var ports, mirrors []string
	var agents []*starting
	for i, n := range s.Nodes()[1:] {
		n.Port, n.Interface, n.Socket = uint16(i), fmt.Sprintf("%sn%d", tag, i), filepath.Join(s.Dir, n.Name+".sock")
		near := fmt.Sprintf("%sp%d", tag, i)
		if i < len(s.Hosts) {
			ports = append(ports, near)
		} else {
			mirrors = append(mirrors, near)
		}
		args := []string{"agent", "--listen", "unix:" + n.Socket, "--interface", n.Interface, "--dir",
			filepath.Join(s.Dir, n.Name)}
		if cfg.Datapath == "xdp" {
			args = append(args, "--xdp-pass")
		}
		x, err := b.launcher.launch(cfg, s.Dir, n, args)
		if err != nil {
			return err
		}
		agents = append(agents, x)
	}
	s.Switch.Socket = filepath.Join(s.Dir, "switch.sock")
	sw, err := b.launcher.launch(cfg, s.Dir, &s.Switch,
		[]string{"switchd", "--datapath", cfg.Datapath, "--ports", strings.Join(ports, ","),
			"--mirror", strings.Join(mirrors, ","), "--listen", "unix:" + s.Switch.Socket, "--cpu", strconv.Itoa(cfg.CPU)})
	if err != nil {
		return err
	}
	// From here on `testbed down` finds the processes.
	if err := s.save(); err != nil {
		return err
	}
	for _, x := range append(agents, sw) {
		if err := x.await(ctx); err != nil {
			return err
		}
	}
	for i, n := range s.Nodes()[1:] {
		if err := cable(&s.Switch, fmt.Sprintf("%sp%d", tag, i), n, cfg.mtu()); err != nil {
			return err
		}
	}
	for _, x := range agents {
		if err := x.release(); err != nil {
			return err
		}
	}
	// An XDP switch needs the programs at the far ends, so the agents start first.
	for _, x := range agents {
		if err := x.serving(ctx, describeAgent); err != nil {
			return err
		}
	}
	if err := sw.release(); err != nil {
		return err
	}
	if err := sw.serving(ctx, describeSwitch); err != nil {
		return err
	}
	return hurry(tag)
}

// linkTag returns a prefix for the names of a testbed's links. They must be unique on the machine, because the kernel's
// receive threads of all namespaces are named after their interfaces.
func linkTag() (string, error) {
	var b [3]byte
	_, err := rand.Read(b[:])
	return "cd" + hex.EncodeToString(b[:]), err
}

// cable joins a port of the switch to a node with a veth pair.
func cable(sw *Node, near string, node *Node, mtu int) error {
	fail := func(err error) error { return fmt.Errorf("link to %s: %w", node.Name, err) }
	here, err := inside(sw)
	if err != nil {
		return fail(err)
	}
	defer here.Close()
	there, err := inside(node)
	if err != nil {
		return fail(err)
	}
	defer there.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = near, mtu
	attributes.NumRxQueues, attributes.NumTxQueues = 1, 1
	err = here.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: node.Interface, PeerMTU: uint32(mtu),
		PeerNamespace: netlink.NsPid(node.Process.PID)})
	if err != nil {
		return fail(err)
	}
	return errors.Join(setUp(here, near), setUp(there, node.Interface))
}

// inside returns a netlink handle in the namespace of a node.
func inside(n *Node) (*netlink.Handle, error) {
	ns, err := netns.GetFromPid(n.Process.PID)
	if err != nil {
		return nil, fmt.Errorf("namespace of %s: %w", n.Name, err)
	}
	defer ns.Close()
	return netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
}

func setUp(h *netlink.Handle, name string) error {
	l, err := h.LinkByName(name)
	if err == nil {
		err = h.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func describeAgent(ctx context.Context, n *Node) error {
	conn, err := transport.Dial("unix:"+n.Socket, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = agent.NewClient(n.Name, conn, "up").Describe(ctx)
	return err
}

func describeSwitch(ctx context.Context, n *Node) error {
	conn, err := transport.Dial("unix:"+n.Socket, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, agent.CallTimeout)
	defer cancel()
	_, err = injectorpb.NewStatusClient(conn).Describe(ctx, &injectorpb.DescribeRequest{})
	return err
}

func (s *starting) serving(ctx context.Context, ask func(context.Context, *Node) error) error {
	for patience := newPatience(startTime); ; {
		err := error(os.ErrNotExist)
		if _, missing := os.Stat(s.node.Socket); missing == nil {
			err = s.asked(ctx, ask, patience)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.exited:
			return fmt.Errorf("%s has ended%s", s.node.Name, s.node.lastWords()) // its fate has the details
		case <-time.After(5 * time.Millisecond):
		}
		if patience.spent() {
			return fmt.Errorf("%s doesn't answer after %v: %w%s", s.node.Name, startTime, err, s.node.lastWords())
		}
	}
}

// asked asks the node until it answers, ends, or patience is spent.
func (s *starting) asked(ctx context.Context, ask func(context.Context, *Node) error, patience *patience) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- ask(ctx, s.node) }() // ends with ctx
	for {
		select {
		case err := <-answer:
			return err
		case <-s.exited:
			cancel()
			return <-answer
		case <-time.After(lookEvery):
			if patience.spent() {
				cancel()
				return <-answer
			}
		}
	}
}

const stateFile = "state.json"

func (s *State) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	// Rename is atomic: a reader, or a crash of this process, never sees half a file.
	fresh := filepath.Join(s.Dir, stateFile+".new")
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(s.Dir, stateFile))
}

// remove ends a testbed that failed to start or is being closed.
func (b *Bed) remove() error {
	err := b.State.end()
	b.launcher.stop()
	return err
}

// Close ends the testbed, unless it is detached.
func (b *Bed) Close() error {
	if b.detached {
		b.launcher.stop()
		return nil
	}
	return b.remove()
}

// end kills every process and removes the directory. The kernel then removes namespaces and links.
func (s *State) end() error {
	var failed []error
	for _, n := range s.Nodes() {
		if n.Process.PID != 0 {
			failed = append(failed, n.Process.kill(startTime))
		}
	}
	if err := errors.Join(failed...); err != nil || s.Dir == "" {
		return err
	}
	return os.RemoveAll(s.Dir)
}

// Load reads the state of a testbed; stateDir may be empty. It returns os.ErrNotExist if there is none.
func Load(stateDir, name string) (*State, error) {
	if stateDir == "" {
		stateDir = StateDir
	}
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("testbed %q: want lower-case letters, digits and inner hyphens", name)
	}
	dir := filepath.Join(stateDir, name)
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	s := &State{Dir: dir}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, damaged(dir, err)
	}
	if s.Name != name {
		return nil, damaged(dir, fmt.Errorf("it is of %q", s.Name))
	}
	for _, n := range s.Nodes() {
		if n.Process.PID <= 0 {
			return nil, damaged(dir, errors.New("it lacks processes"))
		}
	}
	return s, nil
}

// Dead names the nodes that have ended.
func (s *State) Dead() (names []string) {
	for _, n := range s.Nodes() {
		if !n.Process.Alive() {
			names = append(names, n.Name)
		}
	}
	return names
}

// List returns, by name, the testbeds that are up or left a state directory.
func List(stateDir string) ([]*State, error) {
	if stateDir == "" {
		stateDir = StateDir
	}
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []*State
	for _, e := range entries {
		if s, err := Load(stateDir, e.Name()); err == nil {
			list = append(list, s)
		}
	}
	return list, nil
}

// clearDead removes the remains of testbeds whose processes, or whose owner, are all gone.
func clearDead(stateDir string) error {
	list, err := List(stateDir)
	for _, s := range list {
		ownerless := s.Owner != nil && !s.Owner.Alive()
		if ownerless || len(s.Dead()) == len(s.Nodes()) {
			err = errors.Join(err, s.end())
		}
	}
	return errors.Join(err, clearStillborn(stateDir))
}

// makerFile names the process that makes a testbed. It is written before the directory is renamed into place, so a
// directory without it is not ours.
const makerFile = "maker.json"

// making is the prefix of directories that are not renamed yet.
const making = ".making-"

// claim makes the directory of a testbed, with its maker file. It returns os.ErrExist if the directory exists.
func claim(stateDir, name string) (string, error) {
	self, err := identify(os.Getpid())
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(self)
	if err != nil {
		return "", err
	}
	nameless, err := os.MkdirTemp(stateDir, making)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(stateDir, name)
	if err = os.WriteFile(filepath.Join(nameless, makerFile), append(text, '\n'), 0o600); err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, nameless, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", dir, err), os.RemoveAll(nameless))
	}
	return dir, nil
}

// readMaker returns the process that makes, or made, the testbed of a directory.
func readMaker(dir string) (p Process, err error) {
	text, err := os.ReadFile(filepath.Join(dir, makerFile))
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, err
	}
	if p.PID <= 0 {
		return p, fmt.Errorf("%s names no process", filepath.Join(dir, makerFile))
	}
	return p, nil
}

// clearStillborn removes directories of testbeds whose maker died before writing the state file; their processes died
// with it. A directory without a maker file is not ours and stays.
func clearStillborn(stateDir string) error {
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		dir := filepath.Join(stateDir, e.Name())
		if !e.IsDir() {
			continue
		}
		if maker, unknown := readMaker(dir); unknown != nil || maker.Alive() {
			continue
		}
		if _, missing := os.Stat(filepath.Join(dir, stateFile)); errors.Is(missing, os.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
