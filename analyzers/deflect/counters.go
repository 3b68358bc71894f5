package deflect

import (
	"reflect"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// tally is what the counters of a switch are to be, by its records.
type tally struct {
	since []deflect.PortCounters // the start
	total []deflect.PortCounters // of earlier lives, too
}

func (d *device) counter(port int64) *deflect.PortCounters {
	if d.since == nil {
		d.since = make([]deflect.PortCounters, d.judge.view.Ports(d.number))
	}
	if port < 0 || port >= int64(len(d.since)) {
		return &deflect.PortCounters{} // told elsewhere
	}
	return &d.since[port]
}

// countRecord counts what a record says.
func (d *device) countRecord(a *arrival, r *trace.Decision) {
	own, egress := d.counter(int64(r.Port)), d.counter(r.Values[deflect.FateEgress])
	switch r.Kind {
	case deflect.Tested:
		if d.set.Scheme == deflect.PD && r.Values[deflect.TestDenominator] > 0 {
			own.Evaluations++
		}
		if !a.tested { // of the destination port
			a.tested, a.over = true, r.Cause == deflect.TestOver
		}
		return
	case deflect.Extracted:
		own.Extracted++
		return
	case deflect.Pick:
		a.avoidable = r.Cause == deflect.PickNone && r.Values[deflect.PickAvoidable] > 0
		return
	case deflect.Route:
		return
	default:
	}
	if !a.counted {
		a.counted = true
		egress.Arrived++
	}
	switch r.Kind {
	case deflect.Deflected:
		egress.From++
		own.To++
		if int64(r.Port) == r.Values[deflect.FateIngress] {
			own.BouncedBack++
		}
		if r.Values[deflect.FateDeflections] > 1 {
			own.SecondOrMore++
		}
	case deflect.NoPort:
		egress.NoPort++
		if a.avoidable {
			egress.Avoidable++
		}
	case deflect.Tail:
		own.Tail++
	case deflect.Displaced:
		own.Displaced++
	}
	if a.over && (r.Kind == deflect.Deflected || r.Kind == deflect.NoPort) {
		egress.Preemptive++
	}
}

// compareCounters compares the counters of a switch with what its records say.
func (d *device) compareCounters(now clock.Time) {
	if d.overrun || !d.recorded {
		return
	}
	counters, err := d.judge.view.Counters(d.number)
	if err != nil {
		return
	}
	c, ok := counters.(deflect.Counters)
	if !ok {
		return
	}
	d.counter(0)
	for port := range c.Ports {
		if port >= len(d.since) {
			break
		}
		got, want := reflect.ValueOf(c.Ports[port]), reflect.ValueOf(d.since[port])
		for i := range got.NumField() {
			if g, w := got.Field(i).Uint(), want.Field(i).Uint(); g != w {
				d.tellAt(now, counted(place{d.who, port, 0}, got.Type().Field(i).Name, g, w))
			}
		}
	}
}

// settle adds what was counted since the start of a switch to its totals.
func (d *device) settle() {
	d.counter(0)
	if d.total == nil {
		d.total = make([]deflect.PortCounters, len(d.since))
	}
	for i := range d.since {
		total, since := reflect.ValueOf(&d.total[i]).Elem(), reflect.ValueOf(d.since[i])
		for f := range total.NumField() {
			total.Field(f).SetUint(total.Field(f).Uint() + since.Field(f).Uint())
		}
	}
	d.since = nil
}
