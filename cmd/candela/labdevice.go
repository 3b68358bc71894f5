package main

import (
	"context"
	"fmt"
	"strings"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/conformance"
)

// softRoCELacks are the features of IBTA that soft-RoCE leaves out by design.
var softRoCELacks = []conformance.Lack{
	{
		Judges: []string{"cnp.missing", "rp.no-reaction", "rp.no-recovery", "rp.unprovoked", "rp.disabled"},
		Reason: "soft-RoCE has no congestion management, which is optional in RoCEv2",
	},
	{Judges: []string{"counters.icrc"}, Reason: "soft-RoCE does not count packets with a wrong invariant CRC"},
}

// softRoCETimeout is the least local ACK timeout for soft-RoCE, as exponent (IBTA volume 1, 9.7.6.1.3): 134 ms. On a
// virtual machine, which is suspended for longer than that, tests would show only the timer.
const softRoCETimeout = 15

// hasRDMA reports whether a host of a lab is an RDMA device.
func hasRDMA(bed *config.Testbed) bool {
	l := bed.Live
	return bed.Kind == config.KindLab && l != nil && (l.Requester != nil && l.Requester.RDMA != nil ||
		l.Responder != nil && l.Responder.RDMA != nil)
}

// labDevice describes the RDMA devices of a lab for conformance. Its agents tell the versions.
func labDevice(ctx context.Context, bed *config.Testbed) (*conformance.Device, error) {
	cfg, err := labConfig(bed)
	if err != nil {
		return nil, err
	}
	d := &conformance.Device{}
	var names []string
	for i, s := range []*config.Station{bed.Live.Requester, bed.Live.Responder} {
		if s.RDMA == nil {
			names = append(names, "a NIC model")
			continue
		}
		machine, err := cfg.Describe(ctx, &cfg.Hosts[i])
		if err != nil {
			return nil, err
		}
		properties := make(map[string]string)
		for _, p := range machine.GetProperties() {
			_, bare, found := strings.Cut(p.GetName(), "/")
			if !found {
				bare = p.GetName()
			}
			properties[bare] = p.GetValue()
		}
		if s.RDMA.Software {
			d.Emulated, d.AckTimeout, d.Lacks = true, softRoCETimeout, softRoCELacks
			names = append(names, "soft-RoCE (rdma_rxe) of Linux "+properties["kernel"])
			continue
		}
		name := fmt.Sprintf("%s of %s", s.RDMA.Name, s.Agent)
		for _, p := range []string{"driver", "firmware", "kernel"} {
			if v := properties[p]; v != "" {
				name += fmt.Sprintf(", %s %s", p, v)
			}
		}
		names = append(names, name)
	}
	if d.Name = names[0]; names[0] != names[1] {
		d.Name += " as requester; " + names[1] + " as responder"
	}
	return d, nil
}
