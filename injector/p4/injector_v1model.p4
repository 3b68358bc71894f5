// The injector for bmv2's simple_switch: decides as package pipeline does in Go, table by table (docs/guide/p4.md,
// docs/internals/adr/0015).
//
//	parse → flow → arrivals → ITER or ordinal → event → mirror → edit → forward
//
// A mirror copy is an ingress clone: bmv2 parses the packet anew as it arrived, whatever ingress did to it or with it,
// and gives the copy the metadata of field list 1 as it stood at the end of ingress. So events may edit the packet in
// ingress, also drop it. One thread runs ingress: reading and writing a register needs no lock.
#include <core.p4>
#include <v1model.p4>

#ifndef PASSES
#define WITH_IPV4_OPTIONS
#endif
#include "constants.p4"
#include "headers.p4"
#include "opcodes.p4"

// With PASSES ingress does what hardware does, in its order: docs/guide/p4.md.
#ifdef PASSES
#define IPSN_TYPE bit<32>
#else
#define IPSN_TYPE bit<24>
#endif

#define MIRROR_FIELDS 1
#define INSTANCE_INGRESS_CLONE 1
#define INSTANCE_REPLICATION 5

struct headers_t {
    ROCE_HEADERS
}

struct metadata_t {
    // What a mirror copy takes along.
    @field_list(MIRROR_FIELDS)
    bit<48> mirror_seq;
    @field_list(MIRROR_FIELDS)
    bit<48> mirror_time; // ns
    @field_list(MIRROR_FIELDS)
    bit<8> mirror_event;

    // The packet. l3_len counts from the start of the IP header to the end of the datagram, in bytes.
    bit<1> roce;
    opcode_t opcode;
    bit<32> l2_len;
    bit<32> l3_len;
    bit<16> ip_header_len;

    // Its flow.
    bit<1> known;
    bit<16> flow;
    IPSN_TYPE ipsn_request;
    IPSN_TYPE ipsn_response;
    bit<16> epoch;

    // Its round of transmission.
    bit<32> round; // cell of the registers
    bit<16> stored_epoch;
    bit<24> last;

    // Keys of the event tables.
    bit<16> iter;
    bit<32> cell;  // of a register that counts
    bit<32> count; // epoch, count
    bit<16> ordinal;
    bit<1> watched;
    bit<16> slot;
    bit<16> nth;
    bit<16> any_flow;
    bit<1> any_space;
    bit<24> any_psn;

    // Its event.
    bit<8> event;
    bit<16> trim_size;
    bit<6> trim_dscp;
    bit<8> trim_flags;

    // Its mirror copy.
    bit<1> gate;
    bit<16> slots;
    bit<16> turn;
    bit<16> session;
    bit<32> snap;
    bit<1> stamped;
#ifdef PASSES

    // What passes.p4 needs besides.
    bit<16> fresh;
    bit<32> psn;
    bit<32> first;
    bit<32> distance;
    bit<32> ahead;
    bit<16> last_turn;
    bit<32> seq_low;
    bit<16> seq_high;
    bit<1> resum;
#endif
}

// fold and updated are RFC 1624, equation 3.
bit<16> fold(in bit<32> sum) {
    bit<32> once = (sum >> 16) + (sum & 0xffff);
    bit<32> twice = (once >> 16) + (once & 0xffff);
    return ~twice[15:0];
}

bit<16> updated(in bit<16> check, in bit<16> old, in bit<16> now) {
    return fold((bit<32>)(~check) + (bit<32>)(~old) + (bit<32>)now);
}

parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition roce_ethernet;
    }
#include "parser.p4"
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

// Classify decides whether the packet is RoCE with whole transport headers, as far as its length fields and its end go.
control Classify(in headers_t hdr, inout metadata_t meta, in bit<32> frame_len) {
    apply {
        bit<16> announced;
        bit<32> have;
        bit<32> need = (bit<32>)(UDP_LEN + BTH_LEN) + (bit<32>)meta.opcode.extended;
        meta.l2_len = (bit<32>)ETHERNET_LEN;
        if (hdr.vlan.isValid()) {
            meta.l2_len = (bit<32>)(ETHERNET_LEN + VLAN_LEN);
        }
        if (hdr.ipv4.isValid()) {
            meta.ip_header_len = (bit<16>)hdr.ipv4.ihl << 2;
            // 0, too few for anything, if the header alone is longer.
            announced = hdr.ipv4.length |-| meta.ip_header_len;
        } else {
            meta.ip_header_len = IPV6_LEN;
            announced = hdr.ipv6.length;
        }
        have = frame_len - meta.l2_len - (bit<32>)meta.ip_header_len;
        if (have > (bit<32>)announced) {
            have = (bit<32>)announced;
        }
        // What the UDP length announces beyond the end is missing, and pad and iCRC with it.
        if ((bit<32>)hdr.udp.length <= have) {
            have = (bit<32>)hdr.udp.length;
            need = need + (bit<32>)hdr.bth.pad + (bit<32>)ICRC_LEN;
        }
        meta.l3_len = (bit<32>)meta.ip_header_len + have;
        if (have >= need) {
            meta.roce = 1;
        }
    }
}

#ifdef PASSES
#include "passes_v1model.p4"
#else
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @name(".roce_rx") @id(0x12000001)
    counter(512, CounterType.packets_and_bytes) roce_rx;
    @name(".mirrored") @id(0x12000002)
    counter(1024, CounterType.packets_and_bytes) mirrored;
    @name(".pause_rx") @id(0x12000003)
    counter(512, CounterType.packets) pause_rx;

    @name(".event_hits") @id(0x13000001)
    direct_counter(CounterType.packets) event_hits;
    @name(".event_any_hits") @id(0x13000002)
    direct_counter(CounterType.packets) event_any_hits;
    @name(".control_event_hits") @id(0x13000003)
    direct_counter(CounterType.packets) control_event_hits;
    @name(".watched_event_hits") @id(0x13000004)
    direct_counter(CounterType.packets) watched_event_hits;

    register<bit<16>>(8192) r_epoch; // by flow and space
    register<bit<32>>(8192) r_last;
    register<bit<16>>(8192) r_iter;
    register<bit<32>>(65536) r_ordinal; // by flow and class: epoch, count
    register<bit<32>>(8192) r_hit;      // by watch slot: epoch, count
    register<bit<48>>(1) r_seq;
    register<bit<16>>(1) r_slot; // the next turn

    Opcodes() opcodes;
    Classify() classify;

#define COUNTS(counter) counters = counter;
#define FORWARD(to) std.egress_spec = to;
#define FLOOD std.mcast_grp = FLOOD_GROUP;
#define IPSN(psn) psn
#define EVENTS "events.p4"
#include "tables.p4"

    // The round of transmission of (flow, space): docs/internals/adr/0005.
    @hidden
    action load_round() {
        bit<32> last;
        meta.round = (bit<32>)(FLOW_INDEX(meta.flow) ++ meta.opcode.space);
        r_epoch.read(meta.stored_epoch, meta.round);
        r_last.read(last, meta.round);
        r_iter.read(meta.iter, meta.round);
        meta.last = last[23:0];
    }

    @hidden
    action start_rounds(bit<24> ipsn) {
        meta.last = ipsn - 1;
        meta.iter = 1;
    }

    @hidden
    action store_round() {
        r_epoch.write(meta.round, meta.epoch);
        r_last.write(meta.round, (bit<32>)hdr.bth.psn);
        r_iter.write(meta.round, meta.iter);
    }

    @hidden
    action load_ordinal() {
        meta.cell = (bit<32>)(FLOW_INDEX(meta.flow) ++ meta.opcode.class);
        r_ordinal.read(meta.count, meta.cell);
    }

    @hidden
    action store_ordinal() {
        r_ordinal.write(meta.cell, meta.epoch ++ meta.ordinal);
    }

    @hidden
    action load_arrival() {
        meta.cell = (bit<32>)WATCH_CELL(meta.slot);
        r_hit.read(meta.count, meta.cell);
    }

    @hidden
    action store_arrival() {
        r_hit.write(meta.cell, meta.epoch ++ meta.nth);
    }

    // number gives the packet its mirror sequence number. A turn that leads to no session takes one, too.
    @hidden
    action number() {
        r_seq.read(meta.mirror_seq, 0);
        meta.mirror_seq = meta.mirror_seq + 1;
        r_seq.write(0, meta.mirror_seq);
        meta.mirror_time = (bit<48>)std.ingress_global_timestamp * 1000; // bmv2 counts microseconds
        meta.mirror_event = meta.event;
        r_slot.read(meta.turn, 0);
    }

    @hidden
    action set_v4_tos(bit<6> dscp, bit<2> ecn) {
        bit<16> old = hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.dscp ++ hdr.ipv4.ecn;
        hdr.ipv4.checksum = updated(hdr.ipv4.checksum, old, old[15:8] ++ dscp ++ ecn);
        hdr.ipv4.dscp = dscp;
        hdr.ipv4.ecn = ecn;
    }

    @hidden
    action corrupt_v4() {
        bit<16> now = hdr.ipv4.id ^ 0x8000;
        hdr.ipv4.checksum = updated(hdr.ipv4.checksum, hdr.ipv4.id, now);
        hdr.ipv4.id = now;
    }

    @hidden
    action corrupt_v6() {
        hdr.udp.src_port = hdr.udp.src_port ^ 1;
    }

    @hidden
    action sum_v6() {
        hdr.udp.checksum = updated(hdr.udp.checksum, hdr.udp.src_port, hdr.udp.src_port ^ 1);
    }

    @hidden
    action set_v4_length() {
        hdr.ipv4.checksum = updated(hdr.ipv4.checksum, hdr.ipv4.length, meta.trim_size);
        hdr.ipv4.length = meta.trim_size;
    }

    @hidden
    action discard() {
        mark_to_drop(std);
    }

    apply {
        if (hdr.bth.isValid()) {
            bit<8> syndrome = 0;
            if (hdr.aeth.isValid()) {
                syndrome = hdr.aeth.syndrome;
            }
            opcodes.apply(hdr.bth.opcode, syndrome, meta.opcode);
            classify.apply(hdr, meta, std.packet_length);
        }

        if (meta.roce == 1) {
            roce_rx.count((bit<32>)std.ingress_port);
            if (hdr.ipv4.isValid()) {
                connection_v4.apply();
            } else {
                connection_v6.apply();
            }
            if (meta.known == 1) {
                bit<1> found = 0;
                watch.apply();
                if (meta.watched == 1 && !WATCH_EVERY(meta.slot)) {
                    load_arrival();
                    meta.nth = meta.count[15:0];
                    if (meta.count[31:16] != meta.epoch) {
                        meta.nth = 0;
                    }
                    if (meta.nth != SATURATED) {
                        meta.nth = meta.nth + 1;
                    }
                    store_arrival();
                }
                if (meta.opcode.class == CLASS_DATA) {
                    load_round();
                    if (meta.stored_epoch != meta.epoch) {
                        if (meta.opcode.space == 0) {
                            start_rounds(meta.ipsn_request);
                        } else {
                            start_rounds(meta.ipsn_response);
                        }
                    }
                    bit<24> ahead = hdr.bth.psn - meta.last; // signed, modulo 2^24
                    bit<1> again = 0;
                    if (MESSAGE_SCOPE(meta.flow)) {
                        if (ahead != 1) {
                            again = 1;
                        } else if (meta.opcode.starts == 1) {
                            meta.iter = 1;
                        }
                    } else if (ahead == 0 || ahead[23:23] == 1) {
                        again = 1;
                    }
                    if (again == 1 && meta.iter != SATURATED) {
                        meta.iter = meta.iter + 1;
                    }
                    store_round();
                    meta.any_flow = meta.flow;
                    meta.any_space = meta.opcode.space;
                    meta.any_psn = hdr.bth.psn;
                    if (event.apply().hit) {
                        found = 1;
                    }
                } else {
                    load_ordinal();
                    meta.ordinal = meta.count[15:0];
                    if (meta.count[31:16] != meta.epoch) {
                        meta.ordinal = 0;
                    }
                    if (meta.ordinal != SATURATED) {
                        meta.ordinal = meta.ordinal + 1;
                    }
                    store_ordinal();
                    meta.any_flow = meta.flow | FLOW_CONTROL_CLASS;
                    meta.any_space = 0;
                    meta.any_psn = (bit<24>)meta.opcode.class;
                    if (control_event.apply().hit) {
                        found = 1;
                    }
                }
                if (found == 0 && meta.watched == 1) {
                    if (watched_event.apply().hit) {
                        found = 1;
                    }
                }
                if (found == 0) {
                    event_any.apply();
                }
            }
            // A runt passes whole; the hit counts.
            if (meta.event == EVENT_TRIM && meta.l3_len <= (bit<32>)meta.trim_size) {
                meta.event = EVENT_NONE;
            }
            mirror.apply();
            if (meta.gate == 1) {
                number();
                if (meta.turn >= meta.slots) { // an earlier round had more turns
                    meta.turn = 0;
                }
                bit<16> next = meta.turn + 1;
                if (next >= meta.slots) {
                    next = 0;
                }
                r_slot.write(0, next);
                if (mirror_slot.apply().hit) {
                    mirrored.count((bit<32>)meta.session);
                    clone_preserving_field_list(CloneType.I2E, (bit<32>)meta.session, MIRROR_FIELDS);
                }
            } else {
                r_slot.write(0, 0); // rounds start anew when the gate opens
            }
        } else if (hdr.ethernet.ether_type == ETHERTYPE_MAC_CONTROL ||
                   hdr.vlan.isValid() && hdr.vlan.ether_type == ETHERTYPE_MAC_CONTROL) {
            pause_rx.count((bit<32>)std.ingress_port);
        }

        if (meta.event == EVENT_DROP) {
            discard();
        } else if (hdr.ethernet.dst[47:4] == RESERVED_MACS) {
            discard();
        } else if (hdr.ethernet.dst[40:40] == 1) {
            flood();
        } else {
            l2_forward.apply();
        }

        if (meta.event == EVENT_ECN) {
            if (hdr.ipv4.isValid()) {
                set_v4_tos(hdr.ipv4.dscp, 3);
            } else {
                hdr.ipv6.ecn = 3;
            }
        } else if (meta.event == EVENT_CORRUPT) {
            if (hdr.ipv4.isValid()) {
                corrupt_v4();
            } else {
                if (hdr.udp.checksum != 0) {
                    sum_v6();
                    if (hdr.udp.checksum == 0) {
                        hdr.udp.checksum = 0xffff; // zero would mean that there is none
                    }
                }
                corrupt_v6();
            }
        } else if (meta.event == EVENT_TRIM) {
            if (TRIM_SET_DSCP(meta.trim_flags)) {
                if (hdr.ipv4.isValid()) {
                    set_v4_tos(meta.trim_dscp, hdr.ipv4.ecn);
                } else {
                    hdr.ipv6.dscp = meta.trim_dscp;
                }
            }
            // Length fields are updated as far as the cut, which is egress's, leaves them.
            if (TRIM_UPDATE_IP_LENGTH(meta.trim_flags) && meta.trim_size >= meta.ip_header_len) {
                if (hdr.ipv4.isValid()) {
                    set_v4_length();
                } else {
                    hdr.ipv6.length = meta.trim_size - IPV6_LEN;
                }
            }
            if (TRIM_UPDATE_UDP_LENGTH(meta.trim_flags) && meta.trim_size >= meta.ip_header_len + UDP_LEN) {
                hdr.udp.length = meta.trim_size - meta.ip_header_len;
            }
        }
    }
}

#endif

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @name(".roce_tx") @id(0x12000004)
    counter(512, CounterType.packets_and_bytes) roce_tx;

    @name(".set_snap") @id(0x01000010)
    action set_snap(bit<32> bytes) {
        meta.snap = bytes;
    }

    @name(".mirror_egress") @id(0x02000010)
    table mirror_egress {
        actions = { set_snap; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // stamp turns a copy into a mirror copy; its IPv4 checksum is computed anew behind egress. The UDP port is spread
    // over the upper half, so that receive-side scaling spreads copies over a dumper's cores.
    @hidden
    action stamp() {
        bit<16> port;
        hash(port, HashAlgorithm.crc16, 16w0, { meta.mirror_seq }, 32w0x10000);
        hdr.ethernet.dst = meta.mirror_time;
        hdr.ethernet.src = meta.mirror_seq;
        meta.stamped = 1;
        hdr.udp.dst_port = port | MIRROR_PORTS;
    }

    apply {
        if (std.instance_type == INSTANCE_INGRESS_CLONE) {
            stamp();
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.ttl = meta.mirror_event;
            } else {
                hdr.ipv6.hop_limit = meta.mirror_event;
            }
            mirror_egress.apply();
            if (meta.snap != 0) {
                truncate(meta.snap);
            }
        } else if (std.instance_type == INSTANCE_REPLICATION && std.egress_port == std.ingress_port) {
            mark_to_drop(std); // a flood doesn't go back
        } else if (meta.roce == 1) {
            roce_tx.count((bit<32>)std.egress_port);
            if (meta.event == EVENT_TRIM) {
                truncate(meta.l2_len + (bit<32>)meta.trim_size);
            }
        }
    }
}

// Sum computes the checksum of a mirror copy's header anew: one that arrived wrong must not look damaged by the switch.
#ifdef PASSES
#define TO_SUM (meta.stamped == 1 || meta.resum == 1)
#else
#define TO_SUM meta.stamped == 1
#endif
#ifdef WITH_IPV4_OPTIONS
#define IPV4_OPTIONS_SUM , hdr.ipv4_options.bytes
#else
#define IPV4_OPTIONS_SUM
#endif
control Sum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && TO_SUM, {
            hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags,
            hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst IPV4_OPTIONS_SUM
        }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control D(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan);
        pkt.emit(hdr.ipv4);
#ifdef WITH_IPV4_OPTIONS
        pkt.emit(hdr.ipv4_options);
#endif
        pkt.emit(hdr.ipv6);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.bth);
        pkt.emit(hdr.aeth);
    }
}

V1Switch(P(), NoVerify(), I(), E(), Sum(), D()) main;
