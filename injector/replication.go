package injector

import (
	"context"
	"errors"
	"fmt"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
)

// maxSessions bounds the clone sessions that a run sets up, one for each dumper.
const maxSessions = 64

// ErrRestart says that the target must be restarted before it can take another pipeline.
var ErrRestart = errors.New("restart the switch")

// clearReplication deletes our clone sessions and our multicast group before another pipeline is pushed. bmv2 keeps
// their copies through a push but loses their names: each would be copied twice from then on.
func (c *Client) clearReplication(ctx context.Context) error {
	for id := uint32(1); id <= maxSessions; id++ {
		deleted, err := c.unset(ctx, fmt.Sprintf("clone session %d", id), &p4pb.PacketReplicationEngineEntry{
			Type: &p4pb.PacketReplicationEngineEntry_CloneSessionEntry{
				CloneSessionEntry: &p4pb.CloneSessionEntry{SessionId: id},
			},
		})
		if err != nil {
			return err
		}
		if !deleted {
			break
		}
	}
	_, err := c.unset(ctx, fmt.Sprintf("multicast group %d", p4.FloodGroup), &p4pb.PacketReplicationEngineEntry{
		Type: &p4pb.PacketReplicationEngineEntry_MulticastGroupEntry{
			MulticastGroupEntry: &p4pb.MulticastGroupEntry{MulticastGroupId: p4.FloodGroup}}})
	return err
}

// unset deletes an entry of the replication engine, and reports whether it was there.
func (c *Client) unset(ctx context.Context, what string, e *p4pb.PacketReplicationEngineEntry) (deleted bool,
	err error) {
	entity := &p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: e}}
	err = c.write(ctx, []update{{&p4pb.Update{Type: p4pb.Update_DELETE, Entity: entity}, func() string { return what }}})
	code := status.Code(err)
	if refused, ok := errors.AsType[*WriteError](err); ok {
		code = refused.Failed[0].Code
	}
	switch {
	case err == nil:
		return true, nil
	case code == codes.NotFound:
		return false, nil
	case ctx.Err() != nil:
		return false, err
	}
	return false, fmt.Errorf("the switch runs another pipeline, whose %s cannot be deleted before ours is pushed; it "+
		"could copy packets twice: %w: %w",
		what, ErrRestart, err)
}
