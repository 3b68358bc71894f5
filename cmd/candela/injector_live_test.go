//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds/netns"
)

// onTCP forwards a TCP port of loopback to a unix socket until the test ends.
func onTCP(t *testing.T, socket string) (address string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { lis.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			caller, err := lis.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				caller.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{caller, server}, {server, caller}} {
				serving.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					caller.Close()
					server.Close()
				})
			}
		}
	})
	return lis.Addr().String()
}

// foreignBed describes the machines of a testbed of namespaces as a lab with a third-party injector.
func foreignBed(t *testing.T, s *netns.State, address string, info *p4.Info) *config.Testbed {
	t.Helper()
	dir := t.TempDir()
	text, err := prototext.Marshal(info.Proto())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"p4info.txtpb": text, "config.bin": []byte("for nobody")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	station := func(n *netns.Node) string {
		return fmt.Sprintf(`{agent: "unix:%s", interface: %s, port: %d}`, n.Socket, n.Interface, n.Port)
	}
	var dumpers, machines []string
	for i := range s.Dumpers {
		dumpers = append(dumpers, fmt.Sprintf("{name: %s, cores: 1}", s.Dumpers[i].Name))
		machines = append(machines, station(&s.Dumpers[i]))
	}
	yaml := fmt.Sprintf(`name: foreign
kind: lab
links: {requester: {rate-gbps: 1}, responder: {rate-gbps: 1}}
mirror: {snap-bytes: 128}
dumpers: [%s]
live: {requester: %s, responder: %s, dumpers: [%s]}
injector:
  p4runtime: %s
  device-id: 1
  pipeline: {p4info: %s/p4info.txtpb, device-config: %s/config.bin}
`, strings.Join(dumpers, ", "), station(&s.Hosts[0]), station(&s.Hosts[1]), strings.Join(machines, ", "), address, dir,
		dir)
	bed, err := config.ParseTestbed("foreign.yml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return bed
}

func TestALabsInjectorMayBeAnyP4RuntimeServerOnTCP(t *testing.T) {
	needLive(t)
	for _, datapath := range []string{"afpacket", "xdp"} {
		t.Run(datapath, func(t *testing.T) {
			b := bringUp(t, datapath, 2)
			info := p4.Base()
			if datapath == "afpacket" {
				info = p4.Software()
			}
			bed := foreignBed(t, &b.State, onTCP(t, b.State.Switch.Socket), info)
			for round := range 2 { // the second round finds its pipeline installed
				v := runForeign(t, bed)
				if v.Exit != orchestrator.ExitPass {
					t.Errorf("round %d: exit status %v: %q", round+1, v.Exit, v.Reasons)
				}
			}
		})
	}
}

// runForeign runs a test with two drops on a testbed, as candela run does.
func runForeign(t *testing.T, bed *config.Testbed) orchestrator.Verdict {
	t.Helper()
	test, err := config.Parse("live.yml", []byte(twoDrops), configOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	test.Testbed = bed
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	var live livebeds
	for range 5 {
		out, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), bed),
			orchestrator.Options{Out: t.TempDir(), ID: "foreign", Wall: time.Now, NoReports: true})
		if err != nil {
			t.Fatal(err)
		}
		if !keptWaiting(out) {
			return out.Verdict
		}
	}
	t.Skip("SKIP-busy: five runs in a row were called off")
	return orchestrator.Verdict{}
}
