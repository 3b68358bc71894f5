package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/injector/transport"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/runtimetest"
)

// TestARunningAgentExportsWhatItServed asks a process of the command and reads its metrics over HTTP.
func TestARunningAgentExportsWhatItServed(t *testing.T) {
	runtimetest.SkipRace(t)
	metrics := unusedAddress(t)
	dir, err := os.MkdirTemp("", "cdm") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	address := "unix:" + filepath.Join(dir, "agent")
	startServing(t, "agent", "--listen", address, "--interface", "lo", "--dir", filepath.Join(dir, "captures"), "--verbs=",
		"--metrics", metrics)
	conn, err := transport.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const asked = 3
	for range asked {
		if _, err := agentpb.NewAgentClient(conn).Describe(ctx, &agentpb.DescribeRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	text := scrape(t, metrics)
	for _, want := range []string{
		fmt.Sprintf(`candela_agent_requests_total{code="OK",method="%s"} %d`, agentpb.Agent_Describe_FullMethodName, asked),
		`candela_build_info{command="agent",version="`, `candela_dumper_frames_total{fate="dropped"} 0`,
		"candela_agent_held 0", "process_open_fds ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// unusedAddress returns an address on which nobody listens.
func unusedAddress(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	return free.Addr().String()
}

// startServing starts a server of the command, waits until it serves, and ends it with the test.
func startServing(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	words := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(log).ReadString('\n')
		words <- line
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	select {
	case line := <-words:
		if !strings.Contains(line, "serving") {
			t.Fatalf("%s said %q", args[0], line)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not start within 30 s", args[0])
	}
}

// scrape returns the metrics that a process serves. They are as promtool wants them, where it is installed.
func scrape(t *testing.T, address string) string {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	var answer *http.Response
	var err error
	for range 50 { // the metrics are served after the first word
		if answer, err = client.Get("http://" + address + "/metrics"); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Errorf("the metrics cannot be parsed: %v", err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "candela_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		check.Stdin = bytes.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
	return string(text)
}

// TestARunningSwitchExportsWhatItCountedAndLost sends frames through a process of the command, with sockets in place of
// interfaces, and reads its metrics over HTTP.
func TestARunningSwitchExportsWhatItCountedAndLost(t *testing.T) {
	runtimetest.SkipRace(t)
	dir, err := os.MkdirTemp("", "cds") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := func(name string) string { return filepath.Join(dir, name) }
	var peers [2]*net.UnixConn // a host and the dumper; nobody is at port b
	for i, name := range []string{"a", "d"} {
		peers[i], err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path(name) + softswitch.PeerSocket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = peers[i].Close() })
	}
	metrics, address := unusedAddress(t), "unix:"+path("switch")
	startServing(t, "switchd", "--listen", address, "--datapath", "qemu", "--ports", path("a")+","+path("b"), "--mirror",
		path("d"), "--metrics", metrics)
	conn, err := transport.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := injector.Connect(ctx, conn, injector.Config{Target: "switch", DeviceID: 1, ElectionLow: 1})
	if err != nil {
		t.Fatal(err)
	}
	setup := injector.Setup{FloodPorts: []uint16{0, 1}, Mirrors: []injector.Mirror{{Port: 2, Weight: 1}}}
	_, err = client.Program(ctx, setup, nil, nil)
	if err := errors.Join(err, client.OpenGate(ctx)); err != nil {
		t.Fatal(err)
	}
	const sent = 3
	frame := datapathtest.FlowFrame(0)
	for range sent {
		if _, err := peers[0].WriteToUnix(frame, &net.UnixAddr{Name: path("a") + softswitch.SwitchSocket,
			Net: "unixgram"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := peers[1].SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for range sent { // the copies have left, so everything is counted
		if _, err := peers[1].Read(make([]byte, 1<<16)); err != nil {
			t.Fatal(err)
		}
	}
	text := scrape(t, metrics)
	a, b, d := path("a"), path("b"), path("d")
	for _, want := range []string{
		fmt.Sprintf(`candela_switch_roce_packets_total{direction="rx",interface=%q,port="0"} %d`, a, sent),
		fmt.Sprintf(`candela_switch_roce_packets_total{direction="tx",interface=%q,port="0"} 0`, a),
		fmt.Sprintf(`candela_switch_roce_packets_total{direction="tx",interface=%q,port="1"} %d`, b, sent),
		fmt.Sprintf(`candela_switch_mirrored_packets_total{session="1"} %d`, sent),
		fmt.Sprintf(`candela_switch_unsent_frames_total{interface=%q,port="1"} %d`, b, sent),
		fmt.Sprintf(`candela_switch_unsent_frames_total{interface=%q,port="2"} 0`, d),
		fmt.Sprintf(`candela_switch_missed_frames_total{interface=%q,port="0"} 0`, a),
		fmt.Sprintf(`candela_switch_pause_frames_total{interface=%q,port="0"} 0`, a),
		"candela_switch_up 1", `candela_build_info{command="switchd",version="`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s\n%s", want, candelaLines(text))
		}
	}
}

// candelaLines returns the metrics of this program.
func candelaLines(text string) (lines string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "candela_") {
			lines += line
		}
	}
	return lines
}
