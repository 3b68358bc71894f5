package injector_test

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/injector"
	"candela.dev/candela/trace"
)

// The fifth packet of a connection is dropped the first two times it is sent. Relative PSN 5 becomes 1004 because the
// requester drew 1000 as its first.
func ExampleTranslate() {
	connections := []injector.Connection{{
		Requester: injector.Endpoint{IP: netip.MustParseAddr("10.0.0.2"), QPN: 0x11, IPSN: 1000},
		Responder: injector.Endpoint{IP: netip.MustParseAddr("10.0.0.1"), QPN: 0x22, IPSN: 2000},
	}}
	drop := injector.Action{Type: trace.EventDrop}
	intents := []injector.Intent{
		{Index: 0, Flow: trace.NewFlowID(1, false), RelPSN: 5, Nth: 1, Action: drop},
		{Index: 1, Flow: trace.NewFlowID(1, false), RelPSN: 5, Nth: 2, Action: drop},
	}
	program, err := injector.Translate(connections, intents, injector.Options{Target: "embedded", Epoch: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(program)
	// Output:
	// connection_v4 entry (src_ip 10.0.0.2 dst_ip 10.0.0.1 dst_qpn 0x000022) -> set_flow(flow_id 0, ipsn_request 1000, ipsn_response 2000, epoch 1)
	// connection_v4 entry (src_ip 10.0.0.1 dst_ip 10.0.0.2 dst_qpn 0x000011) -> set_flow(flow_id 1, ipsn_request 2000, ipsn_response 1000, epoch 1)
	// event entry (flow 0 space requests psn 1004 iter 1) -> drop()  # event 0: qpn 1 psn 5 iter 1
	// event entry (flow 0 space requests psn 1004 iter 2) -> drop()  # event 1: qpn 1 psn 5 iter 2
}
