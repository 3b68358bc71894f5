package rdma

import "candela.dev/candela/clock"

// The vendor profiles are models. They reproduce what Lumina observed on the wire (L3 to L9 of candela reproduce
// lumina; figures 5-8 to 5-12 and tables 5-II to 5-IV of Yu's thesis) with the mechanisms of Profile. The internals of
// these NICs are not published. Lumina measured at the switch, so its numbers include the path from the switch to the
// host and back. The latencies here exclude that path, as it is on testbeds/lumina-100g.yml and lumina-40g.yml: a
// switch of 400 ns, 10 ns of cable, and the serialisation of the packets involved. Numbers without a source are ours.

// connectX returns the common part of the three ConnectX models.
//
//   - Timeouts: 8 T each, the first after progress between 3 T and 6 T (figure 5-12b: 0.537 s and 0.2 to 0.4 s for T =
//     67 ms).
//   - Adaptive schedule: figure 5-12a, 5.6, 4.1, 8.4, 16.7, 25.1, 67.1, 134.2 ms are T/12, T/16, T/8, T/4, 3T/8, T and
//     2T. Message 2, after seven timeouts, starts with 0.267 s = 4 T, and later ones with 0.671 s = 10 T. The model
//     explains this by a position in the schedule that outlives the message.
//   - Retry limits: table 5-II has 13 for message 1 and 8 for message 2. In the model, timeouts up to T and the first
//     timeout of a message are not charged.
//   - SendLatency, AckLatency, ReadResponseLatency, CNPLatency: ours; the base RTT is about 2 us.
func connectX() Profile {
	return Profile{
		Vendor:               "nvidia",
		SendLatency:          500 * clock.Nanosecond,
		AckLatency:           500 * clock.Nanosecond,
		ReadResponseLatency:  600 * clock.Nanosecond,
		NackGeneration:       585 * clock.Nanosecond,
		NackReaction:         2485 * clock.Nanosecond,
		ReadRerequestLatency: 3 * clock.Microsecond,
		TimeoutReaction:      3 * clock.Microsecond,
		CNPLatency:           500 * clock.Nanosecond,
		TrimDSCP:             DefaultTrimDSCP,
		TrimLatency:          500 * clock.Nanosecond,
		PipelineDepth:        68,
		SendsOn:              true,
		TimeoutFactor:        8,
		FirstTimeoutLow:      0.375,
		FirstTimeoutHigh:     0.75,
		AdaptiveSchedule:     []float64{1. / 12, 1. / 16, 1. / 8, 1. / 4, 3. / 8, 1, 2, 4, 10},
		AdaptiveFreeUpTo:     1,
		AdaptiveFirstFree:    true,
		AckCoalescing:        true,
		CNPMode:              CNPPerDestIP,
		CNPInterval:          4 * clock.Microsecond,
		CNPWithNack:          true,
		CounterNames:         nvidiaNames,
	}
}

// CX5 models a ConnectX-5 at 100 Gb/s.
//
//   - NACK generation: 1.1 us for every dropped PSN (figure 5-8), of which 515 ns are the path: 585 ns.
//   - NACK reaction: 3 us with an empty pipeline (figure 5-9), of which 515 ns are the path: 2.485 us.
//   - Pipeline: 68 packets. A retransmission is ready about 47 packet times after the lost packet. For the fifth
//     packet of a message, the pipeline is therefore not empty if the message has more than 52 packets, and full from
//     120 on (L5). The same numbers explain why a 100 KB message delays the retransmission of its first 20 packets by
//     another 3 to 4.6 us (L4: "about 3"). The source's two figures do not quite agree in this model: with 34 packets
//     L4's level is 6.0 us instead of 6.8, but L5's second knee is at 90 KB.
//   - CNPs: paced per destination IP (table 5-IV), also sent with NAKs if slow restart is on (Lumina's prototype).
func CX5() Profile {
	p := connectX()
	p.Name = "cx5"
	p.Description = "model of a ConnectX-5 as Lumina saw it: retransmission in hardware, behind a shared transmit pipeline"
	return p
}

// CX6Dx models a ConnectX-6 Dx at 100 Gb/s. It is a CX5 whose CNPs share one pacer per port (table 5-IV).
func CX6Dx() Profile {
	p := connectX()
	p.Name = "cx6-dx"
	p.Description = "model of a ConnectX-6 Dx as Lumina saw it: like cx5, with CNPs paced per port"
	p.CNPMode = CNPPerPort
	return p
}

// CX4Lx models a ConnectX-4 Lx at 40 Gb/s, which retransmits in firmware.
//
//   - NACK reaction: 150 to 200 us at the switch (figure 5-9), drawn uniformly; about 0.65 us are the path.
//   - NACK generation: the firmware gets out-of-sequence packets in batches of three, and an incomplete batch after
//     12 us. Losses in the middle of a message are NAKed after 1.1 us, those of the second and third last packet after
//     13 us (figure 5-8; the mechanism and the batch size are ours).
//   - Retry limits: a first timeout is charged after the adaptive schedule has reached its end: 13, 8, 7, 7, 7 (table
//     5-II).
//   - Pipeline: the depth of CX5. No published figure shows it, and the firmware's latency hides it.
//   - CNPs: paced per destination IP (table 5-IV), none with NAKs (Lumina's prototype).
func CX4Lx() Profile {
	p := connectX()
	p.Name = "cx4-lx"
	p.Description = "model of a ConnectX-4 Lx as Lumina saw it: retransmission in firmware, 150 to 200 us"
	p.NackGeneration = 20 * clock.Nanosecond
	p.NackBatch, p.NackBatchTimeout = 3, 12*clock.Microsecond
	p.NackReaction = 149500 * clock.Nanosecond
	p.NackReactionSpread = 49500 * clock.Nanosecond
	p.ReadRerequestLatency = 150 * clock.Microsecond
	p.AdaptiveFirstFree = false
	p.CNPWithNack = false
	return p
}

// E810 models an Intel E810. Lumina's thesis does not measure it. The absence of CNPs with NAKs is from Lumina's
// prototype, the counter names are from the irdma driver; all numbers are ours, between those of cx4-lx and cx5.
func E810() Profile {
	p := connectX()
	p.Name = "e810"
	p.Vendor = "intel"
	p.Description = "model of an Intel E810, with latencies of our choice; no adaptive retransmission"
	p.NackGeneration = 5 * clock.Microsecond
	p.NackReaction = 50 * clock.Microsecond
	p.ReadRerequestLatency = 50 * clock.Microsecond
	p.PipelineDepth = 32
	p.TimeoutFactor, p.FirstTimeoutLow, p.FirstTimeoutHigh = 2, 0, 0
	p.AdaptiveSchedule = nil
	p.CNPMode, p.CNPWithNack = CNPPerConnection, false
	p.CounterNames = intelNames
	return p
}

// intelNames are counter names of Intel's irdma driver.
var intelNames = map[string]string{
	"tx_packets":                 "TxUDP",
	"rx_packets":                 "RxUDP",
	"np_cnp_sent":                "cnpSent",
	"rp_cnp_handled":             "cnpHandled",
	"rp_cnp_ignored":             "cnpIgnored",
	"np_ecn_marked_roce_packets": "RxECNMrkd",
	"rx_discards":                "ip4InDiscards",
}
