// Package wireshark has Candela's dissectors for Wireshark and tshark: NDP, labels of fair queueing, and mirror
// copies of RoCE packets.
package wireshark

import (
	_ "embed"
	"fmt"
	"strings"

	"candela.dev/candela/trace"
)

//go:embed candela.lua
var script string

// Dissector is the Lua script, with the names of events.
var Dissector = strings.Replace(script, "--[[ events ]]", names(), 1)

func names() string {
	var list []string
	for e := trace.EventNone; e <= trace.MaxEventType; e++ {
		list = append(list, fmt.Sprintf("[%d] = %q", e, e))
	}
	return strings.Join(list, ", ")
}
