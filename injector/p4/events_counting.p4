// The contract's event actions where an action itself must count the hits of its entry: one set for each event table
// (tables.p4). Clients find them by name: action drop of table event is event.drop. WITH_TRIM adds the trims.

    @name(".event.drop") @id(0x01000302)
    action event_drop() {
        event_hits.count();
        EVENT = EVENT_DROP;
    }

    @name(".event.mark_ecn") @id(0x01000303)
    action event_mark_ecn() {
        event_hits.count();
        EVENT = EVENT_ECN;
    }

    @name(".event.corrupt") @id(0x01000304)
    action event_corrupt() {
        event_hits.count();
        EVENT = EVENT_CORRUPT;
    }

#ifdef WITH_TRIM
    @name(".event.trim") @id(0x01000305)
    action event_trim(bit<16> size, bit<6> dscp, bit<8> flags) {
        event_hits.count();
        EVENT = EVENT_TRIM;
        TRIM(size, dscp, flags)
    }
#endif

    @name(".event_any.drop") @id(0x01000402)
    action event_any_drop() {
        event_any_hits.count();
        EVENT = EVENT_DROP;
    }

    @name(".event_any.mark_ecn") @id(0x01000403)
    action event_any_mark_ecn() {
        event_any_hits.count();
        EVENT = EVENT_ECN;
    }

    @name(".event_any.corrupt") @id(0x01000404)
    action event_any_corrupt() {
        event_any_hits.count();
        EVENT = EVENT_CORRUPT;
    }

#ifdef WITH_TRIM
    @name(".event_any.trim") @id(0x01000405)
    action event_any_trim(bit<16> size, bit<6> dscp, bit<8> flags) {
        event_any_hits.count();
        EVENT = EVENT_TRIM;
        TRIM(size, dscp, flags)
    }
#endif

    @name(".control_event.drop") @id(0x01000502)
    action control_event_drop() {
        control_event_hits.count();
        EVENT = EVENT_DROP;
    }

    @name(".control_event.mark_ecn") @id(0x01000503)
    action control_event_mark_ecn() {
        control_event_hits.count();
        EVENT = EVENT_ECN;
    }

    @name(".control_event.corrupt") @id(0x01000504)
    action control_event_corrupt() {
        control_event_hits.count();
        EVENT = EVENT_CORRUPT;
    }

    @name(".watched_event.drop") @id(0x01000702)
    action watched_event_drop() {
        watched_event_hits.count();
        EVENT = EVENT_DROP;
    }

    @name(".watched_event.mark_ecn") @id(0x01000703)
    action watched_event_mark_ecn() {
        watched_event_hits.count();
        EVENT = EVENT_ECN;
    }

    @name(".watched_event.corrupt") @id(0x01000704)
    action watched_event_corrupt() {
        watched_event_hits.count();
        EVENT = EVENT_CORRUPT;
    }

#ifdef WITH_TRIM
    @name(".watched_event.trim") @id(0x01000705)
    action watched_event_trim(bit<16> size, bit<6> dscp, bit<8> flags) {
        watched_event_hits.count();
        EVENT = EVENT_TRIM;
        TRIM(size, dscp, flags)
    }
#endif

#ifdef WITH_TRIM
#define HIT_EVENT event_drop; event_mark_ecn; event_corrupt; event_trim;
#define HIT_EVENT_ANY event_any_drop; event_any_mark_ecn; event_any_corrupt; event_any_trim;
#define HIT_WATCHED_EVENT watched_event_drop; watched_event_mark_ecn; watched_event_corrupt; watched_event_trim;
#else
#define HIT_EVENT event_drop; event_mark_ecn; event_corrupt;
#define HIT_EVENT_ANY event_any_drop; event_any_mark_ecn; event_any_corrupt;
#define HIT_WATCHED_EVENT watched_event_drop; watched_event_mark_ecn; watched_event_corrupt;
#endif
#define HIT_CONTROL_EVENT control_event_drop; control_event_mark_ecn; control_event_corrupt;
