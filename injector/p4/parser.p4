// Parser states that both architectures share, from the Ethernet header on. A frame that is not RoCE is accepted with
// as many headers as it has; bth is valid only behind a UDP header with RoCE's port, in a packet that is whole at the
// IP layer.
//
// To be included in a parser with packet_in pkt and headers hdr, which goes to state roce_ethernet.

    state roce_ethernet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: roce_vlan;
            ETHERTYPE_IPV4: roce_ipv4;
            ETHERTYPE_IPV6: roce_ipv6;
            default: accept;
        }
    }

    state roce_vlan {
        pkt.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHERTYPE_IPV4: roce_ipv4;
            ETHERTYPE_IPV6: roce_ipv6;
            default: accept;
        }
    }

    // A fragment has its transport header elsewhere, or is not all of its datagram: no more-fragments bit, no offset.
    state roce_ipv4 {
        pkt.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): roce_udp;
#ifdef WITH_IPV4_OPTIONS
            (4, 6 &&& 0xe, 0 &&& 1, 0, PROTOCOL_UDP): roce_ipv4_options;
            (4, 8 &&& 0x8, 0 &&& 1, 0, PROTOCOL_UDP): roce_ipv4_options;
#endif
            default: accept;
        }
    }

#ifdef WITH_IPV4_OPTIONS
    state roce_ipv4_options {
        pkt.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) << 5);
        transition roce_udp;
    }
#endif

    state roce_ipv6 {
        pkt.extract(hdr.ipv6);
        transition select(hdr.ipv6.version, hdr.ipv6.next_header) {
            (6, PROTOCOL_UDP): roce_udp;
            default: accept;
        }
    }

    state roce_udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            ROCE_PORT: roce_bth;
            default: accept;
        }
    }

    state roce_bth {
        pkt.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            0x11: roce_aeth; // ACKNOWLEDGE
            default: accept;
        }
    }

    state roce_aeth {
        pkt.extract(hdr.aeth);
        transition accept;
    }
