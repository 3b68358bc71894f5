package agent

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"candela.dev/candela/framelog"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// probeSlots is how many frames a ring holds that is looked at every listenStep.
const (
	probeSlots = 256
	listenStep = 5 * time.Millisecond
)

// Listen counts the probe frames that come in.
func (s *Server) Listen(q *agentpb.ListenRequest, stream grpc.ServerStreamingServer[agentpb.ListenResponse]) error {
	timeout := time.Duration(q.GetTimeoutNs())
	if _, ok := stream.Context().Deadline(); !ok {
		return refuse("the call has no deadline")
	}
	if timeout <= 0 || timeout > maxListen {
		return refuse("timeout %v: allowed are up to %v", timeout, maxListen)
	}
	r, err := s.current(q.GetRun())
	if err != nil {
		return err
	}
	for _, name := range q.GetInterfaces() {
		if err := s.checkInterface(name); err != nil {
			return err
		}
	}
	ctx, end := r.during(stream.Context(), timeout)
	defer end()
	e := ears{names: q.GetInterfaces(), heard: make([]map[packet.MAC]uint32, len(q.GetInterfaces()))}
	err = e.open()
	if err == nil {
		err = stream.Send(&agentpb.ListenResponse{})
	}
	if err == nil {
		err = e.listen(ctx, stream.Send)
	}
	return failed(errors.Join(err, e.close()))
}

// ears are the taps of a Listen.
type ears struct {
	names []string
	taps  []*link.Tap
	heard []map[packet.MAC]uint32 // by interface and sender
}

func (e *ears) open() error {
	for i, name := range e.names {
		tap, err := link.OpenTap(link.TapConfig{Interface: name, Frames: probeSlots})
		if err != nil {
			return err
		}
		e.taps, e.heard[i] = append(e.taps, tap), make(map[packet.MAC]uint32)
	}
	return nil
}

func (e *ears) close() error {
	var failed []error
	for _, t := range e.taps {
		failed = append(failed, t.Close())
	}
	return errors.Join(failed...)
}

// listen reports what it receives until ctx is done.
func (e *ears) listen(ctx context.Context, tell func(*agentpb.ListenResponse) error) error {
	tick := time.NewTicker(listenStep)
	defer tick.Stop()
	for {
		for i, tap := range e.taps {
			for f, ok := tap.Next(); ok; f, ok = tap.Next() {
				var from packet.MAC
				probe := framelog.IsProbe(f.Data)
				if probe {
					from = packet.MAC(f.Data[len(from) : 2*len(from)])
				}
				tap.Release()
				if !probe {
					continue
				}
				e.heard[i][from]++
				if err := tell(&agentpb.ListenResponse{Interface: e.names[i], FromMac: from[:],
					Frames: e.heard[i][from]}); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Heard is how many probe frames came in at an interface from a sender.
type Heard struct {
	Interface string
	From      packet.MAC
	Frames    int
}

// Listen counts probe frames at interfaces of the machine for some time. It calls ready when counting has begun.
func (c *Client) Listen(ctx context.Context, interfaces []string, d time.Duration, ready func()) ([]Heard, error) {
	ctx, cancel := context.WithTimeout(ctx, d+CallTimeout)
	defer cancel()
	stream, err := c.agent.Listen(ctx,
		&agentpb.ListenRequest{Run: c.run, Interfaces: interfaces, TimeoutNs: d.Nanoseconds()})
	var list []Heard
	for first := true; err == nil; first = false {
		var m *agentpb.ListenResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		if first {
			ready()
			continue
		}
		if len(m.GetFromMac()) != len(packet.MAC{}) {
			err = errors.New("an address is not an Ethernet address")
			break
		}
		list = add(list, Heard{m.GetInterface(), packet.MAC(m.GetFromMac()), int(m.GetFrames())})
	}
	if errors.Is(err, io.EOF) {
		return list, nil
	}
	return list, tooOld(c, c.named("listen", err))
}

// add replaces the count of a sender, or appends it.
func add(list []Heard, h Heard) []Heard {
	for i := range list {
		if list[i].Interface == h.Interface && list[i].From == h.From {
			list[i] = h
			return list
		}
	}
	return append(list, h)
}
