// The injector for Tofino 1 and 2: the same tables as for bmv2, state in register actions. docs/guide/tofino.md says
// what was checked and what was not, and how to compile it and set a switch up.
//
//	ingress  parse → flow, mirror → arrivals, ordinal → epoch → PSN → ITER → event → edit (passes.p4)
//	egress   a bridged packet leaves, on Tofino 2 cut by a trim; a mirror copy is stamped
//
// The state of a packet is spread over stages. Packets pass the stages one behind the other, so that what one leaves in
// all registers is what the next finds. A register belongs to one pipe: both hosts must be cabled to ports of the same
// pipe.
//
// Tofino 1 cuts nothing behind egress: it has no trim, and its mirror sessions cut the copies.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#define WITH_TRIM
#else
#include <tna.p4>
#endif

#define OPCODES_IN_PLACE
#include "constants.p4"
#include "headers.p4"
#include "opcodes.p4"

// What stands in front of a packet between ingress and egress.
const bit<8> KIND_BRIDGED = 1; // as ingress sent it on
const bit<8> KIND_COPY = 2;    // a mirror copy, made by ingress

const MirrorType_t MIRROR_COPY = 1;

header kind_t {
    bit<8> kind;
}

header bridge_t {
    bit<8> kind;
    bit<8> event;
    bit<5> pad0;
    bit<1> roce;
    bit<1> flooded;
    bit<9> ingress_port;
#ifdef WITH_TRIM
    bit<16> trim_size;
    bit<8> trim_flags;
    bit<6> trim_dscp;
    bit<2> pad1;
#endif
}

// A mirror copy's stamp. Behind the first two bytes it is the Ethernet header that the copy gets in place of its own,
// so that egress need only parse it as one.
header copy_t {
    bit<8> kind;
    bit<8> event;
    bit<48> time;
    bit<16> seq_high;
    bit<32> seq_low;
    bit<16> ether_type;
}

header stamp_t {
    bit<8> kind;
    bit<8> event;
}

struct headers_t {
    bridge_t bridge;
    ROCE_HEADERS
}

struct metadata_t {
    opcode_t opcode;

    bit<1> known;
    bit<16> flow;
    bit<32> ipsn_request;
    bit<32> ipsn_response;
    bit<16> epoch;

    bit<13> round; // cell of flow and space
    bit<16> cell;  // of flow and class
    bit<16> fresh;
    bit<32> psn;
    bit<32> first;
    bit<32> distance;
    bit<32> ahead;

    bit<16> iter;
    bit<16> ordinal;
    bit<1> watched;
    bit<16> slot;
    bit<16> nth;
    bit<16> any_flow;
    bit<1> any_space;
    bit<24> any_psn;

    bit<16> excess;

    bit<1> gate;
    bit<16> slots;
    bit<16> last_turn;
    bit<16> turn;
    bit<16> session;
    MirrorId_t mirror_session;
    bit<1> resum;

    // The stamp of a mirror copy.
    bit<8> copy_kind;
    bit<48> time;
    bit<16> seq_high;
    bit<32> seq_low;
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
        meta.known = 0;
        meta.fresh = 0;
        meta.watched = 0;
        meta.nth = 0;
        meta.gate = 0;
        meta.resum = 0;
        meta.copy_kind = KIND_COPY;
        hdr.bridge.setValid();
        hdr.bridge.kind = KIND_BRIDGED;
        hdr.bridge.event = EVENT_NONE;
        hdr.bridge.pad0 = 0;
        hdr.bridge.roce = 0;
        hdr.bridge.flooded = 0;
        transition roce_ethernet;
    }
#include "parser.p4"
}

control I(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
          in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
          inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
          inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    @name(".roce_rx")
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS_AND_BYTES) roce_rx;
    @name(".mirrored")
    Counter<bit<64>, bit<10>>(1024, CounterType_t.PACKETS_AND_BYTES) mirrored;
    @name(".pause_rx")
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS) pause_rx;

    @name(".event_hits")
    DirectCounter<bit<64>>(CounterType_t.PACKETS) event_hits;
    @name(".event_any_hits")
    DirectCounter<bit<64>>(CounterType_t.PACKETS) event_any_hits;
    @name(".control_event_hits")
    DirectCounter<bit<64>>(CounterType_t.PACKETS) control_event_hits;
    @name(".watched_event_hits")
    DirectCounter<bit<64>>(CounterType_t.PACKETS) watched_event_hits;

    Register<bit<16>, bit<13>>(8192) r_epoch; // by flow and space
    Register<bit<32>, bit<13>>(8192) r_last;
    Register<bit<16>, bit<13>>(8192) r_iter;
    Register<counted_t, bit<16>>(65536) r_ordinal; // by flow and class
    Register<counted_t, bit<13>>(8192) r_hit;      // by watch slot
    Register<bit<32>, bit<1>>(1) r_seq;
    Register<bit<16>, bit<1>>(1) r_seq_high;
    Register<bit<16>, bit<1>>(1, 0xffff) r_slot; // the turn before

#define OPCODE hdr.bth.opcode
#define SYNDROME hdr.aeth.syndrome
#define INFO meta.opcode
#define MORE(class, space) \
        meta.any_psn = (bit<24>)class; \
        meta.any_space = space;
#include "opcode_table.p4"

#define EVENT hdr.bridge.event
#define COUNTS(counter) counters = counter;
#define FORWARD(to) ig_tm_md.ucast_egress_port = to;
#define FLOOD ig_tm_md.mcast_grp_a = (MulticastGroupId_t)FLOOD_GROUP; hdr.bridge.flooded = 1;
#define IPSN(psn) (bit<32>)psn
#define TRIM(size, dscp, flags) \
        hdr.bridge.trim_size = size; \
        hdr.bridge.trim_dscp = dscp; \
        hdr.bridge.trim_flags = flags;
#define EVENTS "events_counting.p4"
#include "tables.p4"

    RegisterAction<bit<16>, bit<13>, bit<16>>(r_epoch) swap_epoch = {
        void apply(inout bit<16> stored, out bit<16> fresh) {
            fresh = 0;
            if (stored != meta.epoch) {
                fresh = 1;
            }
            stored = meta.epoch;
        }
    };

    // The action ALU of the register subtracts: nothing public says that a stateful comparison wraps.
    RegisterAction<bit<32>, bit<13>, bit<32>>(r_last) step_last = {
        void apply(inout bit<32> stored, out bit<32> ahead) {
            ahead = meta.psn - stored;
            stored = meta.psn;
        }
    };

    RegisterAction<bit<32>, bit<13>, bit<32>>(r_last) start_last = {
        void apply(inout bit<32> stored) {
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
            if (turn >= meta.last_turn) {
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
    action count_received() {
        roce_rx.count(ig_intr_md.ingress_port);
    }

    @hidden
    action count_paused() {
        pause_rx.count(ig_intr_md.ingress_port);
    }

    @hidden
    action came_from() {
        hdr.bridge.ingress_port = ig_intr_md.ingress_port;
    }

    @hidden
    action note() {
        hdr.bridge.roce = 1;
        meta.time = ig_prsr_md.global_tstamp;
    }

    @hidden
    action find_round() {
        meta.round = round_cell.get({ FLOW_INDEX(meta.flow), meta.opcode.space });
    }

    @hidden
    action find_cell() {
        meta.cell = ordinal_cell.get({ FLOW_INDEX(meta.flow), meta.opcode.class });
    }

    @hidden
    action take_epoch() {
        meta.fresh = swap_epoch.execute(meta.round);
    }

    @hidden
    action step_psn() {
        meta.ahead = step_last.execute(meta.round);
    }

    @hidden
    action start_psn() {
        start_last.execute(meta.round);
        meta.ahead = meta.distance;
    }

    @hidden
    action iter_first() {
        meta.iter = first_round.execute(meta.round);
    }

    @hidden
    action iter_second() {
        meta.iter = second_round.execute(meta.round);
    }

    @hidden
    action iter_next() {
        meta.iter = next_round.execute(meta.round);
    }

    @hidden
    action iter_same() {
        meta.iter = same_round.execute(meta.round);
    }

    @hidden
    action count_ordinal() {
        meta.ordinal = next_ordinal.execute(meta.cell);
    }

    @hidden
    action count_arrival() {
        meta.nth = next_arrival.execute(WATCH_CELL(meta.slot));
    }

    @hidden
    action number_low() {
        meta.seq_low = next_seq.execute(0);
    }

    @hidden
    action number_carry() {
        meta.seq_high = carry_seq.execute(0);
    }

    @hidden
    action number_keep() {
        meta.seq_high = keep_seq.execute(0);
    }

    @hidden
    action take_turn() {
        meta.turn = next_turn.execute(0);
    }

    @hidden
    action start_turns() {
        restart_turns.execute(0);
    }

    @hidden
    action copy() {
        mirrored.count(meta.session[9:0]);
        meta.mirror_session = (MirrorId_t)meta.session;
        ig_dprsr_md.mirror_type = MIRROR_COPY;
    }

#ifdef WITH_TRIM
    // How much longer the packet is than what a trim leaves of it; a runt passes whole, and the hit counts.
    @hidden
    action length_v4() {
        meta.excess = hdr.ipv4.length;
    }

    @hidden
    action length_v6() {
        meta.excess = hdr.ipv6.length + IPV6_LEN;
    }

    @hidden
    action beyond_trim() {
        meta.excess = meta.excess |-| hdr.bridge.trim_size;
    }

    @hidden
    action no_event() {
        hdr.bridge.event = EVENT_NONE;
    }

#define RUNTS \
            if (hdr.ipv4.isValid()) { \
                length_v4(); \
            } else { \
                length_v6(); \
            } \
            if (hdr.bridge.event == EVENT_TRIM) { \
                beyond_trim(); \
                if (meta.excess == 0) { \
                    no_event(); \
                } \
            }
#else
#define RUNTS
#endif

#define ENTER
#define DECODE opcodes.apply();
#define IS_ROCE hdr.bth.isValid() && ig_prsr_md.parser_err == 0
#define RECEIVED count_received
#define PAUSED count_paused
#define NOTE note
#define FIND_ROUND find_round
#define FIND_CELL find_cell
#define TAKE_EPOCH take_epoch
#define STEP_PSN step_psn
#define START_PSN start_psn
#define ITER_FIRST iter_first
#define ITER_SECOND iter_second
#define ITER_NEXT iter_next
#define ITER_SAME iter_same
#define COUNT_ORDINAL count_ordinal
#define COUNT_ARRIVAL count_arrival
#define NUMBER_LOW number_low
#define NUMBER_CARRY number_carry
#define NUMBER_KEEP number_keep
#define TAKE_TURN take_turn
#define RESTART_TURNS start_turns
#define COPY copy
#define DISCARD ig_dprsr_md.drop_ctl = 1;
#define LEAVE came_from();
#include "passes.p4"
}

control IngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Checksum() sum;
#if __TARGET_TOFINO__ == 2
    Mirror(MIRROR_COPY) copies;
#else
    Mirror() copies;
#endif

    apply {
        if (ig_dprsr_md.mirror_type == MIRROR_COPY) {
            copies.emit<copy_t>(meta.mirror_session, {
                meta.copy_kind, hdr.bridge.event, meta.time, meta.seq_high, meta.seq_low, hdr.ethernet.ether_type
            });
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
    stamp_t stamp;
    bit<16> spread;
    bit<1> resum;
#ifdef WITH_TRIM
    bit<16> length; // to which the frame is cut; 0: it is not
    bit<16> ip_header_len;
    bit<16> udp_length;
    bit<1> ip_fits;  // the trim leaves the IP header whole
    bit<1> udp_fits; // and the UDP header
#endif
}

parser EgressParser(packet_in pkt, out egress_headers_t hdr, out egress_metadata_t meta,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        pkt.extract(eg_intr_md);
        meta.resum = 0;
#ifdef WITH_TRIM
        meta.length = 0;
#endif
        transition select(pkt.lookahead<kind_t>().kind) {
            KIND_BRIDGED: bridged;
            KIND_COPY: copied;
            default: reject;
        }
    }

    state bridged {
        pkt.extract(meta.bridge);
        transition roce_ethernet;
    }

    // The stamp ends in an Ethernet header, which the copy's own one follows.
    state copied {
        pkt.extract(meta.stamp);
        pkt.extract(hdr.ethernet);
        pkt.advance((bit<32>)ETHERNET_LEN << 3);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: roce_vlan;
            ETHERTYPE_IPV4: roce_ipv4;
            ETHERTYPE_IPV6: roce_ipv6;
            default: accept;
        }
    }
#include "parser.p4"
}

control E(inout egress_headers_t hdr, inout egress_metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
          in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
          inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
          inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    @name(".roce_tx")
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS_AND_BYTES) roce_tx;

    Hash<bit<16>>(HashAlgorithm_t.CRC16) port_of_copy;

    @hidden
    action spread_copy() {
        meta.spread = port_of_copy.get({ hdr.ethernet.src });
    }

    @hidden
    action set_port() {
        hdr.udp.dst_port = meta.spread | MIRROR_PORTS;
    }

    @hidden
    action stamp_v4() {
        hdr.ipv4.ttl = meta.stamp.event;
        meta.resum = 1;
    }

    @hidden
    action stamp_v6() {
        hdr.ipv6.hop_limit = meta.stamp.event;
    }

    @hidden
    action count_sent() {
        roce_tx.count(eg_intr_md.egress_port);
    }

    @hidden
    action discard() {
        eg_dprsr_md.drop_ctl = 1;
    }

#ifdef WITH_TRIM
    @name(".set_snap") @id(0x01000010)
    action set_snap(bit<32> bytes) {
        meta.length = bytes[15:0];
    }

    @name(".mirror_egress") @id(0x02000010)
    table mirror_egress {
        actions = { set_snap; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    @hidden
    action cut_untagged() {
        meta.length = meta.bridge.trim_size + ETHERNET_LEN;
    }

    @hidden
    action cut_tagged() {
        meta.length = meta.bridge.trim_size + (ETHERNET_LEN + VLAN_LEN);
    }

    // The length to which the deparser cuts counts the FCS, as switch.p4's does.
    @hidden
    action with_fcs() {
        meta.length = meta.length + 4;
    }

    @hidden
    action cut() {
        eg_dprsr_md.mtu_trunc_len = meta.length[13:0];
    }

    // Length fields are updated as far as the cut leaves them.
    @hidden
    action left(bit<16> ip_header_len, bit<1> ip, bit<1> udp) {
        meta.ip_header_len = ip_header_len;
        meta.ip_fits = ip;
        meta.udp_fits = udp;
    }

    @hidden
    table left_of_trim {
        key = {
            hdr.ipv4.isValid(): exact;
            meta.bridge.trim_size: range;
        }
        actions = { left; }
        const entries = {
            (true, 0..19): left(IPV4_LEN, 0, 0);
            (true, 20..27): left(IPV4_LEN, 1, 0);
            (true, 28..0xffff): left(IPV4_LEN, 1, 1);
            (false, 0..39): left(IPV6_LEN, 0, 0);
            (false, 40..47): left(IPV6_LEN, 1, 0);
            (false, 48..0xffff): left(IPV6_LEN, 1, 1);
        }
        const default_action = left(0, 0, 0);
        size = 6;
    }

    @hidden
    action udp_length_of_trim() {
        meta.udp_length = meta.bridge.trim_size - meta.ip_header_len;
    }

    @hidden
    action dscp_v4() {
        hdr.ipv4.dscp = meta.bridge.trim_dscp;
        meta.resum = 1;
    }

    @hidden
    action dscp_v6() {
        hdr.ipv6.dscp = meta.bridge.trim_dscp;
    }

    @hidden
    action length_v4() {
        hdr.ipv4.length = meta.bridge.trim_size;
        meta.resum = 1;
    }

    @hidden
    action length_v6() {
        hdr.ipv6.length = meta.udp_length; // both are what follows the IP header
    }

    @hidden
    action length_udp() {
        hdr.udp.length = meta.udp_length;
    }
#endif

    apply {
        if (meta.stamp.isValid()) {
            spread_copy();
            set_port();
            if (hdr.ipv4.isValid()) {
                stamp_v4();
            } else {
                stamp_v6();
            }
#ifdef WITH_TRIM
            mirror_egress.apply();
#endif
        } else if (meta.bridge.flooded == 1 && meta.bridge.ingress_port == eg_intr_md.egress_port) {
            discard(); // a flood doesn't go back
        } else if (meta.bridge.roce == 1) {
            count_sent();
#ifdef WITH_TRIM
            if (meta.bridge.event == EVENT_TRIM) {
                if (hdr.vlan.isValid()) {
                    cut_tagged();
                } else {
                    cut_untagged();
                }
                left_of_trim.apply();
                udp_length_of_trim();
                if (TRIM_SET_DSCP(meta.bridge.trim_flags)) {
                    if (hdr.ipv4.isValid()) {
                        dscp_v4();
                    } else {
                        dscp_v6();
                    }
                }
                if (TRIM_UPDATE_IP_LENGTH(meta.bridge.trim_flags) && meta.ip_fits == 1) {
                    if (hdr.ipv4.isValid()) {
                        length_v4();
                    } else {
                        length_v6();
                    }
                }
                if (TRIM_UPDATE_UDP_LENGTH(meta.bridge.trim_flags) && meta.udp_fits == 1) {
                    length_udp();
                }
            }
#endif
        }
#ifdef WITH_TRIM
        if (meta.length != 0) {
            with_fcs();
            if (meta.length[15:14] == 0) {
                cut();
            }
        }
#endif
    }
}

control EgressDeparser(packet_out pkt, inout egress_headers_t hdr, in egress_metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() sum;

    apply {
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
