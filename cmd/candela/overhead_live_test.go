//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/netns"
	"candela.dev/candela/trace"
)

const (
	messagesInTurns = 1000 // a report lists all of them
	packetsEach     = 10   // packets in a message of smallTest
	turn            = 50 * time.Millisecond
	// messages that are skipped at the beginning of a turn: dumpers still hold packets of the turn before
	turnSettles = 25
	leastEach   = 100
)

// TestL1InTurns is TestL1 with the mirror switched on and off every 50 ms of a run. Other load of the machine then
// affects both cases equally; separate runs differ by more than the measured effect.
func TestL1InTurns(t *testing.T) {
	needLive(t)
	const runs = 21
	ratios, plain := overheads(t, runs)
	if len(ratios) == 0 {
		t.Skip("SKIP-busy: no run had enough messages of either kind")
	}
	slices.Sort(ratios)
	slices.Sort(plain)
	n := len(ratios)
	t.Logf("FIGURE L1 in turns of %v within a run: median %.1f %% of %d runs, quartiles %.1f and %.1f %% (target 5 %%; "+
		"Lumina 4.1 to 7.2 %%); "+
		"plain %.1f us", turn, ratios[n/2], n, ratios[n/4], ratios[3*n/4], plain[n/2])
}

// BenchmarkOverhead is TestL1InTurns for make bench; make bench-once takes one pair of runs.
func BenchmarkOverhead(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("SKIP-live: network namespaces need root")
	}
	runs := 11
	if testing.Short() {
		runs = 1
	}
	var all []float64
	for b.Loop() {
		ratios, _ := overheads(b, runs)
		all = append(all, ratios...)
	}
	if len(all) == 0 {
		b.Skip("SKIP-busy: no run had enough messages of either kind")
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2], "overhead-%")
}

// overheads returns, for each run, the increase in percent of the mean completion time by injection and mirroring, and
// the mean without them in microseconds. It omits runs that were aborted because the machine was busy.
func overheads(t testing.TB, runs int) (ratios, plain []float64) {
	t.Helper()
	b := bringUp(t, "xdp", 2)
	// The event matches no packet, but every packet is looked up.
	event := "  data-pkt-events: [{qpn: 1, psn: 5, iter: 2, type: drop}]\n"
	p := livePlan(t, fmt.Sprintf(smallTest, messagesInTurns)+event, config.NetnsTestbed)
	for range runs {
		means, ok := inTurns(t, p, &b.State)
		if ok {
			ratios, plain = append(ratios, 100*(means[1]/means[0]-1)), append(plain, means[0])
		}
	}
	return ratios, plain
}

// inTurns runs p with the mirror on and off in turns. It returns the mean completion times, in microseconds, of
// messages of which no packet and of which every packet was mirrored.
func inTurns(t testing.TB, p *plan.Plan, s *netns.State) (means [2]float64, ok bool) {
	t.Helper()
	gate := &turningGate{}
	o, err := orchestrator.Run(t.Context(), p, func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		bed, err := s.Testbed(spec)
		if err != nil {
			return nil, err
		}
		return turned{bed, gate}, nil
	}, orchestrator.Options{Out: t.TempDir(), ID: "l1", Wall: time.Now, NoReports: true})
	gate.rest()
	if err != nil {
		t.Fatal(err)
	}
	seen, err := mirroredPSNs(filepath.Join(o.Dir, "trace.pcap"))
	if errors.Is(err, os.ErrNotExist) || len(o.Generator.Streams) == 0 {
		t.Log(o.Verdict.Reasons) // aborted
		return means, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return meansOf(o.Generator.Streams[0].Messages, seen)
}

// meansOf returns the mean completion times of unmirrored and mirrored messages.
func meansOf(messages []generator.MessageResult, seen map[int]bool) (means [2]float64, ok bool) {
	var counts [2]int
	latest, run := -1, 0
	for i, m := range messages {
		copies := 0
		for k := range packetsEach {
			if seen[packetsEach*i+k] {
				copies++
			}
		}
		kind := copies / packetsEach
		if m.Completed == 0 || copies%packetsEach != 0 {
			latest = -1
			continue
		}
		if kind != latest {
			latest, run = kind, 0
		}
		if run++; run > turnSettles {
			counts[kind]++
			means[kind] += float64(m.Completed.Sub(m.Posted).Std().Nanoseconds()) / 1000
		}
	}
	for kind := range means {
		means[kind] /= float64(counts[kind])
	}
	return means, min(counts[0], counts[1]) >= leastEach
}

// mirroredPSNs returns the data packets of the only connection in a trace, numbered from the first, which was mirrored.
func mirroredPSNs(name string) (seen map[int]bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := trace.NewPcapReader(f, name)
	if err != nil {
		return nil, err
	}
	seen = map[int]bool{}
	const bthAt = packet.EthernetLen + packet.IPv4Len + packet.UDPLen
	var first packet.PSN
	var frame trace.Frame
	for {
		err := r.Next(&frame)
		if errors.Is(err, io.EOF) {
			return seen, nil
		}
		if err != nil {
			return nil, err
		}
		bth := frame.Data[bthAt:] // within a snap of 128 bytes
		if packet.Opcode(bth[0]) == packet.Acknowledge {
			continue
		}
		psn := packet.PSN(uint32(bth[9])<<16 | uint32(bth[10])<<8 | uint32(bth[11]))
		if len(seen) == 0 {
			first = psn
		}
		seen[psn.Sub(first)] = true
	}
}

// turned is a testbed whose mirror gate opens and closes while the traffic runs.
type turned struct {
	orchestrator.Testbed
	gate *turningGate
}

func (u turned) Injector(ctx context.Context) (testbeds.Access, error) {
	a, err := u.Testbed.Injector(ctx)
	u.gate.ClientConnInterface = a.Conn
	a.Conn = u.gate
	return a, err
}

// turningGate is a connection to a switch. After the gate was opened, it keeps closing and opening it.
type turningGate struct {
	grpc.ClientConnInterface
	started bool
	stop    context.CancelFunc
	turns   sync.WaitGroup
}

func (g *turningGate) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := g.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if w, ok := args.(*p4pb.WriteRequest); ok && err == nil && !g.started && opensGate(w) {
		g.started = true
		ctx, stop := context.WithCancel(context.Background())
		g.stop = stop
		open, shut := gateWrites(w)
		g.turns.Go(func() { g.turn(ctx, method, open, shut) })
	}
	return err
}

// gateWrites returns the write of w that opens the gate, and a write that closes it.
func gateWrites(w *p4pb.WriteRequest) (open, shut *p4pb.WriteRequest) {
	only := func() *p4pb.WriteRequest {
		c := proto.Clone(w).(*p4pb.WriteRequest)
		c.Updates = slices.DeleteFunc(c.Updates, func(u *p4pb.Update) bool {
			return !opensGate(&p4pb.WriteRequest{Updates: []*p4pb.Update{u}})
		})
		return c
	}
	shut = only()
	for _, u := range shut.GetUpdates() {
		action := u.GetEntity().GetTableEntry().GetAction().GetAction()
		action.ActionId, action.Params = p4.ActionNoAction, nil
	}
	return only(), shut
}

// turn closes and opens the gate until ctx or the run's connection ends.
func (g *turningGate) turn(ctx context.Context, method string, open, shut *p4pb.WriteRequest) {
	for next := shut; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(turn):
		}
		if g.ClientConnInterface.Invoke(ctx, method, next, &p4pb.WriteResponse{}) != nil {
			return
		}
		if next == shut {
			next = open
		} else {
			next = shut
		}
	}
}

func (g *turningGate) rest() {
	if g.stop != nil {
		g.stop()
	}
	g.turns.Wait()
}
