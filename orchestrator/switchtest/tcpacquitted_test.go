package switchtest_test

import (
	"strings"
	"testing"
)

// These networks of compliant TCP hosts once caused false findings.
func TestNetworksThatOnceBlamedTCPHostsBlameNobody(t *testing.T) {
	for name, text := range map[string]string{
		"a slow NIC at which many connections take turns": `
topology: {kind: fat-tree, k: 6, routing: spray, link: {gbps: 400, delay-ns: 500, framing-bytes: 0},
  links: [{host: 0, gbps: 0.01, delay-ns: 50000}, {host: 13, gbps: 0.01, delay-ns: 1000000}, {host: 27,
  gbps: 0.1, delay-ns: 500}]}
switch-under-test: {model: droptail}
hosts: {transport: tcp, congestion-control: reno, packet-size: 1500, send-jitter-us: 1000, min-rto-us: 50,
  first-sequence: 4294946349}
workload:
  - incast: {senders: 39, bytes: 15, start-us: 7, stagger-us: 0, ip: 6}
  - requests: {clients: 1..9, server: 0, count: 2, request-bytes: 2253, response-bytes: 503, service-us: 5000,
  ip: 6}
  - permutation: {bytes: 3678, start-us: 3000, stagger-us: 0, ip: 6}
seed: 953069492
deadline-us: 60000000
`,
		"a retransmission overtakes the header of the segment that another switch cut": `
topology: {kind: leaf-spine, leaves: 5, spines: 1, hosts-per-leaf: 11, routing: ecmp, link: {gbps: 1,
  delay-ns: 0, framing-bytes: 24}}
switch-under-test: {model: mod}
hosts: {transport: tcp, congestion-control: reno, packet-size: 1500, send-jitter-us: 0, min-rto-us: 200,
  receive-window-bytes: 26130}
workload:
  - incast: {senders: 51, packets: 57, start-us: 7, stagger-us: 0.3}
seed: 65349779
deadline-us: 60000000
`,
		"retransmissions that left too late to reach the captures": `
topology: {kind: single-switch, hosts: 22, link: {gbps: 25, delay-ns: 20000000, framing-bytes: 24},
  trunk: {gbps: 25, delay-ns: 500, framing-bytes: 20}, links: [{host: 0, gbps: 40, delay-ns: 500}, {host: 5,
  gbps: 40, delay-ns: 500}, {host: 11, gbps: 0.1, delay-ns: 500}]}
switch-under-test: {model: mod, header-queue-bytes: 512706, ports-per-pipeline: 6, recirculation-gbps: 858,
  to-sender: false}
hosts: {transport: tcp, congestion-control: cubic, packet-size: 1500, send-jitter-us: 0, min-rto-us: 5000,
  first-sequence: 2243279690}
workload:
  - incast: {senders: 19, bytes: 47, start-us: 3000, stagger-us: 0, dscp: 10}
seed: 821034084
deadline-us: 400000
taps: {capture: true}
`,
		"retransmissions that were decided before an acknowledgement and left after it": `
topology: {kind: single-switch, hosts: 61, link: {gbps: 1, delay-ns: 1000000, framing-bytes: 24}}
switch-under-test: {model: tofino2}
hosts: {transport: tcp, congestion-control: cubic, packet-size: 1500, send-jitter-us: 1000, min-rto-us: 200,
  delayed-ack-us: 0}
workload:
  - incast: {senders: 58, bytes: 434, start-us: 3000, stagger-us: 0.3, dscp: 10}
  - incast: {senders: 58, bytes: 2997, start-us: 3000, stagger-us: 0.05, dscp: 10}
  - flow: {src: 58, dst: 26, packets: 271, transport: raw}
seed: 890215072
deadline-us: 60000000
`,
		"the same under flow control": `
topology: {kind: fat-tree, k: 6, routing: spray, link: {gbps: 40, delay-ns: 20000000, framing-bytes: 20},
  links: [{host: 0, gbps: 40, delay-ns: 0}, {host: 13, gbps: 40, delay-ns: 0}, {host: 27, gbps: 0.01,
  delay-ns: 2582}]}
switch-under-test: {model: tofino, pfc-classes: [0], pfc-xoff-bytes: 150863}
hosts: {transport: tcp, congestion-control: reno, packet-size: 1500, send-jitter-us: 0, min-rto-us: 50,
  delayed-ack-us: 450000, receive-window-bytes: 339530}
workload:
  - incast: {senders: 43, bytes: 15, start-us: 0, stagger-us: 0}
  - incast: {senders: 43, bytes: 1, start-us: 7, stagger-us: 0}
  - permutation: {bytes: 37, start-us: 3000, stagger-us: 0.3}
seed: 448138257
deadline-us: 60000000
taps: {capture: true}
`,
		"timeouts while a retransmission waits for a slow NIC": `
topology: {kind: single-switch, hosts: 44, link: {gbps: 100, delay-ns: 47143, framing-bytes: 20},
  trunk: {gbps: 1, delay-ns: 0, framing-bytes: 20}, links: [{host: 0, gbps: 0.01, delay-ns: 500}, {host: 11,
  gbps: 0.1, delay-ns: 1000000}, {host: 22, gbps: 0.01, delay-ns: 50000}]}
switch-under-test: {model: tofino}
hosts: {transport: tcp, congestion-control: cubic, packet-size: 2818, send-jitter-us: 0, min-rto-us: 200,
  delayed-ack-us: 1000, first-sequence: 4294961514}
workload:
  - incast: {senders: 41, bytes: 1323, start-us: 0, stagger-us: 1000}
  - flow: {src: 0, dst: 17, bytes: 1893, start-us: 7, stagger-us: 0}
  - flow: {src: 38, dst: 27, count: 10, packets: 14, start-us: 3000, stagger-us: 0.05}
seed: 204312694
deadline-us: 60000000
`,
		"a window that duplicate ACKs inflated, and the end of the recovery deflated": `
topology: {kind: single-switch, hosts: 10, link: {gbps: 10, delay-ns: 100}, links: [{host: 1, gbps: 7, delay-ns: 0}]}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 1500, pfc-classes: [0], pfc-xoff-bytes: 20000,
  pfc-headroom-bytes: 300000, ecn-threshold-packets: 1}
hosts: {transport: tcp, congestion-control: cubic, ecn: ect0, min-rto-us: 200, delayed-ack-us: 100,
  initial-window: 1, receive-window-bytes: 20000, loss-detection: new-reno, send-jitter-us: 0, first-sequence: 0}
workload:
  - incast: {senders: 2, packets: 276}
  - requests: {clients: 9, server: 1, count: 3, response-bytes: 1}
seed: 607
deadline-us: 400000
`,
		"duplicate ACKs of old retransmissions, when new segments are on their way to the NIC": `
topology: {kind: single-switch, hosts: 10, link: {gbps: 10, delay-ns: 103}}
switch-under-test: {model: droptail, data-queue-packets: 3, data-queue-bytes: 10000000, ecn-threshold-packets: 5}
hosts: {transport: tcp, congestion-control: reno, ecn: ect0, ecn-everything: true,
  min-rto-us: 10000, delayed-ack-us: 100, initial-window: 33,
  receive-window-bytes: 6291456, max-rto-us: 50000, loss-detection: new-reno, fast-retransmit: false,
  quick-acks: 0, ack-every: 1, send-jitter-us: 100, first-sequence: 4294900000}
workload:
  - incast: {senders: 3, packets: 105}
  - requests: {clients: 9, server: 1, count: 8, response-bytes: 7}
seed: 796
deadline-us: 400000
`,
		"an ACK that opens the window, which is no duplicate": `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: spray, link: {gbps: 100,
  delay-ns: 173}}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 7500, pfc-classes: [0], pfc-xoff-bytes: 20000,
  pfc-headroom-bytes: 300000, ecn-threshold-packets: 5}
hosts: {transport: tcp, congestion-control: dctcp, ecn: ect0, ecn-everything: true, min-rto-us: 1000,
  delayed-ack-us: 100, initial-window: 21,
  receive-window-bytes: 100000, handshake: true, max-rto-us: 50000, loss-detection: new-reno, quick-acks: 0,
  ack-every: 5, max-retries: 1, send-jitter-us: 0, first-sequence: 0}
workload:
  - incast: {senders: 6, packets: 291, ip: 6}
  - requests: {clients: 9, server: 1, count: 2, response-bytes: 4125, ip: 6}
  - flow: {src: 2, dst: 0, packets: 316, transport: raw}
seed: 27
deadline-us: 400000
`,
		"two marks, between which the segments of the first one's window are on their way to the NIC": `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: ecmp, link: {gbps: 10,
  delay-ns: 20000}}
switch-under-test: {model: droptail, data-queue-packets: 36, data-queue-bytes: 10000000,
  ecn-threshold-packets: 5}
hosts: {transport: tcp, congestion-control: reno, ecn: ect0, min-rto-us: 1000, delayed-ack-us: 1000,
  initial-window: 12,
  receive-window-bytes: 20000, handshake: true, rto: 3-srtt, loss-detection: new-reno, ack-every: 5,
  send-jitter-us: 100, first-sequence: 0}
workload:
  - incast: {senders: 4, packets: 283}
  - requests: {clients: 9, server: 1, count: 10, response-bytes: 14}
seed: 899
deadline-us: 400000
`,
		"a sender that knows of more losses than seem certain": `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, routing: spray, link: {gbps: 10,
  delay-ns: 20000}}
switch-under-test: {model: droptail, data-queue-packets: 1, data-queue-bytes: 10000000,
  ecn-threshold-packets: 1}
hosts: {transport: tcp, congestion-control: dctcp, min-rto-us: 200, delayed-ack-us: 1000, initial-window: 35,
  receive-window-bytes: 6291456, max-rto-us: 50000, loss-detection: per-packet, quick-acks: 0, ack-every: 1,
  max-retries: 1, send-jitter-us: 0, first-sequence: 4294900000}
workload:
  - incast: {senders: 2, packets: 170}
  - requests: {clients: 9, server: 1, count: 1, response-bytes: 3}
  - flow: {src: 7, dst: 0, packets: 11, transport: raw}
seed: 51
deadline-us: 400000
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !blamesNobody(t, text, strings.Contains(text, "capture")) {
				t.Error("the test is refused")
			}
		})
	}
}
