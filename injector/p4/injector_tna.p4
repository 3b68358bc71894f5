// The injector for Tofino 1 and 2: the same tables as for bmv2, state in register actions. docs/guide/p4.md says what was
// checked and what was not, and how to set ports and mirror sessions up.
//
//	ingress  parse → flow → arrivals → ITER or ordinal → event → mirror → edit → forward
//	egress   a bridged packet leaves, or is cut by a mirror session; a mirror copy is stamped
//
// The state of a packet is spread over stages: each register is touched once, in the order epoch, lastPSN, ITER.
// Packets pass the stages one behind the other, so that what one leaves in all registers is what the next finds. A
// register belongs to one pipe: both hosts must be cabled to ports of the same pipe.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#include "constants.p4"
#include "headers.p4"
#include "opcodes.p4"

// What stands in front of a packet between ingress and egress.
const bit<8> KIND_BRIDGED = 1; // as ingress sent it on
const bit<8> KIND_COPY = 2;    // a mirror copy, made by ingress
const bit<8> KIND_CUT = 3;     // cut by a mirror session of egress

const MirrorType_t MIRROR_COPY = 1;
const MirrorType_t MIRROR_CUT = 1;

// The mirror session that cuts packets for a port: Tofino 1 has 1024 sessions, one for each port above 512; Tofino 2
// has 256, and hosts are on one pipe, so that the port's number within its pipe tells them apart. Sessions of dumpers
// are the controller's, from 1 on.
#if __TARGET_TOFINO__ == 2
#define CUT_SESSION(port) (1w1 ++ port[6:0])
#else
#define CUT_SESSION(port) (1w1 ++ port)
#endif

header kind_t {
    bit<8> kind;
}

header bridge_t {
    bit<8> kind;
    bit<8> event;
    bit<16> trim_size;
    bit<8> trim_flags;
    bit<2> pad0;
    bit<6> trim_dscp;
    bit<5> pad1;
    bit<1> roce;
    bit<1> flooded;
    bit<9> ingress_port;
}

header copy_t {
    bit<8> kind;
    bit<8> event;
    bit<48> seq;
    bit<48> time;
}

header cut_t {
    bit<8> kind;
    bit<16> trim_size;
    bit<8> trim_flags;
    bit<2> pad;
    bit<6> trim_dscp;
}

struct headers_t {
    bridge_t bridge;
    ROCE_HEADERS
}

struct metadata_t {
    bit<1> roce;
    opcode_t opcode;

    bit<1> known;
    bit<16> flow;
    bit<24> ipsn_request;
    bit<24> ipsn_response;
    bit<16> epoch;

    // The round of transmission. PSNs stand in the upper 24 bits, so that differences have their sign in bit 31.
    bit<13> round;
    bit<16> stored_epoch;
    bit<32> psn;
    bit<32> last;
    bit<32> ahead;
    bit<1> fresh;
    bit<1> again;

    bit<16> iter;
    bit<16> ordinal;
    bit<1> watched;
    bit<16> slot;
    bit<16> nth;
    bit<16> any_flow;
    bit<1> any_space;
    bit<24> any_psn;

    bit<8> event;
    bit<16> trim_size;
    bit<6> trim_dscp;
    bit<8> trim_flags;
    bit<16> excess;

    bit<1> gate;
    bit<16> slots;
    bit<16> turn;
    bit<16> session;
    MirrorId_t mirror_session;
    bit<1> flooded;
    bit<1> resum;
    copy_t copy;
}

// A count that belongs to an epoch.
struct counted_t {
    bit<16> epoch;
    bit<16> n;
}

parser IngressParser(packet_in pkt, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig_intr_md) {
    state start {
        pkt.extract(ig_intr_md);
        pkt.advance(PORT_METADATA_SIZE);
        meta.roce = 0;
        meta.known = 0;
        meta.fresh = 0;
        meta.again = 0;
        meta.watched = 0;
        meta.event = EVENT_NONE;
        meta.trim_size = 0;
        meta.trim_dscp = 0;
        meta.trim_flags = 0;
        meta.gate = 0;
        meta.flooded = 0;
        meta.resum = 0;
        transition roce_ethernet;
    }
#include "parser.p4"
}

control I(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
          in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
          inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
          inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    @name(".roce_rx") @id(0x12000001)
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS_AND_BYTES) roce_rx;
    @name(".mirrored") @id(0x12000002)
    Counter<bit<64>, bit<10>>(1024, CounterType_t.PACKETS_AND_BYTES) mirrored;
    @name(".pause_rx") @id(0x12000003)
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS) pause_rx;

    @name(".event_hits") @id(0x13000001)
    DirectCounter<bit<64>>(CounterType_t.PACKETS) event_hits;
    @name(".event_any_hits") @id(0x13000002)
    DirectCounter<bit<64>>(CounterType_t.PACKETS) event_any_hits;
    @name(".control_event_hits") @id(0x13000003)
    DirectCounter<bit<64>>(CounterType_t.PACKETS) control_event_hits;
    @name(".watched_event_hits") @id(0x13000004)
    DirectCounter<bit<64>>(CounterType_t.PACKETS) watched_event_hits;

    Register<bit<16>, bit<13>>(8192) r_epoch; // by flow and space
    Register<bit<32>, bit<13>>(8192) r_last;
    Register<bit<16>, bit<13>>(8192) r_iter;
    Register<counted_t, bit<16>>(65536) r_ordinal; // by flow and class
    Register<counted_t, bit<13>>(8192) r_hit;      // by watch slot
    Register<bit<32>, bit<1>>(1) r_seq;
    Register<bit<16>, bit<1>>(1) r_seq_high;
    Register<bit<16>, bit<1>>(1, 0xffff) r_slot; // the turn before

    Opcodes() opcodes;

#define COUNTS(counter) counters = counter;
#define FORWARD(to) ig_tm_md.ucast_egress_port = to;
#define FLOOD ig_tm_md.mcast_grp_a = (MulticastGroupId_t)FLOOD_GROUP; meta.flooded = 1;
#include "tables.p4"

    RegisterAction<bit<16>, bit<13>, bit<16>>(r_epoch) swap_epoch = {
        void apply(inout bit<16> stored, out bit<16> before) {
            before = stored;
            stored = meta.epoch;
        }
    };

    RegisterAction<bit<32>, bit<13>, bit<32>>(r_last) swap_last = {
        void apply(inout bit<32> stored, out bit<32> before) {
            before = stored;
            stored = meta.psn;
        }
    };

    RegisterAction<bit<16>, bit<13>, bit<16>>(r_iter) first_round = {
        void apply(inout bit<16> iter, out bit<16> now) {
            iter = 1;
            now = iter;
        }
    };

    RegisterAction<bit<16>, bit<13>, bit<16>>(r_iter) second_round = {
        void apply(inout bit<16> iter, out bit<16> now) {
            iter = 2;
            now = iter;
        }
    };

    RegisterAction<bit<16>, bit<13>, bit<16>>(r_iter) next_round = {
        void apply(inout bit<16> iter, out bit<16> now) {
            iter = iter |+| 1;
            now = iter;
        }
    };

    RegisterAction<bit<16>, bit<13>, bit<16>>(r_iter) same_round = {
        void apply(inout bit<16> iter, out bit<16> now) {
            now = iter;
        }
    };

    RegisterAction<counted_t, bit<16>, bit<16>>(r_ordinal) next_ordinal = {
        void apply(inout counted_t stored, out bit<16> now) {
            if (stored.epoch == meta.epoch) {
                stored.n = stored.n |+| 1;
            } else {
                stored.n = 1;
            }
            stored.epoch = meta.epoch;
            now = stored.n;
        }
    };

    RegisterAction<counted_t, bit<13>, bit<16>>(r_hit) next_arrival = {
        void apply(inout counted_t stored, out bit<16> now) {
            if (stored.epoch == meta.epoch) {
                stored.n = stored.n |+| 1;
            } else {
                stored.n = 1;
            }
            stored.epoch = meta.epoch;
            now = stored.n;
        }
    };

    RegisterAction<bit<32>, bit<1>, bit<32>>(r_seq) next_seq = {
        void apply(inout bit<32> seq, out bit<32> now) {
            seq = seq + 1;
            now = seq;
        }
    };

    RegisterAction<bit<16>, bit<1>, bit<16>>(r_seq_high) carry_seq = {
        void apply(inout bit<16> high, out bit<16> now) {
            high = high + 1;
            now = high;
        }
    };

    RegisterAction<bit<16>, bit<1>, bit<16>>(r_seq_high) keep_seq = {
        void apply(inout bit<16> high, out bit<16> now) {
            now = high;
        }
    };

    // The turn behind the last one is the first; so it is when an earlier round had more turns.
    RegisterAction<bit<16>, bit<1>, bit<16>>(r_slot) next_turn = {
        void apply(inout bit<16> turn, out bit<16> now) {
            if (turn >= meta.slots) {
                turn = 0;
            } else {
                turn = turn + 1;
            }
            now = turn;
        }
    };

    RegisterAction<bit<16>, bit<1>, bit<16>>(r_slot) restart_turns = {
        void apply(inout bit<16> turn, out bit<16> now) {
            turn = 0xffff;
            now = turn;
        }
    };

    Hash<bit<13>>(HashAlgorithm_t.IDENTITY) round_cell;
    Hash<bit<16>>(HashAlgorithm_t.IDENTITY) ordinal_cell;

    @hidden
    action discard() {
        ig_dprsr_md.drop_ctl = 1; // a mirror copy leaves all the same
    }

    // advance sets what is known once the registers were read: whether the packet is of a round that went before.
    @hidden
    action ahead_of_last() {
        meta.ahead = meta.psn - meta.last;
    }

    @hidden
    action corrupt_v4() {
        hdr.ipv4.id = hdr.ipv4.id ^ 0x8000;
        meta.resum = 1;
    }

    // The port's last bit moves the checksum by one, in ones' complement; zero would mean that there is none (RFC
    // 1624).
    @hidden
    action checksum_down() {
        hdr.udp.checksum = hdr.udp.checksum - 1;
    }

    @hidden
    action checksum_up() {
        hdr.udp.checksum = hdr.udp.checksum + 1;
    }

    @hidden
    action checksum_is(bit<16> sum) {
        hdr.udp.checksum = sum;
    }

    apply {
        if (hdr.bth.isValid() && ig_prsr_md.parser_err == 0) {
            meta.roce = 1;
            if (hdr.aeth.isValid()) {
                opcodes.apply(hdr.bth.opcode, hdr.aeth.syndrome, meta.opcode);
            } else {
                opcodes.apply(hdr.bth.opcode, 0, meta.opcode);
            }
        }

        if (meta.roce == 1) {
            roce_rx.count(ig_intr_md.ingress_port);
            if (hdr.ipv4.isValid()) {
                connection_v4.apply();
                meta.excess = hdr.ipv4.length;
            } else {
                connection_v6.apply();
                meta.excess = hdr.ipv6.length + IPV6_LEN;
            }
            if (meta.known == 1) {
                bit<1> found = 0;
                watch.apply();
                if (meta.watched == 1 && meta.slot[15:15] == 0) {
                    meta.nth = next_arrival.execute(WATCH_CELL(meta.slot));
                }
                if (meta.opcode.class == CLASS_DATA) {
                    meta.psn = hdr.bth.psn ++ 8w0;
                    meta.round = round_cell.get({ FLOW_INDEX(meta.flow), meta.opcode.space });
                    meta.stored_epoch = swap_epoch.execute(meta.round);
                    meta.last = swap_last.execute(meta.round);
                    if (meta.stored_epoch != meta.epoch) {
                        meta.fresh = 1;
                        if (meta.opcode.space == 1) {
                            meta.last = (meta.ipsn_response - 1) ++ 8w0;
                        } else {
                            meta.last = (meta.ipsn_request - 1) ++ 8w0;
                        }
                    }
                    ahead_of_last();
                    if (MESSAGE_SCOPE(meta.flow)) {
                        if (meta.ahead != 256) {
                            meta.again = 1;
                        } else if (meta.opcode.starts == 1) {
                            meta.fresh = 1;
                        }
                    } else if (meta.ahead == 0 || meta.ahead[31:31] == 1) {
                        meta.again = 1;
                    }
                    if (meta.fresh == 1 && meta.again == 0) {
                        meta.iter = first_round.execute(meta.round);
                    } else if (meta.fresh == 1) {
                        meta.iter = second_round.execute(meta.round);
                    } else if (meta.again == 1) {
                        meta.iter = next_round.execute(meta.round);
                    } else {
                        meta.iter = same_round.execute(meta.round);
                    }
                    meta.any_flow = meta.flow;
                    meta.any_space = meta.opcode.space;
                    meta.any_psn = hdr.bth.psn;
                    if (event.apply().hit) {
                        found = 1;
                    }
                } else {
                    meta.ordinal = next_ordinal.execute(ordinal_cell.get({ FLOW_INDEX(meta.flow), meta.opcode.class }));
                    meta.any_flow = meta.flow | FLOW_CONTROL_CLASS;
                    meta.any_space = 0;
                    meta.any_psn = 20w0 ++ meta.opcode.class;
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
            meta.excess = meta.excess |-| meta.trim_size;
            if (meta.event == EVENT_TRIM && meta.excess == 0) {
                meta.event = EVENT_NONE;
            }
            mirror.apply();
            if (meta.gate == 1) {
                bit<32> low = next_seq.execute(0);
                bit<16> high;
                if (low == 0) {
                    high = carry_seq.execute(0);
                } else {
                    high = keep_seq.execute(0);
                }
                meta.slots = meta.slots - 1;
                meta.turn = next_turn.execute(0);
                meta.copy.seq = high ++ low;
                if (mirror_slot.apply().hit) {
                    meta.mirror_session = (MirrorId_t)meta.session;
                    mirrored.count(meta.session[9:0]);
                    meta.copy.kind = KIND_COPY;
                    meta.copy.event = meta.event;
                    meta.copy.time = ig_prsr_md.global_tstamp;
                    ig_dprsr_md.mirror_type = MIRROR_COPY;
                }
            } else {
                restart_turns.execute(0);
            }
        } else if (hdr.ethernet.ether_type == ETHERTYPE_MAC_CONTROL) {
            pause_rx.count(ig_intr_md.ingress_port);
        } else if (hdr.vlan.isValid() && hdr.vlan.ether_type == ETHERTYPE_MAC_CONTROL) {
            pause_rx.count(ig_intr_md.ingress_port);
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

        // A mirror copy is the packet as it arrived, whatever is done to it here.
        if (meta.event == EVENT_ECN) {
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.ecn = 3;
                meta.resum = 1;
            } else {
                hdr.ipv6.ecn = 3;
            }
        } else if (meta.event == EVENT_CORRUPT) {
            if (hdr.ipv4.isValid()) {
                corrupt_v4();
            } else {
                if (hdr.udp.checksum == 0) {
                    // There is none to keep right.
                } else if (hdr.udp.src_port[0:0] == 0) {
                    if (hdr.udp.checksum == 1) {
                        checksum_is(0xffff);
                    } else {
                        checksum_down();
                    }
                } else {
                    if (hdr.udp.checksum == 0xffff) {
                        checksum_is(1);
                    } else {
                        checksum_up();
                    }
                }
                hdr.udp.src_port = hdr.udp.src_port ^ 1;
            }
        }

        hdr.bridge.setValid();
        hdr.bridge.kind = KIND_BRIDGED;
        hdr.bridge.event = meta.event;
        hdr.bridge.trim_size = meta.trim_size;
        hdr.bridge.trim_flags = meta.trim_flags;
        hdr.bridge.trim_dscp = meta.trim_dscp;
        hdr.bridge.roce = meta.roce;
        hdr.bridge.flooded = meta.flooded;
        hdr.bridge.ingress_port = ig_intr_md.ingress_port;
    }
}

control IngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Checksum() sum;
    Mirror(MIRROR_COPY) copies;

    apply {
        if (ig_dprsr_md.mirror_type == MIRROR_COPY) {
            copies.emit<copy_t>(meta.mirror_session, meta.copy);
        }
        if (meta.resum == 1) {
            hdr.ipv4.checksum = sum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst
            });
        }
        pkt.emit(hdr);
    }
}

struct egress_headers_t {
    ROCE_HEADERS
}

struct egress_metadata_t {
    bridge_t bridge;
    copy_t copy;
    cut_t cut;
    bit<16> ip_header_len;
    MirrorId_t cut_session;
    bit<1> resum;
    bit<32> snap;
}

parser EgressParser(packet_in pkt, out egress_headers_t hdr, out egress_metadata_t meta,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        pkt.extract(eg_intr_md);
        meta.resum = 0;
        meta.snap = 0;
        transition select(pkt.lookahead<kind_t>().kind) {
            KIND_BRIDGED: bridged;
            KIND_COPY: copied;
            KIND_CUT: cut_short;
            default: reject;
        }
    }

    state bridged {
        pkt.extract(meta.bridge);
        transition roce_ethernet;
    }

    state copied {
        pkt.extract(meta.copy);
        transition roce_ethernet;
    }

    state cut_short {
        pkt.extract(meta.cut);
        transition roce_ethernet;
    }
#include "parser.p4"
}

control E(inout egress_headers_t hdr, inout egress_metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
          in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
          inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
          inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    @name(".roce_tx") @id(0x12000004)
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS_AND_BYTES) roce_tx;

    Hash<bit<16>>(HashAlgorithm_t.CRC16) port_of_copy;

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

    // cut sends the packet through the mirror session of its port, which cuts it, and drops the whole one.
    @hidden
    action cut() {
        meta.cut.setValid();
        meta.cut.kind = KIND_CUT;
        meta.cut.trim_size = meta.bridge.trim_size;
        meta.cut.trim_flags = meta.bridge.trim_flags;
        meta.cut.trim_dscp = meta.bridge.trim_dscp;
        meta.cut_session = CUT_SESSION(eg_intr_md.egress_port);
        eg_dprsr_md.mirror_type = MIRROR_CUT;
        eg_dprsr_md.drop_ctl = 1;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            meta.ip_header_len = IPV4_LEN;
        } else {
            meta.ip_header_len = IPV6_LEN;
        }
        if (meta.copy.isValid()) {
            hdr.ethernet.dst = meta.copy.time;
            hdr.ethernet.src = meta.copy.seq;
            hdr.udp.dst_port = port_of_copy.get({ meta.copy.seq }) | MIRROR_PORTS;
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.ttl = meta.copy.event;
                meta.resum = 1;
            } else {
                hdr.ipv6.hop_limit = meta.copy.event;
            }
            mirror_egress.apply();
#if __TARGET_TOFINO__ == 2
            eg_dprsr_md.mtu_trunc_len = meta.snap[13:0]; // 0: whole
#endif
        } else if (meta.cut.isValid()) {
            roce_tx.count(eg_intr_md.egress_port);
            if (TRIM_SET_DSCP(meta.cut.trim_flags)) {
                if (hdr.ipv4.isValid()) {
                    hdr.ipv4.dscp = meta.cut.trim_dscp;
                    meta.resum = 1;
                } else {
                    hdr.ipv6.dscp = meta.cut.trim_dscp;
                }
            }
            if (TRIM_UPDATE_IP_LENGTH(meta.cut.trim_flags)) {
                if (hdr.ipv4.isValid()) {
                    hdr.ipv4.length = meta.cut.trim_size;
                    meta.resum = 1;
                } else {
                    hdr.ipv6.length = meta.cut.trim_size - IPV6_LEN;
                }
            }
            if (TRIM_UPDATE_UDP_LENGTH(meta.cut.trim_flags)) {
                hdr.udp.length = meta.cut.trim_size - meta.ip_header_len;
            }
        } else if (meta.bridge.flooded == 1 && meta.bridge.ingress_port == eg_intr_md.egress_port) {
            eg_dprsr_md.drop_ctl = 1; // a flood doesn't go back
        } else if (meta.bridge.event == EVENT_TRIM) {
            cut();
        } else if (meta.bridge.roce == 1) {
            roce_tx.count(eg_intr_md.egress_port);
        }
    }
}

control EgressDeparser(packet_out pkt, inout egress_headers_t hdr, in egress_metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() sum;
    Mirror(MIRROR_CUT) cuts;

    apply {
        if (eg_dprsr_md.mirror_type == MIRROR_CUT) {
            cuts.emit<cut_t>(meta.cut_session, meta.cut);
        }
        if (meta.resum == 1) {
            hdr.ipv4.checksum = sum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length, hdr.ipv4.id,
                hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst
            });
        }
        pkt.emit(hdr);
    }
}

Pipeline(IngressParser(), I(), IngressDeparser(), EgressParser(), E(), EgressDeparser()) pipe;

Switch(pipe) main;
