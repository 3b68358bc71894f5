package rdma

import "candela.dev/candela/clock"

// Variants returns profiles with misbehaviour of the kinds that the SIGCOMM 2023 paper on Lumina reports: losses of a
// connection that slow the retransmissions of others, packets of one vendor's NIC that another's discards, a scheduler
// that wastes idle bandwidth. The mechanisms and all numbers are ours. They are not seeded bugs, because no packet
// violates the protocol. They are not in [Profiles], because their effects are findings.
func Variants() []Profile {
	return []Profile{CX4LxNoisy(), CX5SlowPath(), CX6DxETS(), E810NoMigReq()}
}

// CX4LxNoisy is cx4-lx with a single processor for all NAKs, so that connections with losses delay each other's
// retransmissions: the n-th NAK waits for n reactions of 150 to 200 us.
func CX4LxNoisy() Profile {
	p := CX4Lx()
	p.Name = "cx4-lx-noisy"
	p.Description = "cx4-lx whose firmware serves one NAK at a time: losses of one connection delay the repair of others"
	p.SerialReaction = true
	return p
}

// E810NoMigReq is e810 sending MigReq = 0, which the other profiles set (IBTA volume 1, 17.2.8, automatic path
// migration).
func E810NoMigReq() Profile {
	p := E810()
	p.Name = "e810-no-migreq"
	p.Description = "e810 that sends MigReq = 0, which makes some receivers look closer"
	p.ClearsMigReq = true
	return p
}

// CX5SlowPath is cx5 with a slow path for packets with MigReq = 0. It serves 4 million packets a second, a third of the
// line rate, and has room for 64.
func CX5SlowPath() Profile {
	p := CX5()
	p.Name = "cx5-slow-path"
	p.Description = "cx5 whose slow path for packets with MigReq = 0 discards what exceeds it"
	p.SlowPathQueue, p.SlowPathService = 64, 250*clock.Nanosecond
	return p
}

// CX6DxETS is cx6-dx with two traffic classes of half the port each, which the scheduler enforces even if one is idle.
func CX6DxETS() Profile {
	p := CX6Dx()
	p.Name = "cx6-dx-ets"
	p.Description = "cx6-dx with two classes at 50 % each, and a scheduler that is not work-conserving"
	p.ETSShares = []float64{50, 50}
	return p
}
