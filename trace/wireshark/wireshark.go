// Package wireshark holds Candela's dissectors for Wireshark and tshark: NDP, and what mirror copies of RoCE packets carry.
package wireshark

import _ "embed"

// Dissector is the Lua script.
//
//go:embed candela.lua
var Dissector string
