package switchtest

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// stream keeps the books of a run that is not tapped: endpoints say what became of their flows. A flow is booked from
// its start to its end; statistics are all that is left of it.
type stream struct {
	*connections
	p      *Plan
	source *source
	flows  map[int]*openFlow
	stats  *statistics
	kept   []FlowResult // of every flow, if they are few
	owners bool         // judges of switches ask which flow a packet belongs to
	late   transport.Progress
	ideal  *ideal
	table  *tableWriter[FlowResult] // that takes flows as they end; nil: none
}

// openFlow is a flow that has started.
type openFlow struct {
	flow *Flow
	transport.Progress
}

// keptFlows is up to how many flows a run keeps a result of each.
const keptFlows = workload.MaxFlows

func newStream(p *Plan) *stream {
	s := &stream{connections: newConnections(p), p: p, flows: make(map[int]*openFlow), stats: newStatistics(p),
		owners: p.Test.Judge.Ports.Some()}
	if p.total <= keptFlows {
		s.kept = make([]FlowResult, p.total)
	}
	return s
}

// over reports whether every flow that has an end has finished.
func (s *stream) over() bool {
	if !s.source.empty() {
		return false
	}
	for _, f := range s.flows {
		if !f.Finished && !f.flow.Endless() {
			return false
		}
	}
	return true
}

// follows reports whether the hosts of a flow are judged. The seed and the number of the flow decide, nothing else.
func (p *Plan) follows(flow int) bool {
	share := uint64(p.Test.Judge.Flows)
	return share == config.WholeFlows || mixed(p.Test.Seed^uint64(flow)*0x9e3779b97f4a7c15)%config.WholeFlows < share
}

// mixed is the finaliser of SplitMix64.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Name implements transport.Books: judges ask for the connections of the flows that they follow.
func (s *stream) Name(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int) {
	if s.p.follows(flow) {
		s.connections.Name(protocol, sender, connection, flow)
	}
}

// Own implements transport.Books.
func (s *stream) Own(protocol fabric.Protocol, sender fabric.HostID, connection uint32, flow int) {
	if s.owners {
		s.connections.Own(protocol, sender, connection, flow)
	}
}

// Progress implements transport.Books. What is said of a flow that is closed is not kept.
func (s *stream) Progress(flow int) *transport.Progress {
	if f := s.flows[flow]; f != nil {
		return &f.Progress
	}
	s.late = transport.Progress{}
	return &s.late
}

// Close implements transport.Books.
func (s *stream) Close(flow int) {
	if f := s.flows[flow]; f != nil {
		s.book(f, 0)
		delete(s.flows, flow)
	}
}

// book books what became of a flow; end is that of the run, if the flow has none.
func (s *stream) book(f *openFlow, end clock.Time) {
	res := f.result(end)
	if t := f.Trips; t != nil {
		for _, v := range t.Metric().Values {
			s.stats.trips.Record(v)
		}
	}
	if s.ideal != nil {
		res.IdealNS = s.ideal.of(f.flow).Nanoseconds()
	}
	s.stats.add(&res)
	if s.kept != nil {
		s.kept[res.Flow-1] = res
	} else if s.table != nil {
		s.table.write(&res)
	}
}

// result is what became of the flow.
func (f *openFlow) result(end clock.Time) FlowResult {
	p := &f.Progress
	res := resultOf(f.flow, p, end, p.Payload)
	res.Sent, res.Whole, res.Duplicates, res.Headers = p.Sent, p.Whole, p.Duplicates, p.Headers
	res.Reordered = p.Reordered
	return res
}

// feed starts the flows that begin before an instant.
func (r *run) feed(now, before clock.Time) error {
	s := r.stream
	if s.source == nil {
		var err error
		if s.source, err = newSource(r.plan, s.kept != nil); err != nil {
			return err
		}
	}
	if s.kept != nil { // all at once, by number: connections and timers are those of judge: full
		before = clock.Never
	}
	for f := s.source.before(before); f != nil; f = s.source.before(before) {
		s.flows[f.Number] = &openFlow{flow: f}
		o := r.endpoints.open[f.Transport]
		if o == nil {
			continue
		}
		if err := o.Start(f); err != nil {
			return fmt.Errorf("flow %d: %w", f.Number, err)
		}
		if now > 0 {
			r.net.Host(f.Src).Retime(now)
		}
	}
	return nil
}

// settle books the flows that are open when the run ends.
func (r *run) settle() {
	s := r.stream
	for _, o := range r.endpoints.open {
		o.Settle()
	}
	open := make([]*openFlow, 0, len(s.flows))
	for _, f := range s.flows {
		open = append(open, f)
	}
	slices.SortFunc(open, func(a, b *openFlow) int { return a.flow.Number - b.flow.Number })
	for _, f := range open {
		s.book(f, r.end)
	}
	// flows that have not started
	for f := s.source.before(clock.Never); f != nil; f = s.source.before(clock.Never) {
		s.book(&openFlow{flow: f}, r.end)
	}
}
