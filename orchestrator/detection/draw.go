package detection

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Scenario returns the i-th random test: one to three connections, any mix of verbs, sizes around multiples of the MTU,
// and up to four events on data packets and two on control packets.
func Scenario(i uint64) string {
	r := rand.New(rand.NewPCG(i, 0x5ce7a210))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	mtu := []int{256, 1024, 4096}[r.IntN(3)]
	size := []int{0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu, 10*mtu - 3, 20 * mtu}[r.IntN(8)]
	verbs := []string{pick("write", "send", "read", "write-imm", "send-imm", "compare-swap", "fetch-add",
		"send-invalidate")}
	if r.IntN(2) == 0 {
		verbs = append(verbs, pick("write", "send", "read", "fetch-add", "send-invalidate"), pick("write", "read"))
	}
	connections, messages := 1+r.IntN(3), 1+r.IntN(6)
	bidirectional := r.IntN(4) == 0
	var b strings.Builder
	fmt.Fprintf(&b, "name: scenario-%d\nseed: %d\n", i, r.Uint32())
	cut := newTrims(i)
	if r.IntN(4) == 0 {
		b.WriteString(cut.hosts("fd00::2/64", "fd00::1/64"))
	} else {
		b.WriteString(cut.hosts("", ""))
	}
	fmt.Fprintf(&b,
		"traffic:\n  num-connections: %d\n  rdma-verb: [%s]\n  num-msgs-per-qp: %d\n  message-size: %d\n  mtu: %d\n",
		connections, strings.Join(verbs, ", "), messages, size, mtu)
	fmt.Fprintf(&b, "  tx-depth: %d\n  bidirectional: %v\n  barrier-sync: %v\n  min-retransmit-timeout: %d\n", 1+r.IntN(6),
		bidirectional, r.IntN(3) == 0, 8+r.IntN(3))
	if r.IntN(3) == 0 {
		fmt.Fprintf(&b, "  initial-psn: {requester: %d, responder: %d}\n", 1<<24-1-r.IntN(30), 1<<24-1-r.IntN(30))
	}
	perMessage := max(1, (size+mtu-1)/mtu)
	last := messages // every message has a data packet, whatever its verb
	if len(verbs) == 1 && !strings.Contains("compare-swap fetch-add", verbs[0]) {
		last = messages * perMessage
	}
	used := map[string]bool{}
	b.WriteString("  data-pkt-events:\n")
	for range 1 + r.IntN(4) {
		psn, iter := 1+r.IntN(last), 1+r.IntN(3)
		from := "requester"
		if bidirectional && r.IntN(2) == 0 {
			from = "responder"
		}
		qpn := 1 + r.IntN(connections)
		key := fmt.Sprint(qpn, psn, iter, from)
		if used[key] {
			continue
		}
		used[key] = true
		fmt.Fprintf(&b, "    - {qpn: %d, psn: %d, iter: %d, from: %s, type: %s}\n", qpn, psn, iter, from,
			cut.event(pick("drop", "drop", "drop", "ecn", "corrupt")))
	}
	b.WriteString("  control-pkt-events:\n")
	for range r.IntN(3) {
		qpn, class, nth := 1+r.IntN(connections), pick("ack", "nak", "read-request", "atomic-ack", "cnp", "rnr"), 1+r.IntN(2)
		key := fmt.Sprint(qpn, class, nth)
		if used[key] || !fits(class, verbs) {
			continue
		}
		used[key] = true
		fmt.Fprintf(&b, "    - {qpn: %d, packet: %s, nth: %d, type: drop}\n", qpn, class, nth)
	}
	return strings.TrimSuffix(b.String(), "  control-pkt-events:\n")
}

// fits reports whether the traffic can have control packets of a class at all; the configuration refuses others.
func fits(class string, verbs []string) bool {
	has := func(words ...string) bool {
		for _, v := range verbs {
			for _, w := range words {
				if v == w {
					return true
				}
			}
		}
		return false
	}
	switch class {
	case "read-request":
		return has("read")
	case "atomic-ack":
		return has("compare-swap", "fetch-add")
	case "rnr":
		return has("send", "send-imm", "write-imm")
	case "ack":
		return has("write", "send", "write-imm", "send-imm")
	}
	return true
}
