//go:build linux

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent"
	"candela.dev/candela/link/linktest"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// TestARunWhoseOrchestratorFallsSilentIsReleased: a machine that lost its power, or hangs, never ends its stream.
func TestARunWhoseOrchestratorFallsSilentIsReleased(t *testing.T) {
	serve(t, agent.Config{Lease: 50 * time.Millisecond, Silence: 50 * time.Millisecond}, func(conn *grpc.ClientConn) {
		stream, err := agentpb.NewAgentClient(conn).Lease(t.Context())
		if err == nil {
			err = stream.Send(&agentpb.LeaseRequest{Run: "silent"})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		host := agentpb.NewHostClient(conn)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			_, err := host.Release(within(t), &agentpb.ReleaseRequest{Run: "silent"})
			if status.Code(err) == codes.FailedPrecondition {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("still held: %v", err)
			}
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Aborted && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the stream ends with %v", err)
		}
	})
}

func TestStreamsWithoutADeadlineAreRefused(t *testing.T) {
	serve(t, agent.Config{}, func(conn *grpc.ClientConn) {
		c := agent.NewClient("m", conn, "r")
		lease, err := c.Hold(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Close()
		fetch, err := agentpb.NewDumperClient(conn).Fetch(t.Context(), &agentpb.FetchRequest{Run: "r"})
		if err == nil {
			_, err = fetch.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("fetch: %v", err)
		}
		listen, err := agentpb.NewAgentClient(conn).Neighbours(t.Context(),
			&agentpb.NeighboursRequest{Run: "r", Interface: "b", TimeoutNs: 1})
		if err == nil {
			_, err = listen.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("neighbours: %v", err)
		}
		for name, q := range map[string]*agentpb.NeighboursRequest{
			"for ever": {Run: "r", Interface: "b", TimeoutNs: int64(time.Hour)}, "no time at all": {Run: "r", Interface: "b"},
			"on an interface of others": {Run: "r", Interface: "lo", TimeoutNs: 1},
			"for another run":           {Run: "s", Interface: "b", TimeoutNs: 1},
		} {
			listen, err := agentpb.NewAgentClient(conn).Neighbours(within(t), q)
			if err == nil {
				_, err = listen.Recv()
			}
			if c := status.Code(err); c != codes.InvalidArgument && c != codes.FailedPrecondition {
				t.Errorf("neighbours %s: %v", name, err)
			}
		}
	})
}

// TestADirectoryOfSomebodyElseIsRefused: the agent, as root, removes what earlier runs left in its directory. In /tmp
// any user can create that directory first, as a link to another place.
func TestADirectoryOfSomebodyElseIsRefused(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		above := t.TempDir()
		precious := filepath.Join(above, "victim", "runs", "precious")
		for name, tt := range map[string]struct {
			make func(dir string) error
			want string
		}{
			"a link": {func(dir string) error { return os.Symlink(filepath.Join(above, "victim"), dir) },
				"is a link"},
			"another owner":        {func(dir string) error { return os.Chown(dir, 12345, 12345) }, "belongs to user 12345"},
			"all may write":        {func(dir string) error { return os.Chmod(dir, 0o777) }, "others may write"},
			"a group may write":    {func(dir string) error { return os.Chmod(dir, 0o770) }, "others may write"},
			"a file":               {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "not a directory"},
			"one of our own is ok": {func(dir string) error { return os.Chmod(dir, 0o755) }, ""},
		} {
			if err := os.MkdirAll(precious, 0o700); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(above, strings.ReplaceAll(name, " ", "-"))
			if name != "a link" && name != "a file" {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.make(dir); err != nil {
				t.Fatal(err)
			}
			s, err := agent.Open(agent.Config{Interfaces: []string{"b"}, Dir: dir})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
			if err == nil {
				_ = s.Close()
			}
			if _, err := os.Stat(precious); err != nil {
				t.Fatalf("%s: what was there is gone: %v", name, err)
			}
		}
	})
}
