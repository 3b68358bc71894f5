// Ingress where each register is touched once, in the order of the stages that a packet passes. Nothing here names an
// architecture: injector_tna.p4 gives it hardware, passes_v1model.p4 bmv2, where it can be tried.
//
// To be included in the ingress control behind tables.p4. The including file defines, besides what tables.p4 asks for:
//
//	EVENT                    where the event is kept
//	RECEIVED, PAUSED         actions that count a packet of the ingress port
//	NOTE                     action that takes down what deparser or egress need of a RoCE packet
//	FIND_ROUND, FIND_CELL    actions that name the register cells of flow and space, flow and class
//	TAKE_EPOCH               action: meta.fresh = 1 if the stored epoch is another than the flow's, which it becomes
//	STEP_PSN                 action: meta.ahead = meta.psn less the stored one, which meta.psn becomes
//	START_PSN                action: the stored PSN becomes meta.psn, meta.ahead = meta.distance
//	ITER_FIRST … ITER_SAME   actions: meta.iter = stored round of transmission, after it became 1, 2, one more, or stayed
//	COUNT_ORDINAL            action: meta.ordinal = how many packets of the class there were
//	COUNT_ARRIVAL            action: meta.nth = how many packets came to the slot
//	NUMBER_LOW               action: the lower 32 bits of the next mirror sequence number; NUMBER_CARRY, NUMBER_KEEP the
//	                         upper 16, one more or as they are
//	TAKE_TURN, RESTART_TURNS actions: meta.turn = the turn behind the last, 0 behind meta.last_turn; as at the start
//	COPY                     action that makes a mirror copy
//	DISCARD                  statement that drops the packet, never its mirror copy
//	ENTER, DECODE            statements: what must be known before; what an opcode says (opcode_table.p4)
//	RUNTS, LEAVE             statements: a trim of a packet that is short enough is no event; what egress needs

    // Data packets are addressed by their PSN, control packets by their class (opcode_table.p4).
    @hidden
    action as_data() {
        meta.any_psn = hdr.bth.psn;
    }

    @hidden
    action as_control() {
        meta.any_flow = meta.flow | FLOW_CONTROL_CLASS;
        meta.any_space = 0;
    }

    @hidden
    action as_any_data() {
        meta.any_flow = meta.flow;
    }

    // A packet's distance from the first PSN of its space, and from the PSN before it, are numbers of 24 bits, signed.
    @hidden
    action widen_psn() {
        meta.psn = (bit<32>)hdr.bth.psn;
    }

    @hidden
    action first_of_requests() {
        meta.first = meta.ipsn_request;
    }

    @hidden
    action first_of_responses() {
        meta.first = meta.ipsn_response;
    }

    @hidden
    action distance() {
        meta.distance = meta.psn - meta.first;
    }

    // Only an entry's action can reach a register: a default action has no hash to find the cell by.
    @hidden
    table last_psn {
        key = {
            meta.fresh: exact;
        }
        actions = { STEP_PSN; START_PSN; @defaultonly NoAction; }
        const entries = {
            0: STEP_PSN();
            1: START_PSN();
        }
        const default_action = NoAction();
        size = 2;
    }

    // next_iter is the rule of docs/internals/adr/0005. Of a flow's first packet in a run ahead is the distance from
    // the first PSN, else from the packet before.
    @hidden
    table next_iter {
        key = {
            meta.fresh: ternary;
            meta.flow: ternary; // its scope
            meta.opcode.starts: ternary;
            meta.ahead: ternary;
        }
        actions = { ITER_FIRST; ITER_SECOND; ITER_NEXT; ITER_SAME; @defaultonly NoAction; }
        const entries = {
            (1, 0x8000 &&& 0x8000, _, 0 &&& 0xffffff): ITER_FIRST();
            (1, 0x8000 &&& 0x8000, _, _): ITER_SECOND();
            (1, _, _, 0x7fffff &&& 0xffffff): ITER_SECOND();
            (1, _, _, 0x800000 &&& 0x800000): ITER_SECOND();
            (1, _, _, _): ITER_FIRST();
            (_, 0x8000 &&& 0x8000, 1, 1 &&& 0xffffff): ITER_FIRST();
            (_, 0x8000 &&& 0x8000, _, 1 &&& 0xffffff): ITER_SAME();
            (_, 0x8000 &&& 0x8000, _, _): ITER_NEXT();
            (_, _, _, 0 &&& 0xffffff): ITER_NEXT();
            (_, _, _, 0x800000 &&& 0x800000): ITER_NEXT();
            (_, _, _, _): ITER_SAME();
        }
        const default_action = NoAction();
        size = 16;
    }

    @hidden
    action last_turn() {
        meta.last_turn = meta.slots - 1;
    }

    @hidden
    action discard() {
        DISCARD
    }

    // Where frames go that no entry of l2_forward decides.
    @hidden
    table group_address {
        key = {
            hdr.ethernet.dst: ternary;
        }
        actions = { discard; flood; @defaultonly NoAction; }
        const entries = {
            (RESERVED_MACS ++ 4w0) &&& 0xfffffffffff0: discard();
            0x010000000000 &&& 0x010000000000: flood();
        }
        const default_action = NoAction();
        size = 2;
    }

    // What an event does to the packet. A mirror copy is the packet as it arrived, whatever is done to it here.
    @hidden
    action set_ce_v4() {
        hdr.ipv4.ecn = 3;
        meta.resum = 1;
    }

    @hidden
    action set_ce_v6() {
        hdr.ipv6.ecn = 3;
    }

    @hidden
    action corrupt_v4() {
        hdr.ipv4.id = hdr.ipv4.id ^ 0x8000;
        meta.resum = 1;
    }

    // The port's last bit moves the checksum by one, in ones' complement; zero would mean that there is none (RFC
    // 1624).
    @hidden
    action corrupt_v6() {
        hdr.udp.src_port = hdr.udp.src_port ^ 1;
    }

    @hidden
    action corrupt_v6_down() {
        hdr.udp.src_port = hdr.udp.src_port ^ 1;
        hdr.udp.checksum = hdr.udp.checksum - 1;
    }

    @hidden
    action corrupt_v6_up() {
        hdr.udp.src_port = hdr.udp.src_port ^ 1;
        hdr.udp.checksum = hdr.udp.checksum + 1;
    }

    @hidden
    action corrupt_v6_to(bit<16> sum) {
        hdr.udp.src_port = hdr.udp.src_port ^ 1;
        hdr.udp.checksum = sum;
    }

    @hidden
    table edit {
        key = {
            EVENT: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.udp.src_port: ternary;
            hdr.udp.checksum: ternary;
        }
        actions = {
            discard; set_ce_v4; set_ce_v6; corrupt_v4; corrupt_v6; corrupt_v6_down; corrupt_v6_up; corrupt_v6_to;
            @defaultonly NoAction;
        }
        const entries = {
            (EVENT_DROP, _, _, _): discard();
            (EVENT_ECN, true, _, _): set_ce_v4();
            (EVENT_ECN, false, _, _): set_ce_v6();
            (EVENT_CORRUPT, true, _, _): corrupt_v4();
            (EVENT_CORRUPT, false, _, 0): corrupt_v6();
            (EVENT_CORRUPT, false, 0 &&& 1, 1): corrupt_v6_to(0xffff);
            (EVENT_CORRUPT, false, 0 &&& 1, _): corrupt_v6_down();
            (EVENT_CORRUPT, false, 1 &&& 1, 0xffff): corrupt_v6_to(1);
            (EVENT_CORRUPT, false, 1 &&& 1, _): corrupt_v6_up();
        }
        const default_action = NoAction();
        size = 16;
    }

    apply {
        ENTER
        if (IS_ROCE) {
            RECEIVED();
            NOTE();
            widen_psn();
            DECODE
            if (hdr.ipv4.isValid()) {
                connection_v4.apply();
            } else {
                connection_v6.apply();
            }
            mirror.apply();
            if (meta.gate == 1) {
                NUMBER_LOW();
                last_turn();
                if (meta.seq_low == 0) {
                    NUMBER_CARRY();
                } else {
                    NUMBER_KEEP();
                }
                TAKE_TURN();
                if (mirror_slot.apply().hit) {
                    COPY();
                }
            } else {
                RESTART_TURNS();
            }
            if (meta.known == 1) {
                watch.apply();
                if (meta.watched == 1 && meta.slot[15:15] == 0) {
                    COUNT_ARRIVAL();
                }
                if (meta.opcode.class == CLASS_DATA) {
                    FIND_ROUND();
                    as_data();
                    as_any_data();
                    if (meta.opcode.space == 1) {
                        first_of_responses();
                    } else {
                        first_of_requests();
                    }
                    TAKE_EPOCH();
                    distance();
                    last_psn.apply();
                    next_iter.apply();
                    event.apply();
                } else {
                    FIND_CELL();
                    as_control();
                    COUNT_ORDINAL();
                    control_event.apply();
                }
                if (EVENT == EVENT_NONE && meta.watched == 1) {
                    watched_event.apply();
                }
                if (EVENT == EVENT_NONE) {
                    event_any.apply();
                }
            }
            RUNTS
        } else if (hdr.ethernet.ether_type == ETHERTYPE_MAC_CONTROL) {
            PAUSED();
        } else if (hdr.vlan.isValid() && hdr.vlan.ether_type == ETHERTYPE_MAC_CONTROL) {
            PAUSED();
        }

        if (group_address.apply().miss) {
            l2_forward.apply();
        }
        edit.apply();
        LEAVE
    }
