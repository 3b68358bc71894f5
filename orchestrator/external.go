package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"candela.dev/candela/injector"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// An ApplicationTestbed has hosts on which an application of the user can make the traffic.
type ApplicationTestbed interface {
	Testbed
	// Await waits for the application's connections, and returns them by the requester's QPN. The application may stand
	// still until Run.
	Await(ctx context.Context) ([]injector.Connection, error)
}

// An Application starts what makes the traffic of a test with traffic.external, when everything is ready for it. wants
// says what is waited for; what the application prints goes to out. It may return a channel that has the application's
// end, once; nil: a person starts it, and nothing is known of its end. The application ends with ctx.
type Application func(ctx context.Context, wants string, out io.Writer) (<-chan error, error)

// applicationFile has in a run directory what the application printed.
const applicationFile = "application.log"

// external reports whether an application makes the traffic.
func (f *facts) external() bool { return f.plan != nil && f.plan.Test.Traffic.External != nil }

// application runs the traffic of an application, while the mirror gate is open.
func (r *run) application(ctx context.Context) (err error) {
	bed, ok := r.bed.(ApplicationTestbed)
	if !ok {
		return errors.New("traffic.external: this testbed has no hosts for an application")
	}
	out, err := r.Dir.Create(applicationFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	printed := &lastPart{to: out}
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var ended chan error // nil: nobody knows the application's end
	var watch sync.WaitGroup
	defer watch.Wait()
	running, stop := context.WithCancel(ctx)
	defer stop()
	if start := r.Application; start != nil {
		end, err := start(running, r.wanted(), printed)
		if err != nil {
			return err
		}
		if end != nil {
			ended = make(chan error, 1)
			watch.Go(func() { // until the application ends, at the latest with ctx
				err := <-end
				if err != nil {
					giveUp(fmt.Errorf("the application has ended: %w%s", err, printed))
				}
				ended <- err
			})
		}
	}
	conns, err := bed.Await(waiting)
	if err != nil {
		return causeOf(waiting, err)
	}
	if err := r.know(conns); err != nil {
		return err
	}
	if r.program, err = r.client.Extend(ctx, conns, r.plan.Intents); err != nil {
		return err
	}
	// From now on an application that fails may be right to: its device has lost packets.
	if r.generator, err = bed.Run(ctx); err != nil {
		return err
	}
	if ended == nil {
		return nil
	}
	select {
	case err := <-ended:
		if err != nil {
			r.applicationEnd = fmt.Sprintf("the application ended: %v%s", err, printed)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(applicationGrace):
		r.applicationEnd = fmt.Sprintf("the application was ended: it still ran %v after its connections%s", applicationGrace,
			printed)
	}
	return nil
}

// applicationGrace is how long an application may take to end after its connections.
const applicationGrace = 10 * time.Second

// wanted says what an application is to do.
func (r *run) wanted() string {
	t := r.plan.Test
	from, to := t.IPs(1)
	return fmt.Sprintf("%s: start the application within %v: it is to connect %v to %v, reliable connections: %d",
		t.Title(), t.Traffic.External.Wait.Std(), from, to, t.Traffic.Connections)
}

// causeOf returns why ctx has ended, if it has, instead of err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// lastPart passes on what is written and keeps the end.
type lastPart struct {
	to io.Writer

	mu   sync.Mutex
	last []byte
}

// lastBytes bounds what is kept.
const lastBytes = 500

func (l *lastPart) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, b...)
	l.last = l.last[max(0, len(l.last)-lastBytes):]
	return l.to.Write(b)
}

// String is the end of what was written, for an error.
func (l *lastPart) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(l.last), "?"))
	if text == "" {
		return ""
	}
	return "; its last words: " + text
}

// conditionNumbering is an integrity condition of traffic of an application: its packets are numbered from the first.
const conditionNumbering = "numbering"

// lateness is how many requests each direction of an application's connections had sent when its queue pair was found;
// negative: the trace lacks so many of its first.
type lateness struct {
	flow trace.FlowID
	by   int
}

// lateConnections compares the first PSN that the trace shows of each direction with the one that was found. It returns
// those that differ, in the order of the trace.
func (f *facts) lateConnections(ctx context.Context) (late []lateness, err error) {
	seen := map[trace.FlowID]bool{}
	err = f.checked.ForEach(ctx, func(rec *trace.Record) error {
		if rec.Flow == trace.NoFlow || seen[rec.Flow] || !rec.Opcode.IsRequest() {
			return nil
		}
		seen[rec.Flow] = true
		if by := f.known.InitialPSN(rec.Flow, packet.Requests).Sub(rec.PSN); by != 0 {
			late = append(late, lateness{rec.Flow, by})
		}
		return nil
	})
	return late, err
}

// renumber moves the initial PSNs of connections whose application had sent packets before it was found. It reports
// whether it did. Without events no packet was named by a wrong number. The trace began before and has the right one.
func (f *facts) renumber(ctx context.Context) (bool, error) {
	if f.checked == nil || len(f.plan.Intents) > 0 {
		return false, nil
	}
	late, err := f.lateConnections(ctx)
	if err != nil {
		return false, err
	}
	list := slices.Clone(f.known.All())
	f.connections = slices.Clone(f.connections)
	moved := false
	for _, l := range late {
		if l.by < 0 {
			continue
		}
		i := l.flow.Connection() - 1
		side, found := &list[i].Requester, &f.connections[i].Requester
		if l.flow.Reverse() {
			side, found = &list[i].Responder, &f.connections[i].Responder
		}
		side.IPSN = side.IPSN.Add(-l.by)
		found.IPSN, moved = side.IPSN, true
	}
	if !moved {
		return false, nil
	}
	f.known, err = trace.NewConnections(list)
	return true, err
}

// numberingCondition compares the PSNs from which events were placed with the first that the trace shows of each
// connection. An application that sent before it was found has other first packets than those that the test names.
func (f *facts) numberingCondition(ctx context.Context) (trace.Condition, error) {
	cond := trace.Condition{Name: conditionNumbering, Status: trace.StatusOK,
		Message: "packets are numbered from the application's first"}
	if f.checked == nil {
		return cond, nil // other conditions say why
	}
	late, err := f.lateConnections(ctx)
	if err != nil || len(late) == 0 {
		return cond, err
	}
	cond.Status = trace.StatusViolated
	first := late[0]
	if first.by < 0 {
		cond.Message = fmt.Sprintf("connection %d: the application's first %d packets are not in the trace, which begins "+
			"with psn %d; its queue pair was found with psn %d to send", first.flow.Connection(), -first.by,
			f.known.InitialPSN(first.flow, packet.Requests).Add(-first.by),
			f.known.InitialPSN(first.flow, packet.Requests))
		return cond, nil
	}
	cond.Message = fmt.Sprintf("connection %d: the application had sent %d packets when its queue pair was found, and "+
		"events were placed from packet %d on: pause the application (traffic.external.pause), or let it wait before "+
		"its first request", first.flow.Connection(), first.by, first.by+1)
	return cond, nil
}
