// Numbers of the injector contract. Package p4 has the same in Go; ADR 5 (docs/internals/adr) gives the reasons.
#ifndef _CANDELA_CONSTANTS_
#define _CANDELA_CONSTANTS_

const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_MAC_CONTROL = 0x8808;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> ROCE_PORT = 4791;

// Lengths in bytes.
const bit<16> ETHERNET_LEN = 14;
const bit<16> VLAN_LEN = 4;
const bit<16> IPV4_LEN = 20;
const bit<16> IPV6_LEN = 40;
const bit<16> UDP_LEN = 8;
const bit<16> BTH_LEN = 12;
const bit<16> ICRC_LEN = 4;

// Classes of packets.
const bit<4> CLASS_DATA = 0;
const bit<4> CLASS_ACK = 1;
const bit<4> CLASS_NAK = 2;
const bit<4> CLASS_NAK_INV = 3;
const bit<4> CLASS_NAK_ACC = 4;
const bit<4> CLASS_NAK_OP = 5;
const bit<4> CLASS_RNR = 6;
const bit<4> CLASS_CNP = 7;
const bit<4> CLASS_READ_REQUEST = 8;
const bit<4> CLASS_ATOMIC_ACK = 9;
const bit<4> CLASS_OTHER = 15;

// Event types, as mirror copies carry them.
const bit<8> EVENT_NONE = 0;
const bit<8> EVENT_DROP = 1;
const bit<8> EVENT_ECN = 2;
const bit<8> EVENT_CORRUPT = 3;
const bit<8> EVENT_TRIM = 4;

// Bits of trim's flags.
#define TRIM_SET_DSCP(flags) (flags[0:0] == 1)
#define TRIM_UPDATE_IP_LENGTH(flags) (flags[1:1] == 1)
#define TRIM_UPDATE_UDP_LENGTH(flags) (flags[2:2] == 1)

// A flow id is an index in its low twelve bits, with options above.
#define FLOW_INDEX(id) (id[11:0])
#define MESSAGE_SCOPE(id) (id[15:15] == 1)
const bit<16> FLOW_CONTROL_CLASS = 0x4000;

// A watch slot counts in one of 8192 cells, unless its top bit says that it doesn't.
#define WATCH_CELL(slot) (slot[12:0])
#define WATCH_EVERY(slot) (slot[15:15] == 1)

// Counts stop here.
const bit<16> SATURATED = 0xffff;

const bit<16> FLOOD_GROUP = 1;

// Group addresses 01-80-c2-00-00-0x end at the MAC that receives them (IEEE 802.1Q, 8.6.3). The upper 44 bits.
const bit<44> RESERVED_MACS = 0x0180c200000;

// Mirror copies take the upper half of the UDP ports, where 4791 is not.
const bit<16> MIRROR_PORTS = 0x8000;

#endif
