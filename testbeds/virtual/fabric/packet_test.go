package fabric

import (
	"strings"
	"testing"

	"candela.dev/candela/clock"
)

func TestMorePacketsThanHaveNumbersEndTheRun(t *testing.T) {
	n, err := New(&Spec{Topology: TopologySpec{Hosts: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.pool.slabs = make([]*[slab]Packet, 1<<packetBits/slab) // as if all were in flight
	if p := n.pool.get(); p.number >= 1<<packetBits || n.pool.at(uint(p.number)) != p {
		t.Errorf("packet number %d is not found by its number", p.number)
	}
	if err := n.Run(clock.Never); err == nil || !strings.Contains(err.Error(), "67108864 packets exist") {
		t.Errorf("error %v, want one that says how many packets have numbers", err)
	}
}
