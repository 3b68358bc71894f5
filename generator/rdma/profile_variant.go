package rdma

import "candela.dev/candela/clock"

// Variants returns profiles with misbehaviour that the SIGCOMM 2023 paper on Lumina reports in kind: a connection's
// losses that slow the repair of others, packets that one vendor's NIC discards from another's, a scheduler that wastes
// idle bandwidth. The mechanisms and all numbers are ours. They are no seeded bugs: no packet breaks the protocol. Nor
// are they in [Profiles]: their consequences are findings.
func Variants() []Profile {
	return []Profile{CX4LxNoisy(), CX5SlowPath(), CX6DxETS(), E810NoMigReq()}
}

// CX4LxNoisy is cx4-lx with a single processor for all NAKs, so that connections with losses slow down each other's
// repair: the n-th waits for n reactions of 150 to 200 us.
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

// CX5SlowPath is cx5 looking at the path of packets with MigReq = 0 at 4 million packets a second, a third of what
// arrives at line rate, with room for 64.
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
