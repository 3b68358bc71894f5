//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/link"
	"candela.dev/candela/testbeds/netns"
)

// TestALabTellsWhoIsAtTheOtherEndOfItsCables sends LLDP from the switch's ports, with correct neighbours in the
// description and then a wrong one.
func TestALabTellsWhoIsAtTheOtherEndOfItsCables(t *testing.T) {
	needLive(t)
	b := bringUp(t, "afpacket", 1)
	s := &b.State
	speakers := speakersOf(t, s)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for i, x := range speakers {
				frame := lldpFrame("rack-7", fmt.Sprintf("Ethernet1/%d", i))
				if err := errors.Join(x.Queue(frame), x.Flush()); err != nil {
					t.Error(err)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	defer func() { close(stop); <-done }()
	description := labOf(t, s, func(n *netns.Node) string { return "unix:" + n.Socket }, "")
	check := func(flags ...string) string {
		t.Helper()
		var said bytes.Buffer
		run(t.Context(), append([]string{"testbed", "check", description}, flags...), io.Discard, &said)
		return said.String()
	}
	checkFit(t, description) // also while the switch sends LLDP
	named(t, description, "requester", `{system: rack-7, port: Ethernet1/0}`)
	named(t, description, "responder", `{port: Ethernet1/1}`)
	said := check()
	for i, n := range []*netns.Node{&s.Hosts[0], &s.Hosts[1], &s.Dumpers[0]} {
		if want := fmt.Sprintf("%s: LLDP neighbour on %s: rack-7 port Ethernet1/%d\n", n.Name, n.Interface,
			i); !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	const wrong = "the description says that "
	if strings.Contains(said, wrong) {
		t.Errorf("the right neighbours are taken for wrong ones:\n%s", said)
	}
	named(t, description, "requester", `{system: rack-7, port: Ethernet1/1}`)
	want := "problem: requester: " + wrong + s.Hosts[0].Interface +
		" is cabled to rack-7 port Ethernet1/1; LLDP says rack-7 port Ethernet1/0\n"
	if said := check("--lldp-wait", "1s"); !strings.Contains(said, want) || strings.Count(said, wrong) != 1 {
		t.Errorf("no %q, or more of that, in:\n%s", want, said)
	}
}

// named adds the neighbour of a machine to the description of a lab.
func named(t *testing.T, description, machine, neighbour string) {
	t.Helper()
	text, err := os.ReadFile(description)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), machine+": {agent")
	here, after, _ := strings.Cut(rest, "}")
	if !ok {
		t.Fatalf("no %s in %s", machine, text)
	}
	if own, _, had := strings.Cut(here, ", neighbour: "); had {
		here, after = own, strings.TrimPrefix(after, "}")
	}
	changed := before + machine + ": {agent" + here + ", neighbour: " + neighbour + "}" + after
	if err := os.WriteFile(description, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// speakersOf returns a sender at the switch's end of each cable, created in the switch's namespace.
func speakersOf(t *testing.T, s *netns.State) (list []*link.Sender) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread remains in the namespace and ends
		failed <- func() error {
			ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.Switch.Process.PID))
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			for _, n := range s.Nodes()[1:] {
				x, err := link.OpenSender(strings.Replace(n.Interface, "n", "p", 1))
				if err != nil {
					return err
				}
				list = append(list, x)
			}
			return nil
		}()
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, x := range list {
			_ = x.Close()
		}
	})
	return list
}

// lldpFrame returns a frame with the name of a system and a port (IEEE Std 802.1AB, clause 8).
func lldpFrame(system, port string) []byte {
	frame := []byte("\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x07\x88\xcc")
	for _, x := range []struct {
		kind  byte
		value string
	}{{1, "\x04\x02\x00\x00\x00\x00\x07"}, {2, "\x05" + port}, {3, "\x00\x78"}, {5, system}, {0, ""}} {
		frame = append(append(frame, x.kind<<1, byte(len(x.value))), x.value...)
	}
	return frame
}
