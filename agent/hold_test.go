package agent_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/agent"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// silent is an agent that takes requests for the machine and does not answer them.
type silent struct {
	agentpb.UnimplementedAgentServer
}

func (silent) Lease(s grpc.BidiStreamingServer[agentpb.LeaseRequest, agentpb.LeaseResponse]) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// Nobody holds a machine whose agent did not answer in time, and the error says how long that was.
func TestAMachineIsNotHeldWithoutAnAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := bufconn.Listen(1 << 16)
		server := grpc.NewServer()
		agentpb.RegisterAgentServer(server, silent{})
		go func() { _ = server.Serve(lis) }() // ends with Stop
		defer server.Stop()
		conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}()
		lease, err := agent.NewClient("host", conn, "run-1").Hold(t.Context())
		if lease != nil || status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "no answer within 5s") {
			t.Errorf("lease %v, error %v", lease, err)
		}
	})
}
