// Headers of RoCEv2 packets: Ethernet, one optional 802.1Q tag, IPv4 or IPv6, UDP, BTH, and the AETH where it names the
// class.
#ifndef _CANDELA_HEADERS_
#define _CANDELA_HEADERS_

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header vlan_t {
    bit<16> tci;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> length;
    bit<16> id;
    bit<3> flags;
    bit<13> offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

#ifdef WITH_IPV4_OPTIONS
header ipv4_options_t {
    varbit<320> bytes;
}
#endif

header ipv6_t {
    bit<4> version;
    bit<6> dscp;
    bit<2> ecn;
    bit<20> flow_label;
    bit<16> length;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// Base transport header (IBTA volume 1, 9.2).
header bth_t {
    bit<8> opcode;
    bit<2> solicited_migreq;
    bit<2> pad;
    bit<4> version;
    bit<16> pkey;
    bit<8> fecn_becn;
    bit<24> dst_qpn;
    bit<8> ack_req;
    bit<24> psn;
}

// ACK extended transport header (IBTA volume 1, 9.3.5).
header aeth_t {
    bit<8> syndrome;
    bit<24> msn;
}

#define ROCE_HEADERS \
    ethernet_t ethernet; \
    vlan_t vlan; \
    ipv4_t ipv4; \
    IPV4_OPTIONS_HEADER \
    ipv6_t ipv6; \
    udp_t udp; \
    bth_t bth; \
    aeth_t aeth;

#ifdef WITH_IPV4_OPTIONS
#define IPV4_OPTIONS_HEADER ipv4_options_t ipv4_options;
#else
#define IPV4_OPTIONS_HEADER
#endif

#endif
