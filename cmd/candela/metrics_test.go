package main

import (
	"bufio"
	"context"
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

	"candela.dev/candela/injector/transport"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/runtimetest"
)

// TestARunningAgentExportsWhatItServed asks a process of the command and reads its metrics over HTTP.
func TestARunningAgentExportsWhatItServed(t *testing.T) {
	runtimetest.SkipRace(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cdm") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	address := "unix:" + filepath.Join(dir, "agent")
	cmd := exec.Command(os.Args[0], "agent", "--listen", address, "--interface", "lo", "--dir",
		filepath.Join(dir, "captures"), "--verbs=", "--metrics", metrics)
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
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case line := <-words:
		if !strings.Contains(line, "serving") {
			t.Fatalf("the agent said %q", line)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the agent did not start within 30 s")
	}
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
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf(`candela_agent_requests_total{code="OK",method="%s"} %d`, agentpb.Agent_Describe_FullMethodName, asked),
		`candela_build_info{command="agent",version="`, `candela_dumper_frames_total{fate="dropped"} 0`,
		"candela_agent_held 0", "process_open_fds ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
