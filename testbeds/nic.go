package testbeds

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
)

// ComponentSeed derives the seed of one component from a run's, so that adding a component does not shift the others'
// random numbers.
func ComponentSeed(seed uint64, component string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(component))
	return h.Sum64() ^ seed
}

// HostMAC is the default address of host i: locally administered, so not a vendor's.
func HostMAC(i int) packet.MAC { return packet.MAC{0x02, 0xca, 0xde, 0x1a, 0x00, byte(i + 1)} }

// NICConfig returns the NIC model of a host from a catalogue. The host's MAC must be set. A seed gives the same random
// numbers on every testbed.
func (h *Host) NICConfig(models func(name string) (rdma.Profile, error), seed uint64) (rdma.Config, error) {
	profile, err := models(h.Profile)
	if err != nil {
		return rdma.Config{}, fmt.Errorf("%s: %w", h.Name, err)
	}
	profile.TrimReaction, profile.TrimDSCP = h.TrimReaction, int(h.TrimDSCP)
	bugs, err := rdma.ParseBugs(h.Bugs)
	if err != nil {
		return rdma.Config{}, fmt.Errorf("%s: %w", h.Name, err)
	}
	mode, ok := rdma.ParseCNPMode(strings.TrimPrefix(h.CNPPacing, "per-"))
	if !ok {
		return rdma.Config{}, fmt.Errorf("%s: CNP pacing mode %q is unknown", h.Name, h.CNPPacing)
	}
	return rdma.Config{
		Name: h.Name, MAC: *h.MAC, IPs: h.IPs, Profile: profile, Bugs: bugs, PortRate: h.Rate,
		Rand: rand.New(rand.NewPCG(seed, ComponentSeed(seed, h.Name))),
		DSCP: h.DSCP, HopLimit: h.HopLimit, NotECT: h.ECN == packet.NotECT, ECT1: h.ECN == packet.ECT1,
		NP: rdma.NotificationPoint{Enable: h.DCQCNNP, Mode: mode, Interval: h.MinTimeBetweenCNPs, SlowRestart: h.SlowRestart},
		RP: rdma.ReactionPoint{Enable: h.DCQCNRP}, AdaptiveRetrans: h.AdaptiveRetrans,
	}, nil
}

// QPConfig returns one side's queue pair of the connection; index is its completion context.
func (c *Connection) QPConfig(index, side int) rdma.QPConfig {
	cfg := rdma.QPConfig{
		Context: index, LocalIP: c.IPs[side], MTU: c.MTU, RetryCount: c.RetryCount, RNRRetry: c.RNRRetry,
		Timeout:     c.AckTimeout,
		MinRNRTimer: c.MinRNRTimer, MaxReads: c.MaxRDAtomic, FlowLabel: c.FlowLabel, SourcePort: c.SourcePort,
	}
	if psn := c.InitialPSN[side]; psn != nil {
		cfg.IPSN, cfg.FixIPSN = *psn, true
	}
	return cfg
}
