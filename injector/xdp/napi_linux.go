package xdp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sysClassNet has the interfaces of the network namespace that /sys was mounted in: a process that enters a namespace
// must mount /sys again.
const sysClassNet = "/sys/class/net"

// napi is an interface whose receive processing runs in kernel threads on one CPU.
type napi struct {
	name    string
	before  string // of the file threaded
	threads []int  // process ids
}

// pin moves the receive processing of an interface to one CPU: the kernel runs it in threads, which can be bound.
func pin(name string, cpu int) (*napi, error) {
	file := filepath.Join(sysClassNet, name, "threaded")
	before, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("put %q on CPU %d: %w", name, cpu, err)
	}
	n := &napi{name: name, before: strings.TrimSpace(string(before))}
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		return nil, fmt.Errorf("put %q on CPU %d: threaded receive processing: %w", name, cpu, err)
	}
	if err := n.bind(cpu); err != nil {
		return nil, errors.Join(err, n.restore())
	}
	return n, nil
}

// bind puts the interface's threads on a CPU, with the priority of this process if that is higher than theirs.
func (n *napi) bind(cpu int) (err error) {
	if n.threads, err = napiThreads(n.name); err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(cpu)
	for _, pid := range n.threads {
		if err := unix.SchedSetaffinity(pid, &set); err != nil {
			return fmt.Errorf("put %q on CPU %d: thread %d: %w", n.name, cpu, pid, err)
		}
		if err := raise(pid); err != nil {
			return fmt.Errorf("priority of the receive processing of %q: %w", n.name, err)
		}
	}
	return nil
}

// raise gives a thread this process's priority if that is above the ordinary one.
func raise(pid int) error {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // of the system call: 20 minus the nice value
	if nice := 20 - own; err == nil && nice < 0 {
		err = unix.Setpriority(unix.PRIO_PROCESS, pid, nice)
	}
	return err
}

// rebind binds new threads of the kernel: they end when an interface goes down, and those of the next up are not bound.
// An interface that is down has none.
func (n *napi) rebind(cpu int) error {
	for _, pid := range n.threads {
		comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		if err == nil && strings.HasPrefix(string(comm), "napi/"+n.name+"-") {
			return nil
		}
	}
	threads, err := threadsNamed("napi/" + n.name + "-")
	if err != nil || len(threads) == 0 {
		return err
	}
	return n.bind(cpu)
}

// restore undoes pin. An interface that is gone has nothing to restore.
func (n *napi) restore() error {
	err := os.WriteFile(filepath.Join(sysClassNet, n.name, "threaded"), []byte(n.before), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore receive processing of %q: %w", n.name, err)
	}
	return nil
}

// napiThreads returns the kernel threads of an interface; they may take a moment to appear.
func napiThreads(name string) ([]int, error) {
	for deadline := time.Now().Add(napiWait); ; time.Sleep(time.Millisecond) {
		threads, err := threadsNamed("napi/" + name + "-")
		if err != nil || len(threads) > 0 {
			return threads, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("interface %q has no thread napi/%s-* %v after threads were enabled", name, name,
				napiWait)
		}
	}
}

// threadsNamed returns the processes whose command starts with a prefix. Interfaces of other namespaces may have the
// same name; their threads must not be bound, so more threads than receive queues are an error of Check.
func threadsNamed(prefix string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		if err == nil && strings.HasPrefix(string(comm), prefix) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Check reports what would invalidate a run: ports that frames cannot be redirected to, which the kernel does not
// report, and what makes sequence numbers, stamps and ITER of different ports disagree: several receive queues on a
// port, or ports on different CPUs.
func (d *Datapath) Check() error {
	var failed []error
	for i, p := range d.ports {
		ok, err := canTransmit(p.ifindex)
		switch {
		case d.mode == ModeGeneric: // the stack sends
		case err != nil:
			failed = append(failed, fmt.Errorf("port %d: interface %q: %w", i, p.name, err))
		case !ok:
			failed = append(failed,
				fmt.Errorf("port %d: frames redirected to interface %q get lost: its driver can't send them; "+
					"the peer of a veth needs an XDP program or GRO (ethtool -K PEER gro on)", i, p.name))
		}
	}
	if !d.cfg.MultiQueue {
		failed = append(failed, d.checkOneCPU())
	}
	return errors.Join(failed...)
}

func (d *Datapath) checkOneCPU() error {
	var failed []error
	for i, p := range d.ports {
		queues, err := filepath.Glob(filepath.Join(sysClassNet, p.name, "queues", "rx-*"))
		if err != nil || len(queues) > 1 {
			failed = append(failed, fmt.Errorf("port %d: interface %q has %d receive queues, allowed is one: "+
				"ethtool -L %s combined 1 (or rx 1), or allow several queues", i, p.name, len(queues), p.name))
		}
		if err := p.checkPlace(d.cfg.CPU); err != nil {
			failed = append(failed, fmt.Errorf("port %d: %w", i, err))
		}
	}
	return errors.Join(failed...)
}

// checkPlace reads back where a port's receive processing runs.
func (p *port) checkPlace(cpu int) error {
	if p.napi == nil {
		return fmt.Errorf("interface %q: nobody bound its receive processing to a CPU", p.name)
	}
	for _, pid := range p.napi.threads {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &set); err != nil {
			return fmt.Errorf("interface %q: thread %d: %w", p.name, pid, err)
		}
		if set.Count() != 1 || !set.IsSet(cpu) {
			return fmt.Errorf("interface %q: thread %d may run on %d CPUs, wanted CPU %d alone", p.name, pid, set.Count(), cpu)
		}
	}
	if _, err := net.InterfaceByName(p.name); err != nil {
		return fmt.Errorf("interface %q: %w", p.name, err)
	}
	return nil
}
