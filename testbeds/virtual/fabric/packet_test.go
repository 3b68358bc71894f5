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
	n.parts[0].pool.slabs.count = maxSlabs // as if all were in flight
	if p := n.parts[0].pool.get(); p.number >= 1<<packetBits {
		t.Errorf("a packet has number %d", p.number)
	}
	if err := n.Run(clock.Never); err == nil || !strings.Contains(err.Error(), "67108864 packets exist") {
		t.Errorf("error %v, want one that says how many packets have numbers", err)
	}
}
