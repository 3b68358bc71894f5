package rdma_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
)

// Two NICs connected by a loop that moves packets without delay. A testbed adds rates and delays.
func ExampleNIC() {
	var nics [2]*rdma.NIC
	var qps [2]*rdma.QP
	for i, ip := range []string{"10.0.0.2", "10.0.0.1"} {
		addr := netip.MustParseAddr(ip)
		nics[i], _ = rdma.NewNIC(rdma.Config{Name: ip, MAC: packet.MAC{2, 0, 0, 0, 0, byte(i)}, IPs: []netip.Addr{addr},
			Profile: rdma.Spec(), PortRate: 100 * clock.Gbps, Rand: rand.New(rand.NewPCG(1, uint64(i)))})
		qps[i], _ = nics[i].CreateQP(rdma.QPConfig{LocalIP: addr, RetryCount: 7, Timeout: 14, FixIPSN: true, IPSN: 100})
	}
	for i, q := range qps {
		peer := qps[1-i]
		_ = q.Connect(rdma.Remote{IP: peer.LocalIP(), QPN: peer.QPN(), IPSN: peer.IPSN(),
			MAC: packet.MAC{2, 0, 0, 0, 0, byte(1 - i)}})
	}

	target := qps[1].Region()
	_ = qps[0].PostSend(0, generator.WorkRequest{Verb: generator.Write, Length: 2500, RemoteAddr: target.Base,
		RKey: target.RKey})

	var now clock.Time
	var p packet.Packet
	var c generator.Completion
	for !nics[0].PollCompletion(&c) {
		now = max(now, min(nics[0].NextTimer(), nics[1].NextTimer()))
		for i, nic := range nics {
			for nic.Poll(now, &p) {
				fmt.Println(now, p.BTH.Opcode, p.BTH.PSN)
				nics[1-i].HandlePacket(now, &p)
			}
		}
	}
	fmt.Println(c.Verb, c.Status)
	// Output:
	// 500 ns WRITE_FIRST 100
	// 500 ns WRITE_MIDDLE 101
	// 500 ns WRITE_LAST 102
	// 1 us ACKNOWLEDGE 102
	// write IBV_WC_SUCCESS
}
