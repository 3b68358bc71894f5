package testbeds

import _ "embed" // for Virtual

// Virtual describes the testbed of tests that name none.
//
//go:embed virtual.yml
var Virtual []byte

// Netns describes the testbed in network namespaces of one Linux machine.
//
//go:embed netns.yml
var Netns []byte

// NetnsAFPacket is Netns with the other software datapath, which supports every event.
//
//go:embed netns-afpacket.yml
var NetnsAFPacket []byte

// BMv2 describes the testbed in network namespaces with bmv2 as the injector.
//
//go:embed bmv2.yml
var BMv2 []byte

// VM describes the testbed of virtual machines with Linux's soft-RoCE.
//
//go:embed vm.yml
var VM []byte
