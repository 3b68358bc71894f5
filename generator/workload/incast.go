package workload

import (
	"fmt"

	"candela.dev/candela/generator/parameter"
)

func incast() Kind {
	return Kind{
		Model: parameter.Model{Name: "incast", Doc: "Many senders to few receivers, one flow for each sender.",
			Parameters: parameter.Table{
				{Name: "senders", Kind: parameter.Integer, Required: true, Min: 1, Max: MaxHosts, Doc: "Hosts that send."},
				{Name: "receivers", Kind: parameter.Integer, Default: "1", Min: 1, Max: MaxHosts, Doc: "Hosts that receive."},
				{Name: "first-sender", Kind: parameter.Integer, Optional: true, Max: MaxHosts - 1,
					Doc: "First host that sends, the others follow; by default those after the receivers."},
				{Name: "first-receiver", Kind: parameter.Integer, Default: "0", Max: MaxHosts - 1,
					Doc: "First host that receives, the others follow."},
				{Name: "map", Kind: parameter.Word, Words: []string{"modulo", "block"}, Default: "modulo",
					Doc: "modulo: sender i to receiver i modulo receivers; block: neighbours to one receiver."},
				{Name: "hairpin", Kind: parameter.Boolean, Default: "false",
					Doc: "Hosts may be sender and receiver, and send to themselves through the switch."},
			}},
		For: Transfer, Counts: []string{"receivers", "senders"}, Sample: "senders: 1, packets: 1",
		Check: checkIncast,
		Flows: func(v parameter.Values, _ Scope) []Flow {
			list := make([]Flow, v.Int("senders"))
			for i := range list {
				list[i] = Flow{Kind: Transfer, Src: v.Int("first-sender") + i, Dst: receiverOf(v, i)}
			}
			return list
		},
	}
}

func checkIncast(v parameter.Values, hosts int) (int, []Problem) {
	senders, receivers := v.Int("senders"), v.Int("receivers")
	if !v.Has("first-sender") {
		v.SetStep("first-sender", int64(v.Int("first-receiver")+receivers))
	}
	if hosts == 0 {
		return senders, nil
	}
	first := v.Int("first-sender")
	if last := v.Int("first-receiver") + receivers; last > hosts {
		return senders, []Problem{{"receivers", fmt.Sprintf("host %d is past the last one", last-1), HostsAre(hosts)}}
	}
	if last := first + senders; last > hosts {
		return senders, []Problem{{"senders",
			fmt.Sprintf("%d senders from host %d on are too many: host %d is past the last one", senders, first, last-1),
			HostsAre(hosts) + "; senders stand behind the receivers unless first-sender says otherwise"}}
	}
	for i := range senders {
		if src := first + i; src == receiverOf(v, i) && !v.Bool("hairpin") {
			return senders, []Problem{{"first-sender", fmt.Sprintf("host %d would send to itself", src),
				"hairpin: true lets it, through the switch"}}
		}
	}
	return senders, nil
}

// receiverOf returns the receiver of the i-th sender.
func receiverOf(v parameter.Values, i int) int {
	if v.Word("map") == "block" {
		return v.Int("first-receiver") + i*v.Int("receivers")/v.Int("senders")
	}
	return v.Int("first-receiver") + i%v.Int("receivers")
}
