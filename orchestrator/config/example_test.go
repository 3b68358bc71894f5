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
  timeout: 14
  data-pkt-events:
    - {qpn: 1, psn: 11, type: drop}
`), config.Options{})
	fmt.Println(err)
	// Output:
	// drop.yml:6:3: traffic.timeout: unknown key (did you mean "min-retransmit-timeout"?)
	// drop.yml:8:21: traffic.data-pkt-events[0].psn: 11 is past the last data packet (10)
	//   message-size 10240 at mtu 1024 is 10 packets a message, num-msgs-per-qp is 1; psn counts from 1
}
