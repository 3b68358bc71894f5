package orchestrator

import (
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator/config"
)

// Models lists the names that a test may use: NIC models, their seeded bugs, and the rules of analyzers.
func Models() config.Options {
	var o config.Options
	for _, p := range append(rdma.Profiles(), rdma.Variants()...) {
		o.Profiles = append(o.Profiles, ModelOf(p))
	}
	for _, b := range rdma.Catalogue() {
		o.Bugs = append(o.Bugs, b.Name)
	}
	for _, r := range Rules() {
		o.Rules = append(o.Rules, r.ID)
	}
	return o
}

// ModelOf returns a NIC model with its defaults, as tests name it.
func ModelOf(p rdma.Profile) config.Profile {
	pacing := config.PerPort
	switch p.CNPMode {
	case rdma.CNPPerDestIP:
		pacing = config.PerDestinationIP
	case rdma.CNPPerIPPair:
		pacing = config.PerIPPair
	case rdma.CNPPerConnection:
		pacing = config.PerQP
	case rdma.CNPPerPort, rdma.CNPModeUnset:
	}
	return config.Profile{
		Name: p.Name, Adaptive: len(p.AdaptiveSchedule) > 0, IgnoresSlowRestart: !p.CNPWithNack,
		Defaults: config.RoCE{
			DCQCNRP: true, DCQCNNP: true, MinTimeBetween: p.CNPInterval, Pacing: pacing, TrimReaction: p.TrimReaction,
			TrimDSCP: p.TrimDSCP,
		},
	}
}
