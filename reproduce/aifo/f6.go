package aifo

import (
	"context"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// arrival is a packet on its way to the receiver, as it leaves the switch: that is what the source logs.
type arrival struct {
	flow uint32
	rank uint64
}

// arrivals are all of them, in order.
type arrivals struct {
	list  []arrival
	again []bool        // of list: the switch had received the like before
	ends  [4]clock.Time // of the last new packet, by flow
}

// Flows of F6, by number.
const flow100MB, flow50MB, flow10MB = 1, 2, 3

// receiver is the host that all send to.
const receiver = 3

// logF6 runs a scheme once.
func (l *lab) logF6(ctx context.Context, s scheme) (*arrivals, error) {
	if log := l.logs[s.Name]; log != nil {
		return log, nil
	}
	tests, err := l.Tests(s.File)
	if err != nil {
		return nil, err
	}
	log := &arrivals{}
	run := experiments.NewRun(tests[0], 1)
	err = l.Batch(ctx, 1, func(int) error {
		return l.Do(ctx, &run, func(net *fabric.Network) {
			came, seen, again := make(map[arrival]bool), make(map[arrival]bool), make(map[uint64]bool)
			net.Switch(0).Watch(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
				if p.Dst != receiver || p.Flow > flow10MB {
					return
				}
				a := arrival{p.Flow, p.Rank}
				if at.Stage == fabric.Ingress {
					again[p.ID], came[a] = came[a], true
				}
				if at.Stage != fabric.Egress {
					return
				}
				log.list, log.again = append(log.list, a), append(log.again, again[p.ID])
				delete(again, p.ID)
				if !seen[a] {
					seen[a] = true
					log.ends[a.flow] = now
				}
			})
		}, func(*orchestrator.Outcome) error { return nil })
	})
	if l.logs == nil {
		l.logs = make(map[string]*arrivals)
	}
	l.logs[s.Name] = log
	return log, err
}

// done returns the index, from 1, of the last packet of a flow that is new.
func (a *arrivals) done(flow uint32) (index int) {
	seen := make(map[arrival]bool)
	for i, p := range a.list {
		if p.flow == flow && !seen[p] {
			seen[p] = true
			index = i + 1
		}
	}
	return index
}

// count returns the packets of a flow among the first n.
func (a *arrivals) count(flow uint32, n int) (count int) {
	for _, p := range a.list[:min(n, len(a.list))] {
		if p.flow == flow {
			count++
		}
	}
	return count
}

// late returns how many of the first n packets of a flow have a rank above one that has come before, and how many of
// those the switch received for the first time.
func (a *arrivals) late(flow uint32, n int) (late, first int) {
	least := ^uint64(0)
	for i, p := range a.list {
		if p.flow != flow {
			continue
		}
		if n--; n < 0 {
			break
		}
		if p.rank > least {
			late++
			if !a.again[i] {
				first++
			}
		}
		least = min(least, p.rank)
	}
	return late, first
}

// gap is equation 4.1 over the first n packets of both.
func (a *arrivals) gap(b *arrivals, n int) float64 {
	balance := make(map[arrival]int)
	n = min(n, len(a.list), len(b.list))
	for i := range n {
		balance[a.list[i]]++
		balance[b.list[i]]--
	}
	differ := 0
	for _, d := range balance {
		differ += max(d, -d)
	}
	return float64(differ) / float64(2*n)
}

func schemesF6() []scheme {
	return []scheme{{"FIFO", "f6-fifo.yml"}, {"PIFO", "f6-pifo.yml"}, {"SP-PIFO", "f6-sp-pifo.yml"},
		{"AIFO", "f6-aifo.yml"}}
}

// f6 compares which packets three flows get through.
func f6(ctx context.Context, l *lab) error {
	const id, logged = "F6", 60_000
	values := map[string]struct{ small, medium, foreign, gap, smallMS, mediumMS, delivered float64 }{
		"FIFO": {23_700, 80_319, 16_452, 0.188, 284, 964, 7249},
		"PIFO": {8265, 44_504, 8, 0, 99, 534, 8265}, "SP-PIFO": {7384, 43_799, 135, 0.018, 88.6, 528, 7250},
		"AIFO": {7598, 43_665, 350, 0.018, 91.1, 537, 7249},
	}
	pifo, err := l.logF6(ctx, schemesF6()[1])
	if err != nil {
		return err
	}
	small := map[string]float64{}
	for _, s := range schemesF6() {
		log, err := l.logF6(ctx, s)
		if err != nil {
			return err
		}
		want := values[s.Name]
		done := log.done(flow10MB)
		small[s.Name] = float64(done)
		add := func(what, unit string, want, tolerance, got float64) {
			l.Row(published, comparison.NewRow(id, s.Name+": "+what, unit, want, want, tolerance, got))
		}
		add("packets until the flow of 10 MB is complete", "", want.small, 0.10, float64(done))
		add("packets until the flow of 50 MB is complete", "", want.medium, 0.05, float64(log.done(flow50MB)))
		show := func(what, unit string, want, got float64) {
			l.Row(comparison.Unjudged("the specification gives no tolerance").Of(comparison.PublishedData),
				comparison.NewRow(id, s.Name+": "+what, unit, want, want, 0.15, got))
		}
		show("other packets before the flow of 10 MB is complete", "", want.foreign, float64(log.count(flow100MB, done)+
			log.count(flow50MB, done)))
		show("gap to PIFO of the first 60,000 packets", "", want.gap, log.gap(pifo, logged))
		show("the flow of 10 MB completes", "ms", want.smallMS, ms(log.ends[flow10MB]))
		show("the flow of 50 MB completes", "ms", want.mediumMS, ms(log.ends[flow50MB]))
		show("packets of the flow of 10 MB", "", want.delivered, float64(log.count(flow10MB, len(log.list))))
		l.plotF6(s, log, logged)
	}
	l.Row(published, comparison.NewBound(id, "FIFO beside PIFO: packets until the flow of 10 MB is complete", "times",
		comparison.AtLeast, 2.5, 0, small["FIFO"]/small["PIFO"]))
	l.Row(published, comparison.NewRow(id, "AIFO beside SP-PIFO: packets until the flow of 10 MB is complete", "times", 1,
		1, 0.1, small["AIFO"]/small["SP-PIFO"]))
	l.Row(published, comparison.NewBound(id, "AIFO beside PIFO: packets until the flow of 10 MB is complete", "times",
		comparison.AtMost, 1.1, 0, small["AIFO"]/small["PIFO"]))
	return nil
}

func ms(at clock.Time) float64 { return float64(at.Sub(0)) / float64(clock.Millisecond) }

// plotF6 draws how many packets of each flow have arrived.
func (l *lab) plotF6(s scheme, log *arrivals, n int) {
	p := comparison.Plot{Name: "fig-4-12-" + s.File[len("f6-"):len(s.File)-len(".yml")],
		Title: "Figure 4-12: packets of each flow, " + s.Name, X: "packets at the receiver", Y: "packets of the flow"}
	for _, f := range []struct {
		name string
		flow uint32
	}{{"100 MB", flow100MB}, {"50 MB", flow50MB}, {"10 MB", flow10MB}} {
		line, sum := comparison.Series{Name: f.name, Style: comparison.Line}, 0.0
		for i, a := range log.list[:min(n, len(log.list))] {
			if a.flow == f.flow {
				sum++
			}
			if i%200 == 0 {
				line.X, line.Y = append(line.X, float64(i)), append(line.Y, sum)
			}
		}
		p.Series = append(p.Series, line)
	}
	l.Plot(p)
}

// f7 compares the order of the first packets of the small flow.
func f7(ctx context.Context, l *lab) error {
	const id, first = "F7", 300
	lates := map[string]float64{}
	for _, s := range schemesF6() {
		log, err := l.logF6(ctx, s)
		if err != nil {
			return err
		}
		want := map[string]float64{"PIFO": 68, "SP-PIFO": 12}[s.Name]
		what := s.Name + ": late among the first 300 packets of the flow of 10 MB"
		late, fresh := log.late(flow10MB, first)
		l.Row(published, comparison.NewRow(id, what, "", want, want, 0.5, float64(late)))
		if want == 0 { // a FIFO keeps their order (specification, A11); a lost packet is late in any queue
			l.Row(published, comparison.NewRow(id, what+", retransmissions aside", "", 0, 0, 0, float64(fresh)))
		}
		lates[s.Name] = float64(late)
		line := comparison.Series{Name: "10 MB", Style: comparison.Dots}
		for _, a := range log.list {
			if a.flow == flow10MB && len(line.X) < first {
				line.X, line.Y = append(line.X, float64(len(line.X))), append(line.Y, float64(a.rank)/1000)
			}
		}
		l.Plot(comparison.Plot{Name: "fig-4-13-" + s.File[len("f6-"):len(s.File)-len(".yml")],
			Title: "Figure 4-13: the first 300 packets of the flow of 10 MB, " + s.Name, X: "packet", Y: "KB left",
			Series: []comparison.Series{line}})
	}
	for _, pair := range [][2]string{{"FIFO", "SP-PIFO"}, {"AIFO", "SP-PIFO"}, {"SP-PIFO", "PIFO"}} {
		l.Row(published, comparison.NewBound(id, pair[1]+" beside "+pair[0]+": more late among the first 300 packets", "",
			comparison.AtLeast, 1, 0, lates[pair[1]]-lates[pair[0]]))
	}
	return nil
}
