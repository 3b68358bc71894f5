package testbeds

import _ "embed" // for Virtual

// Virtual is the description of the testbed that tests use which name none.
//
//go:embed virtual.yml
var Virtual []byte

// Netns is the description of the testbed that stands in network namespaces of one Linux machine.
//
//go:embed netns.yml
var Netns []byte

// NetnsAFPacket is that with the other software datapath, which has every event.
//
//go:embed netns-afpacket.yml
var NetnsAFPacket []byte

// BMv2 is the description of the testbed in network namespaces whose injector is bmv2.
//
//go:embed bmv2.yml
var BMv2 []byte

// VM is the description of the testbed of virtual machines with Linux's soft-RoCE.
//
//go:embed vm.yml
var VM []byte
