package virtual

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds"
)

// Place is a place where frames can be watched.
type Place uint8

// Places. The switch is watched between its ports and the injector pipeline, so the pipeline's events show between
// SwitchIngress and SwitchEgress.
const (
	RequesterPort Place = iota // at the port of the requester's host: frames sent and received
	ResponderPort
	SwitchIngress // frames as they reach the switch
	SwitchEgress  // frames as they have left it

	Places
)

// A Watcher is called for each frame at each place that it passes. It must not keep or change p.
type Watcher func(at clock.Time, place Place, p *packet.Packet)

// Watch calls w for all frames from now on. Call it before a run.
func (t *Testbed) Watch(w Watcher) {
	t.sw.watch = w
	t.hosts[testbeds.Requester].watch, t.hosts[testbeds.Requester].place = w, RequesterPort
	t.hosts[testbeds.Responder].watch, t.hosts[testbeds.Responder].place = w, ResponderPort
}
