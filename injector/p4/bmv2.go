package p4

import _ "embed" // for bmv2

//go:embed bmv2.json
var bmv2 []byte

// BMv2 returns the contract's pipeline compiled for bmv2's simple_switch; it must not be changed. Its P4Info is [Base].
func BMv2() []byte { return bmv2 }
