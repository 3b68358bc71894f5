// The ingress of injector_v1model.p4 with the passes of hardware (passes.p4): a register is read and written in one
// action, once for each packet. It is for trials of their arithmetic; nobody is served by it.
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
    register<bit<32>>(1) r_seq;
    register<bit<16>>(1) r_seq_high;
    register<bit<16>>(1) r_slot; // the turn before, inverted: registers start as 0

    Opcodes() opcodes;
    Classify() classify;

#define COUNTS(counter) counters = counter;
#define FORWARD(to) std.egress_spec = to;
#define FLOOD std.mcast_grp = FLOOD_GROUP;
#define IPSN(psn) (bit<32>)psn
#define EVENT meta.event
#define EVENTS "events.p4"
#include "tables.p4"

    @hidden
    action count_received() {
        roce_rx.count((bit<32>)std.ingress_port);
    }

    @hidden
    action count_paused() {
        pause_rx.count((bit<32>)std.ingress_port);
    }

    @hidden
    action note() {
        meta.mirror_time = (bit<48>)std.ingress_global_timestamp * 1000; // bmv2 counts microseconds
    }

    @hidden
    action find_round() {
        meta.round = (bit<32>)(FLOW_INDEX(meta.flow) ++ meta.opcode.space);
    }

    @hidden
    action find_cell() {
        meta.cell = (bit<32>)(FLOW_INDEX(meta.flow) ++ meta.opcode.class);
    }

    @hidden
    action take_epoch() {
        r_epoch.read(meta.stored_epoch, meta.round);
        r_epoch.write(meta.round, meta.epoch);
        meta.fresh = meta.stored_epoch != meta.epoch ? 16w1 : 16w0;
    }

    @hidden
    action step_psn() {
        r_last.read(meta.ahead, meta.round);
        r_last.write(meta.round, meta.psn);
        meta.ahead = meta.psn - meta.ahead;
    }

    @hidden
    action start_psn() {
        r_last.write(meta.round, meta.psn);
        meta.ahead = meta.distance;
    }

    @hidden
    action iter_first() {
        meta.iter = 1;
        r_iter.write(meta.round, meta.iter);
    }

    @hidden
    action iter_second() {
        meta.iter = 2;
        r_iter.write(meta.round, meta.iter);
    }

    @hidden
    action iter_next() {
        r_iter.read(meta.iter, meta.round);
        meta.iter = meta.iter |+| 1;
        r_iter.write(meta.round, meta.iter);
    }

    @hidden
    action iter_same() {
        r_iter.read(meta.iter, meta.round);
    }

    @hidden
    action count_ordinal() {
        r_ordinal.read(meta.count, meta.cell);
        meta.ordinal = meta.count[31:16] == meta.epoch ? meta.count[15:0] : 16w0;
        meta.ordinal = meta.ordinal |+| 1;
        r_ordinal.write(meta.cell, meta.epoch ++ meta.ordinal);
    }

    @hidden
    action count_arrival() {
        meta.cell = (bit<32>)WATCH_CELL(meta.slot);
        r_hit.read(meta.count, meta.cell);
        meta.nth = meta.count[31:16] == meta.epoch ? meta.count[15:0] : 16w0;
        meta.nth = meta.nth |+| 1;
        r_hit.write(meta.cell, meta.epoch ++ meta.nth);
    }

    @hidden
    action number_low() {
        r_seq.read(meta.seq_low, 0);
        meta.seq_low = meta.seq_low + 1;
        r_seq.write(0, meta.seq_low);
    }

    @hidden
    action number_carry() {
        r_seq_high.read(meta.seq_high, 0);
        meta.seq_high = meta.seq_high + 1;
        r_seq_high.write(0, meta.seq_high);
    }

    @hidden
    action number_keep() {
        r_seq_high.read(meta.seq_high, 0);
    }

    @hidden
    action take_turn() {
        r_slot.read(meta.turn, 0);
        meta.turn = ~meta.turn;
        meta.turn = meta.turn >= meta.last_turn ? 16w0 : meta.turn + 1;
        r_slot.write(0, ~meta.turn);
    }

    @hidden
    action start_turns() {
        r_slot.write(0, 0);
    }

    @hidden
    action copy() {
        meta.mirror_seq = meta.seq_high ++ meta.seq_low;
        mirrored.count((bit<32>)meta.session);
        clone_preserving_field_list(CloneType.I2E, (bit<32>)meta.session, MIRROR_FIELDS);
    }

    // What egress does on hardware before it cuts: bmv2 edits in ingress.
    @hidden
    action dscp_v4() {
        hdr.ipv4.dscp = meta.trim_dscp;
        meta.resum = 1;
    }

    @hidden
    action length_v4() {
        hdr.ipv4.length = meta.trim_size;
        meta.resum = 1;
    }

#define ENTER \
        if (hdr.bth.isValid()) { \
            bit<8> syndrome = 0; \
            if (hdr.aeth.isValid()) { \
                syndrome = hdr.aeth.syndrome; \
            } \
            opcodes.apply(hdr.bth.opcode, syndrome, meta.opcode); \
            classify.apply(hdr, meta, std.packet_length); \
        }
#define DECODE \
            meta.any_psn = (bit<24>)meta.opcode.class; \
            meta.any_space = meta.opcode.space;
#define RUNTS \
            if (meta.event == EVENT_TRIM && meta.l3_len <= (bit<32>)meta.trim_size) { \
                meta.event = EVENT_NONE; \
            }
#define LEAVE \
        meta.mirror_event = meta.event; \
        if (meta.event == EVENT_TRIM) { \
            if (TRIM_SET_DSCP(meta.trim_flags)) { \
                if (hdr.ipv4.isValid()) { \
                    dscp_v4(); \
                } else { \
                    hdr.ipv6.dscp = meta.trim_dscp; \
                } \
            } \
            if (TRIM_UPDATE_IP_LENGTH(meta.trim_flags) && meta.trim_size >= meta.ip_header_len) { \
                if (hdr.ipv4.isValid()) { \
                    length_v4(); \
                } else { \
                    hdr.ipv6.length = meta.trim_size - IPV6_LEN; \
                } \
            } \
            if (TRIM_UPDATE_UDP_LENGTH(meta.trim_flags) && meta.trim_size >= meta.ip_header_len + UDP_LEN) { \
                hdr.udp.length = meta.trim_size - meta.ip_header_len; \
            } \
        }

#define IS_ROCE meta.roce == 1
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
#define DISCARD mark_to_drop(std);
#include "passes.p4"
}
