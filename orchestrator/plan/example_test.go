package plan_test

import (
	"fmt"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
)

func Example() {
	test, err := config.Parse("reads.yml", []byte(`
name: reads
traffic:
  rdma-verb: [write, read]
  num-msgs-per-qp: 2
  message-size: 2048
  min-retransmit-timeout: 8
  data-pkt-events:
    - {qpn: 1, psn: 4, type: drop}
`), config.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := plan.New(test)
	if err != nil {
		fmt.Println(err)
		return
	}
	in := p.Intents[0]
	fmt.Printf("%s\nflow %d, %v, psn %d\n", in.Where, in.Flow, in.Space, in.RelPSN)
	// Output:
	// reads.yml:9:7: traffic.data-pkt-events[0]
	// flow 1, responses, psn 4
}
