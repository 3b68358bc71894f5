// NetLock's data plane for bmv2's simple_switch: algorithm 2 as it is published (netlock.md, 5.2 A), or with CHAINLOCK
// the variant in which shared requests wait while a chain of grants runs (5.2 C), without its checks of transactions.
//
// A release takes one pass, and others by recirculation: the second looks at the new head, each further one grants one
// shared request. Where a pass grants and goes on, the packet becomes the grant, and an ingress clone recirculates.
//
// Positions in a queue are sequence numbers. The data plane has no modulo: regions of slots are powers of two.
// What it leaves out: the push protocol (a request that finds no slot is marked and forwarded, as all later ones),
// quotas, priorities and leases. A check of transactions (tid-check, dedup) needs the slot of a (client, transaction):
// a search of the queue has no bound in passes, and an index by hash has collisions.
#include <core.p4>
#include <v1model.p4>

#define ETHERTYPE_IPV4 0x0800
#define PROTOCOL_UDP 17
#define LOCK_PORT 8888
#define REPLY_PORT 8889

#define ACQUIRE 0
#define RELEASE 1
#define SHARED 0
#define EXCLUSIVE 1
#define OWNED 1
#define BUFFER_ONLY 2

#define LOCKS 1024
#define SLOTS 131072
#define PASS_FIELDS 1
#define INSTANCE_INGRESS_CLONE 1
#define INSTANCE_RECIRCULATED 4
#define CLONE_SESSION 1 // to any port: egress recirculates the clone
#define RECIRCULATION_PORT 510

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header lock_t {
    bit<8> recirc_flag; // 0 on the wire; here instance_type says it, which no host can forge
    bit<8> op;
    bit<8> mode;
    bit<8> client;
    bit<32> tid;
    bit<32> id;
    bit<64> timestamp;
}

header mark_t {
    bit<8> mark;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    lock_t lock;
    mark_t mark;
}

struct metadata_t {
    // What a further pass knows of those before: the position that it looks at, whether what was released was
    // exclusive, and whether the chain has granted already.
    @field_list(PASS_FIELDS)
    bit<32> mirror_at;
    @field_list(PASS_FIELDS)
    bit<1> mirror_exclusive;
    @field_list(PASS_FIELDS)
    bit<1> mirror_chain;

    bit<1> recirculates; // the packet itself, not a clone
    bit<1> installed;
    bit<32> lock; // index of the lock
    bit<32> left; // of its region
    bit<32> mask; // slots less 1
    bit<1> grants;
    bit<1> sums;

    // Registers of the lock.
    bit<32> head;
    bit<32> tail;
    bit<32> exclusives;
    bit<32> shared;
    bit<32> over;
    bit<1> busy;

    // A slot.
    bit<32> slot;
    bit<8> slot_mode;
    bit<1> slot_granted;
}

parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        pkt.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (5, PROTOCOL_UDP): udp;
            default: accept;
        }
    }
    state udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            LOCK_PORT: lock;
            default: accept;
        }
    }
    state lock {
        pkt.extract(hdr.lock);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(LOCKS) r_head; // of the next to dequeue
    register<bit<32>>(LOCKS) r_tail; // of the next free one
    register<bit<32>>(LOCKS) r_exclusives;
    register<bit<32>>(LOCKS) r_shared;
    register<bit<32>>(LOCKS) r_over; // requests that the server buffers
    register<bit<8>>(SLOTS) r_mode;
    register<bit<8>>(SLOTS) r_client;
    register<bit<32>>(SLOTS) r_tid;
    register<bit<32>>(SLOTS) r_ip;
    register<bit<64>>(SLOTS) r_timestamp;
#ifdef CHAINLOCK
    register<bit<1>>(LOCKS) r_busy;    // a chain recirculates
    register<bit<1>>(SLOTS) r_granted;
#endif

    action install(bit<32> lock, bit<32> left, bit<32> mask) {
        meta.installed = 1;
        meta.lock = lock;
        meta.left = left;
        meta.mask = mask;
    }

    table locks {
        key = { hdr.lock.id: exact; }
        actions = { install; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action forward(bit<9> port) {
        std.egress_spec = port;
    }

    action discard() {
        mark_to_drop(std);
    }

    table route {
        key = { hdr.ipv4.dst: exact; }
        actions = { forward; discard; }
        default_action = discard();
        size = 1024;
    }

    action mark(bit<8> how) {
        hdr.mark.setValid();
        hdr.mark.mark = how;
        hdr.udp.length = hdr.udp.length + 1;
        hdr.ipv4.length = hdr.ipv4.length + 1;
        hdr.udp.checksum = 0;
        meta.sums = 1;
    }

    action load() {
        r_head.read(meta.head, meta.lock);
        r_tail.read(meta.tail, meta.lock);
        r_exclusives.read(meta.exclusives, meta.lock);
        r_shared.read(meta.shared, meta.lock);
        r_over.read(meta.over, meta.lock);
#ifdef CHAINLOCK
        r_busy.read(meta.busy, meta.lock);
#endif
    }

    action enqueue() {
        meta.slot = meta.left + (meta.tail & meta.mask);
        r_mode.write(meta.slot, hdr.lock.mode);
        r_client.write(meta.slot, hdr.lock.client);
        r_tid.write(meta.slot, hdr.lock.tid);
        r_ip.write(meta.slot, hdr.ipv4.src);
        r_timestamp.write(meta.slot, hdr.lock.timestamp);
        r_tail.write(meta.lock, meta.tail + 1);
    }

    action look() {
        meta.slot = meta.left + (meta.mirror_at & meta.mask);
        r_mode.read(meta.slot_mode, meta.slot);
#ifdef CHAINLOCK
        r_granted.read(meta.slot_granted, meta.slot);
#endif
    }

    // grant makes the packet, a request or a release of a client, the grant of a slot.
    action grant() {
        r_mode.read(hdr.lock.mode, meta.slot);
        r_client.read(hdr.lock.client, meta.slot);
        r_tid.read(hdr.lock.tid, meta.slot);
        r_timestamp.read(hdr.lock.timestamp, meta.slot);
        hdr.lock.op = ACQUIRE;
        hdr.ipv4.src = hdr.ipv4.dst; // the server, in whose name the switch answers
        r_ip.read(hdr.ipv4.dst, meta.slot);
        hdr.udp.dst_port = REPLY_PORT;
        hdr.udp.checksum = 0;
        meta.sums = 1;
        meta.grants = 1;
#ifdef CHAINLOCK
        r_granted.write(meta.slot, 1);
#endif
    }

    action again() {
        std.egress_spec = RECIRCULATION_PORT;
        meta.recirculates = 1;
    }

    apply {
        bit<1> takes = 0; // the packet ends here, unless it becomes a grant
        if (hdr.lock.isValid()) {
            locks.apply();
            if (meta.installed == 0) {
                mark(OWNED);
            } else {
                load();
                if (std.instance_type == INSTANCE_RECIRCULATED) {
                    takes = 1;
#ifdef CHAINLOCK
                    // The head may have overtaken the chain.
                    bit<32> behind = meta.head - meta.mirror_at;
                    if (meta.mirror_exclusive == 1 && behind[31:31] == 0) {
                        meta.mirror_at = meta.head;
                    }
#endif
                    look();
                    bit<32> beyond = meta.mirror_at - meta.tail;
                    if (meta.slot_mode == EXCLUSIVE || meta.mirror_exclusive == 1 && beyond[31:31] == 0) {
#ifdef CHAINLOCK
                        bit<32> ahead = meta.mirror_at - meta.head;
                        if (meta.slot_mode == EXCLUSIVE && (meta.mirror_chain == 0 || ahead == 0) &&
                            ahead[31:31] == 0 && beyond[31:31] == 1 && meta.slot_granted == 0) {
                            grant();
                        }
                        if (meta.mirror_exclusive == 1) {
                            r_busy.write(meta.lock, 0);
                        }
#else
                        if (meta.slot_mode == EXCLUSIVE && meta.mirror_chain == 0) {
                            grant();
                        }
#endif
                    } else if (meta.mirror_exclusive == 1) {
                        grant();
                        meta.mirror_at = meta.mirror_at + 1;
                        meta.mirror_chain = 1;
                        clone_preserving_field_list(CloneType.I2E, CLONE_SESSION, PASS_FIELDS);
                    }
                } else if (hdr.lock.op == ACQUIRE) {
                    if (meta.over != 0 || meta.tail - meta.head > meta.mask) {
                        r_over.write(meta.lock, meta.over + 1);
                        mark(BUFFER_ONLY);
                    } else {
                        takes = 1;
                        enqueue();
                        bit<1> now = 0; // from what was there before it
#ifdef CHAINLOCK
                        r_granted.write(meta.slot, 0);
#endif
                        if (hdr.lock.mode == EXCLUSIVE) {
                            r_exclusives.write(meta.lock, meta.exclusives + 1);
                            if (meta.exclusives + meta.shared == 0) {
                                now = 1;
                            }
                        } else {
                            r_shared.write(meta.lock, meta.shared + 1);
                            if (meta.exclusives == 0 && meta.busy == 0) {
                                now = 1;
                            }
                        }
                        if (now == 1) {
                            grant();
                        }
                    }
                } else if (hdr.lock.op == RELEASE) {
                    takes = 1;
                    if (meta.exclusives + meta.shared != 0) { // otherwise it is one of nobody
                        meta.mirror_at = meta.head;
                        look();
                        meta.mirror_at = meta.head + 1;
                        r_head.write(meta.lock, meta.mirror_at);
                        if (meta.slot_mode == EXCLUSIVE) {
                            r_exclusives.write(meta.lock, meta.exclusives - 1);
                            meta.mirror_exclusive = 1;
                        } else {
                            r_shared.write(meta.lock, meta.shared - 1);
                        }
                        if (meta.mirror_at != meta.tail) {
#ifdef CHAINLOCK
                            if (meta.mirror_exclusive == 0) {
                                again();
                            } else if (meta.busy == 0) { // otherwise the chain that runs goes on from the head
                                r_busy.write(meta.lock, 1);
                                again();
                            }
#else
                            again();
#endif
                        }
                    }
                }
            }
        }
        if (meta.recirculates == 0) {
            if (takes == 1 && meta.grants == 0) {
                discard();
            } else if (hdr.ipv4.isValid()) {
                route.apply();
            } else {
                discard();
            }
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == INSTANCE_INGRESS_CLONE || meta.recirculates == 1) {
            recirculate_preserving_field_list(PASS_FIELDS);
        }
    }
}

control Sum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && meta.sums == 1, {
            hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
            hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst
        }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control D(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.lock);
        pkt.emit(hdr.mark);
    }
}

V1Switch(P(), NoVerify(), I(), E(), Sum(), D()) main;
