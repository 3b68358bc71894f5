package agent

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// noInterface does not exist: what passes all checks fails there, and no interface of the machine is used.
const noInterface = "candela-none"

// FuzzRequests calls an agent with a list of arbitrary requests, each a byte for the call, two for the length, and the
// message. The agent must answer with a proper status, write only below its directory, and serve the next request.
func FuzzRequests(f *testing.F) {
	spec := &testbeds.Spec{Seed: 1, Connections: []testbeds.Connection{{MTU: 1024, AckTimeout: 14}}}
	prepare := prepareRequest("fuzz",
		Host{Interface: noInterface, Side: generator.Requester, NIC: testbeds.Host{Name: "h", Profile: "spec"}, Spec: spec})
	prepare.Connections[0].LocalIp = []byte{10, 0, 0, 1}
	prepare.Nic.Ips = [][]byte{{10, 0, 0, 1}}
	seeds := []proto.Message{
		prepare, &agentpb.ConnectRequest{Run: "fuzz", Peers: []*agentpb.End{endToProto(live.End{})}},
		&agentpb.StartRequest{Run: "fuzz"},
		&agentpb.WaitRequest{Run: "fuzz", TimeoutNs: 1}, &agentpb.CountersRequest{Run: "fuzz"},
		&agentpb.ReportRequest{Run: "fuzz"},
		&agentpb.ReleaseRequest{Run: "fuzz"},
		&agentpb.RecordRequest{Run: "fuzz", Name: "d", Interface: noInterface, Cores: 1, Snap: 128},
		&agentpb.FinishRequest{Run: "fuzz"}, &agentpb.DiscardRequest{Run: "fuzz"},
		&agentpb.RecordRequest{Run: "fuzz", Name: "../../x", Interface: noInterface},
	}
	all := []byte(nil)
	for i, m := range seeds {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		one := append(binary.BigEndian.AppendUint16([]byte{byte(i % len(fuzzedCalls(nil)))}, uint16(len(raw))), raw...)
		f.Add(one)
		all = append(all, one...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		s := fuzzedServer(t, filepath.Join(dir, "agent"))
		calls := fuzzedCalls(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for len(data) >= 3 {
			call, n := calls[int(data[0])%len(calls)], min(int(binary.BigEndian.Uint16(data[1:])), len(data)-3)
			raw := data[3 : 3+n]
			data = data[3+n:]
			if err := call(ctx, raw); err != nil && status.Code(err) == codes.Unknown {
				t.Errorf("an error without a code: %v", err)
			}
		}
		if _, err := s.Describe(ctx, &agentpb.DescribeRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("afterwards: %v", err) // for the interface is not there
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("outside of the agent's directory: %v, %v", entries, err)
		}
	})
}

// fuzzedServer is an agent that a run holds.
func fuzzedServer(t *testing.T, dir string) *Server {
	t.Helper()
	s := &Server{cfg: Config{Interfaces: []string{noInterface}, Dir: dir,
		Limits: Limits{Connections: 64, Messages: 1000, CaptureBytes: 1 << 20, Cores: 2}}}
	s.cfg.setDefaults()
	if err := os.MkdirAll(filepath.Join(dir, runsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.root, err = os.OpenRoot(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.acquire(t.Context(), "fuzz"); err != nil {
		t.Fatal(err)
	}
	return s
}

// fuzzedCalls are the agent's calls with a single answer.
func fuzzedCalls(s *Server) []func(context.Context, []byte) error {
	return []func(context.Context, []byte) error{
		decoded(s.Prepare), decoded(s.Connect), decoded(s.Start), decoded(s.Wait), decoded(s.Counters), decoded(s.Report),
		decoded(s.Release),
		decoded(s.Record), decoded(s.Finish), decoded(s.Discard),
	}
}

// decoded makes a call from bytes, or none if they are not a message.
func decoded[Q any, A any, P interface {
	*Q
	proto.Message
}](call func(context.Context, P) (A, error)) func(context.Context, []byte) error {
	return func(ctx context.Context, raw []byte) error {
		q := P(new(Q))
		if proto.Unmarshal(raw, q) != nil {
			return nil
		}
		_, err := call(ctx, q)
		return err
	}
}
