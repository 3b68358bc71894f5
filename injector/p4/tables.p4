// The contract's tables and actions, for both architectures: ids, names, keys and sizes as in injector.p4info.txtpb. An
// action only takes down what is to happen; what it takes is the metadata meta, of a struct with METADATA's fields.
//
// To be included in the ingress control. The including file defines COUNTS(counter), the table property that gives an
// event table its direct counter, FORWARD(port), FLOOD, IPSN(psn), a PSN as wide as the metadata has it, and EVENTS,
// the file with the actions of event tables: one set for all, or, where an action itself must count, one for each
// table.

    @name(".set_flow") @id(0x01000001)
    action set_flow(bit<16> flow_id, bit<24> ipsn_request, bit<24> ipsn_response, bit<16> epoch) {
        meta.known = 1;
        meta.flow = flow_id;
        meta.ipsn_request = IPSN(ipsn_request);
        meta.ipsn_response = IPSN(ipsn_response);
        meta.epoch = epoch;
    }

#include EVENTS

    @name(".forward") @id(0x01000006)
    action forward(bit<9> port) {
        FORWARD(port)
    }

    @name(".flood") @id(0x01000007)
    action flood() {
        FLOOD
    }

    @name(".select_session") @id(0x01000008)
    action select_session(bit<16> session) {
        meta.session = session;
    }

    @name(".set_watch") @id(0x01000009)
    action set_watch(bit<16> slot) {
        meta.watched = 1;
        meta.slot = slot;
    }

    @name(".open") @id(0x0100000a)
    action open(bit<16> slots) {
        meta.gate = 1;
        meta.slots = slots;
    }

    @name(".connection_v4") @id(0x02000001)
    table connection_v4 {
        key = {
            hdr.ipv4.src: exact @name("src_ip");
            hdr.ipv4.dst: exact @name("dst_ip");
            hdr.bth.dst_qpn: exact @name("dst_qpn");
        }
        actions = { set_flow; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    @name(".connection_v6") @id(0x02000002)
    table connection_v6 {
        key = {
            hdr.ipv6.src: exact @name("src_ip");
            hdr.ipv6.dst: exact @name("dst_ip");
            hdr.bth.dst_qpn: exact @name("dst_qpn");
        }
        actions = { set_flow; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    // Data packets by PSN and ITER.
    @name(".event") @id(0x02000003)
    table event {
        key = {
            meta.flow: exact @name("flow");
            meta.opcode.space: exact @name("space");
            hdr.bth.psn: exact @name("psn");
            meta.iter: exact @name("iter");
        }
        actions = { HIT_EVENT @defaultonly NoAction; }
        default_action = NoAction();
        COUNTS(event_hits)
        size = 8192;
    }

    // Data packets by PSN whatever their ITER, control packets by class whatever their ordinal.
    @name(".event_any") @id(0x02000004)
    table event_any {
        key = {
            meta.any_flow: exact @name("flow");
            meta.any_space: exact @name("space");
            meta.any_psn: exact @name("psn");
        }
        actions = { HIT_EVENT_ANY @defaultonly NoAction; }
        default_action = NoAction();
        COUNTS(event_any_hits)
        size = 8192;
    }

    // Control packets by class and ordinal.
    @name(".control_event") @id(0x02000005)
    table control_event {
        key = {
            meta.flow: exact @name("flow");
            meta.opcode.class: exact @name("class");
            meta.ordinal: exact @name("ordinal");
        }
        actions = { HIT_CONTROL_EVENT @defaultonly NoAction; }
        default_action = NoAction();
        COUNTS(control_event_hits)
        size = 4096;
    }

    // Packets whose arrivals count, by class and PSN.
    @name(".watch") @id(0x02000006)
    table watch {
        key = {
            meta.flow: exact @name("flow");
            meta.opcode.space: exact @name("space");
            meta.opcode.class: exact @name("class");
            hdr.bth.psn: exact @name("psn");
        }
        actions = { set_watch; @defaultonly NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    @name(".watched_event") @id(0x02000007)
    table watched_event {
        key = {
            meta.slot: exact @name("slot");
            meta.nth: exact @name("nth");
        }
        actions = { HIT_WATCHED_EVENT @defaultonly NoAction; }
        default_action = NoAction();
        COUNTS(watched_event_hits)
        size = 8192;
    }

    @name(".l2_forward") @id(0x02000008)
    table l2_forward {
        key = {
            hdr.ethernet.dst: exact @name("dst_mac");
        }
        actions = { forward; flood; }
        default_action = flood();
        size = 1024;
    }

    @name(".mirror_slot") @id(0x02000009)
    table mirror_slot {
        key = {
            meta.turn: exact @name("turn");
        }
        actions = { select_session; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // The gate: its default action is open, or nothing.
    @name(".mirror") @id(0x0200000a)
    table mirror {
        actions = { open; NoAction; }
        default_action = NoAction();
        size = 1024;
    }
