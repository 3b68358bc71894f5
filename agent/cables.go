package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/framelog"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// maxProbes is how many probe frames a call may send.
const maxProbes = 64

// Probe sends frames that only the switch counts.
func (s *Server) Probe(_ context.Context, q *agentpb.ProbeRequest) (*agentpb.ProbeResponse, error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	if err := s.checkInterface(q.GetInterface()); err != nil {
		return nil, err
	}
	frame, err := probeFrame(q)
	if err != nil {
		return nil, err
	}
	return &agentpb.ProbeResponse{},
		r.locked(func() error { return failed(sendProbes(q.GetInterface(), frame, int(q.GetFrames()))) })
}

func probeFrame(q *agentpb.ProbeRequest) ([]byte, error) {
	from, okFrom := netip.AddrFromSlice(q.GetFromIp())
	to, okTo := netip.AddrFromSlice(q.GetToIp())
	switch {
	case !okFrom || !okTo || from.Is4() != to.Is4():
		return nil, refuse("probe: IP addresses of %d and %d bytes", len(q.GetFromIp()), len(q.GetToIp()))
	case len(q.GetToMac()) != len(packet.MAC{}) || len(q.GetFromMac()) != 0 && len(q.GetFromMac()) != len(packet.MAC{}):
		return nil, refuse("probe: MACs of %d and %d bytes", len(q.GetFromMac()), len(q.GetToMac()))
	case q.GetFrames() == 0 || q.GetFrames() > maxProbes:
		return nil, refuse("probe: %d frames; allowed are 1 to %d", q.GetFrames(), maxProbes)
	}
	route := framelog.Route{ToMAC: packet.MAC(q.GetToMac()), From: from, To: to}
	if mac := q.GetFromMac(); len(mac) > 0 {
		route.FromMAC = packet.MAC(mac)
		return framelog.Probe(route), nil
	}
	device, err := net.InterfaceByName(q.GetInterface())
	if err != nil {
		return nil, failed(err)
	}
	if len(device.HardwareAddr) != len(route.FromMAC) {
		return nil, failed(fmt.Errorf("interface %q has no Ethernet address", q.GetInterface()))
	}
	route.FromMAC = packet.MAC(device.HardwareAddr)
	return framelog.Probe(route), nil
}

func sendProbes(device string, frame []byte, n int) (err error) {
	sender, err := link.OpenSender(device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sender.Close()) }()
	for range n {
		if err := sender.Queue(frame); err != nil {
			return dark(err)
		}
	}
	if sender.Pending() == 0 {
		return nil
	}
	return dark(sender.Flush())
}

// dark returns an error of sending unless nothing is connected to the other end: the switch's counters show that, too.
func dark(err error) error {
	if errors.Is(err, syscall.ENETDOWN) || errors.Is(err, syscall.ENOBUFS) {
		return nil
	}
	return err
}

// Frames streams a log. The run's lock is held for taking it only.
func (s *Server) Frames(q *agentpb.FramesRequest, stream grpc.ServerStreamingServer[agentpb.FramesResponse]) error {
	if _, ok := stream.Context().Deadline(); !ok {
		return refuse("the call has no deadline")
	}
	var log *framelog.Log
	first := &agentpb.FramesResponse{}
	err := s.withHost(q.GetRun(), func(r *run) error {
		if r.model == nil {
			return status.Error(codes.FailedPrecondition, "an RDMA device records no frames")
		}
		frames, err := r.model.Frames()
		if err != nil {
			return failed(err)
		}
		if log = frames.Sent; q.GetReceived() {
			log = frames.Received
		}
		first.Ordered = oneQueue(r.device)
		return nil
	})
	switch {
	case err != nil:
		return err
	case log == nil:
		return status.Error(codes.FailedPrecondition, "the host records no frames")
	}
	first.Frames = log.Frames()
	rest := log.Bytes()
	for m := first; ; {
		n := min(chunk, len(rest))
		m.Entries, rest = rest[:n], rest[n:]
		if err := stream.Send(m); err != nil || len(rest) == 0 {
			return err
		}
		m = new(agentpb.FramesResponse)
	}
}

// oneQueue reports whether frames of an interface pass one queue in each direction, and so keep their order.
func oneQueue(device string) bool {
	entries, err := os.ReadDir(filepath.Join(sysClassNet, device, "queues"))
	if err != nil {
		return false
	}
	counts := map[string]int{}
	for _, e := range entries {
		kind, _, _ := strings.Cut(e.Name(), "-")
		counts[kind]++
	}
	return counts["rx"] == 1 && counts["tx"] == 1
}

// Probe sends probe frames from an interface of the machine; a zero FromMAC is the interface's own.
func (c *Client) Probe(ctx context.Context, device string, route framelog.Route, frames int) error {
	q := &agentpb.ProbeRequest{Run: c.run, Interface: device, ToMac: route.ToMAC[:], FromIp: route.From.AsSlice(),
		ToIp: route.To.AsSlice(), Frames: uint32(frames)}
	if route.FromMAC != (packet.MAC{}) {
		q.FromMac = route.FromMAC[:]
	}
	_, err := call(ctx, c, "probe", c.agent.Probe, q)
	return tooOld(c, err)
}

// tooOld explains why an agent does not know a call.
func tooOld(c *Client, err error) error {
	if err != nil && strings.Contains(err.Error(), "unknown method") {
		return fmt.Errorf("%w: the agent of %s is older than this candela; install the same version on both", err, c.name)
	}
	return err
}

// Frames are what a host has recorded of one direction.
type Frames struct {
	Count   uint64 // of the frames
	Ordered bool   // frames of all connections kept their order
	Entries []byte // of package framelog, of the first Count or framelog.Limit frames
}

// Frames returns the records of frames that the host received, or sent.
func (c *Client) Frames(ctx context.Context, received bool) (f Frames, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	stream, err := c.host.Frames(ctx, &agentpb.FramesRequest{Run: c.run, Received: received})
	for first := true; err == nil; first = false {
		var m *agentpb.FramesResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		if first {
			f.Count, f.Ordered = m.GetFrames(), m.GetOrdered()
		}
		if f.Entries = append(f.Entries, m.GetEntries()...); len(f.Entries) > framelog.Limit*framelog.EntryLen {
			err = fmt.Errorf("more than %d frames", framelog.Limit)
		}
	}
	if !errors.Is(err, io.EOF) {
		return f, tooOld(c, c.named("frames", err))
	}
	if want := min(f.Count, framelog.Limit); uint64(len(f.Entries)) != want*framelog.EntryLen {
		return f, fmt.Errorf("%s: frames: %d bytes, want %d entries of %d", c.name, len(f.Entries), want, framelog.EntryLen)
	}
	return f, nil
}
