// The contract's event actions, one set for all event tables (tables.p4).

    @name(".drop") @id(0x01000002)
    action drop_event() {
        meta.event = EVENT_DROP;
    }

    @name(".mark_ecn") @id(0x01000003)
    action mark_ecn() {
        meta.event = EVENT_ECN;
    }

    @name(".corrupt") @id(0x01000004)
    action corrupt() {
        meta.event = EVENT_CORRUPT;
    }

    @name(".trim") @id(0x01000005)
    action trim(bit<16> size, bit<6> dscp, bit<8> flags) {
        meta.event = EVENT_TRIM;
        meta.trim_size = size;
        meta.trim_dscp = dscp;
        meta.trim_flags = flags;
    }

#define HIT_EVENT drop_event; mark_ecn; corrupt; trim;
#define HIT_EVENT_ANY drop_event; mark_ecn; corrupt; trim;
#define HIT_CONTROL_EVENT drop_event; mark_ecn; corrupt;
#define HIT_WATCHED_EVENT drop_event; mark_ecn; corrupt; trim;
