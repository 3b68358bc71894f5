package plan

import (
	"errors"
	"fmt"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
)

// fits translates the events for the switch of a live testbed, as the run will once it knows the QPNs. It returns the
// error that the run would end with.
func (p *Plan) fits() error {
	info := offered(p.Test.Testbed)
	if info == nil {
		return nil
	}
	bed := p.Test.Testbed
	err := p.Fits(info)
	if errors.Is(err, injector.ErrUnsupported) {
		return fmt.Errorf("%w\n  testbed %s has live.datapath: %s; %s has every event: --testbed %s",
			err, bed.Name, bed.Live.Datapath, config.DatapathAFPacket, config.NetnsAFPacketTestbed)
	}
	return err
}

// Fits translates the events for a switch that offers info, and returns the error that a run would end with.
func (p *Plan) Fits(info *p4.Info) error {
	conns := make([]injector.Connection, len(p.Connections))
	for i, c := range p.Connections {
		number := packet.QPN(i + 2) // any QPN from 2; 0 and 1 are reserved
		conns[i] = injector.Connection{
			Requester: injector.Endpoint{IP: c.IPs[config.Requester], QPN: number},
			Responder: injector.Endpoint{IP: c.IPs[config.Responder], QPN: number},
		}
	}
	_, err := injector.Translate(conns, p.Intents, injector.Options{Target: p.Test.Testbed.Name, Info: info, Epoch: 1})
	return err
}

// offered returns the features of a live testbed's switch; nil: known only to the switch.
func offered(bed *config.Testbed) *p4.Info {
	if !bed.IsLive() || bed.Injector != nil {
		return nil
	}
	if d := bed.Live.Datapath; d == config.DatapathAFPacket || d == config.DatapathQEMU {
		return p4.Software()
	}
	return p4.Base()
}
