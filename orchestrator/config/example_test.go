package config_test

import (
	"fmt"

	"candela.dev/candela/orchestrator/config"
)

func ExampleParse() {
	_, err := config.Parse("drop.yml", []byte(`name: drop
traffic:
  num-msgs-per-qp: 1
  message-size: 10240
  mtu: 1024
  retries: 3
  data-pkt-events:
    - {qpn: 1, psn: 11, type: dorp}
    - {qpn: 1, psn: 11, type: drop}
`), config.Options{})
	fmt.Println(err)
	// Output:
	// drop.yml:6:3: traffic.retries: unknown key
	//   traffic takes num-connections, rdma-verb, verbs-by, num-msgs-per-qp, message-size, mtu, bidirectional, multi-gid, barrier-sync, tx-depth, rx-depth, rx-repost-delay-us, min-retransmit-timeout, max-retransmit-retry, rnr-retry, min-rnr-timer, initial-psn, ecn, dscp, hop-limit, iter-scope, data-pkt-events or control-pkt-events
	// drop.yml:8:31: traffic.data-pkt-events[0].type: is "dorp" (did you mean "drop"?)
	//   it takes drop, ecn, corrupt or trim
	// drop.yml:9:22: traffic.data-pkt-events[1].psn: 11 is past the last data packet (10)
	//   message-size 10240 at mtu 1024 is 10 packets a message, num-msgs-per-qp is 1; psn counts from 1
}
