// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
//
// The injector pipeline in XDP. It decides exactly as injector/pipeline does in Go; one suite of packets tests both.
//
//	injector  on every port: parse → flow → ITER or ordinal → event → mirror → forward
//	forward   as a packet leaves for a host: the event edits it
//	copy      as its mirror copy leaves for a dumper: the mirror encoding edits it, the snap cuts it
//
// XDP can't clone a packet, but a redirect with BROADCAST to a map of two devices does. So for each pair of an egress and a
// mirror port there is such a map, each entry with its own egress program, and what the injector decided travels in the
// packet's metadata. A dropped packet is redirected to the mirror alone.
//
// # One CPU
//
// Sequence numbers, ITER, ordinals and arrival counts are plain reads and writes: all ports' receive processing must be on
// one CPU, as switchd sees to. Counters are per CPU and right either way. Mirror sequence numbers are taken atomically, so
// that the multi-queue mode never gives one out twice.

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_PORTS 16
#define FLOOD MAX_PORTS // as an egress port: all of the flood group but the ingress
#define MAX_FLOWS 4096
#define MAX_WATCH_SLOTS 8192
#define MAX_SESSIONS 1024
#define MAX_TURNS 1024
#define L2_CELLS 256
#define FLOW_CELLS (4 * MAX_FLOWS)
#define FLOW_SLOTS (2 * MAX_FLOWS)
#define MAX_EVENTS (3 * 8192 + 4096)
#define NONE 0xffff

#define FLOW_INDEX_MASK (MAX_FLOWS - 1)
#define FLOW_MESSAGE_SCOPE (1 << 15)
#define FLOW_CONTROL_CLASS (1 << 14)
#define WATCH_EVERY (1 << 15)
#define SATURATED 0xffff

#define ETH_LEN 14
#define VLAN_LEN 4
#define IPV4_LEN 20
#define IPV6_LEN 40
#define UDP_LEN 8
#define BTH_LEN 12
#define ICRC_LEN 4
#define ROCE_PORT 4791

// Keys of the event tables are integers with the table's number on top, so that one hash map holds all four.
enum table { EVENT = 1ull, EVENT_ANY, CONTROL_EVENT, WATCHED_EVENT };
#define KEY(table) ((__u64)(table) << 61)

enum event { EVENT_NONE, EVENT_DROP, EVENT_ECN, EVENT_CORRUPT, EVENT_TRIM };
enum trim_flag { TRIM_SET_DSCP = 1, TRIM_UPDATE_IP_LENGTH = 2, TRIM_UPDATE_UDP_LENGTH = 4 };
enum class { CLASS_DATA, CLASS_ACK, CLASS_NAK, CLASS_NAK_INV, CLASS_NAK_ACC, CLASS_NAK_OP, CLASS_RNR, CLASS_OTHER = 15 };

// opcode says what the pipeline must know of a BTH opcode; package packet fills the table in.
struct opcode {
	__u8 class; // of packets whose class does not depend on the AETH
	__u8 acknowledges; // the class stands in the AETH
	__u8 response; // PSN space
	__u8 starts; // first or only packet of a message
	__u8 extended; // bytes of extended headers
};

const volatile struct opcode opcodes[256];
const volatile __u16 this_port;
const volatile bool many_queues; // several CPUs may number packets at once

// What the control plane sets while packets pass. Fields that belong together are one word.
volatile __u64 gate;	     // 0: closed; else generation << 16 | slots
volatile __u32 snap;	     // bytes; 0: whole
volatile __u32 l2_default;   // egress of unknown destinations: a port or FLOOD
volatile __u64 seed;	     // of the UDP ports of mirror copies
volatile __u32 watches;	     // entries of table watch
volatile __u32 data_entries; // entries that can name a data packet
volatile __u32 control_entries;

struct flow {
	__u16 id;
	__u16 epoch;
	__u32 ipsn[2];
};

struct v4_key {
	__u32 src, dst, qpn;
};

struct v6_key {
	__u32 src[4], dst[4], qpn;
};

// slot is a connection that a flow cell names. It is written before the cell, and used again only after all others.
struct slot {
	struct v4_key key;
	struct flow flow;
};

// filter says which entries may name a data packet of a flow and PSN space: a bit for each PSN modulo 64, and for those that name
// an ITER, one for each ITER modulo 64. It spares most packets the hash lookups.
struct filter {
	__u64 watched, exact, iters, any;
};

struct round {
	__u32 last;
	__u16 iter;
	__u16 epoch;
};

struct action {
	__u32 hits; // index
	__u16 size;
	__u8 event;
	__u8 dscp;
	__u8 flags;
	__u8 pad[3];
};

struct count {
	__u64 packets, bytes;
};

struct state {
	__u64 seq; // of the latest mirror copy
	__u64 base; // seq when the gate opened
	__u64 gate; // that base belongs to
};

struct diagnostics {
	__u64 runts;
	__u64 unmirrored; // for want of a redirect map
};

#define MAP(name, kind, key_type, value_type, entries) \
	struct { \
		__uint(type, kind); \
		__uint(max_entries, entries); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name SEC(".maps")

MAP(connection_v4, BPF_MAP_TYPE_HASH, struct v4_key, struct flow, MAX_FLOWS);
MAP(connection_v6, BPF_MAP_TYPE_HASH, struct v6_key, struct flow, MAX_FLOWS);
MAP(flow_cells, BPF_MAP_TYPE_ARRAY, __u32, __u32, FLOW_CELLS); // most of connection_v4 without its hash: a slot's number + 1
MAP(flow_slots, BPF_MAP_TYPE_ARRAY, __u32, struct slot, FLOW_SLOTS);
MAP(events, BPF_MAP_TYPE_HASH, __u64, struct action, MAX_EVENTS);
MAP(watch, BPF_MAP_TYPE_HASH, __u64, __u32, MAX_WATCH_SLOTS);
MAP(l2, BPF_MAP_TYPE_HASH, __u64, __u32, 1024);
MAP(l2_cells, BPF_MAP_TYPE_ARRAY, __u32, __u64, L2_CELLS); // most of l2 without the hash: egress << 48 | address
MAP(rounds, BPF_MAP_TYPE_ARRAY, __u32, struct round, 2 * MAX_FLOWS);
MAP(filters, BPF_MAP_TYPE_ARRAY, __u32, struct filter, 2 * MAX_FLOWS);
MAP(ordinals, BPF_MAP_TYPE_ARRAY, __u32, __u32, 16 * MAX_FLOWS);
MAP(arrivals, BPF_MAP_TYPE_ARRAY, __u32, __u32, MAX_WATCH_SLOTS);
MAP(turns, BPF_MAP_TYPE_ARRAY, __u32, __u32, MAX_TURNS);
MAP(sessions, BPF_MAP_TYPE_ARRAY, __u32, __u32, MAX_SESSIONS);
MAP(states, BPF_MAP_TYPE_ARRAY, __u32, struct state, 1);
MAP(hits, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, MAX_EVENTS);
MAP(roce_rx, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct count, MAX_PORTS);
MAP(roce_tx, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct count, MAX_PORTS);
MAP(pause_rx, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct count, MAX_PORTS);
MAP(mirrored, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct count, MAX_SESSIONS);
MAP(diagnostic, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct diagnostics, 1);

MAP(ports, BPF_MAP_TYPE_DEVMAP, __u32, struct bpf_devmap_val, MAX_PORTS);   // with program forward
MAP(mirrors, BPF_MAP_TYPE_DEVMAP, __u32, struct bpf_devmap_val, MAX_PORTS); // with program copy
MAP(group, BPF_MAP_TYPE_DEVMAP, __u32, struct bpf_devmap_val, MAX_PORTS);   // the flood group, with program forward
MAP(group_ports, BPF_MAP_TYPE_ARRAY, __u32, __u32, MAX_PORTS); // 1 for members, to count what floods

struct pair {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PORTS + 1);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, (MAX_PORTS + 1) * MAX_PORTS);
	__type(key, __u32);
	__array(values, struct pair);
} pairs SEC(".maps");

// verdict is what the injector tells the egress programs, in the metadata in front of the packet.
// It is written as words and copied as words: narrower stores would stall the wider loads that follow.
struct verdict {
	__u64 seq;
	__u64 time;
	__u32 mark; // VERDICT, or the metadata is somebody else's
	__u32 l3, l4; // offsets
	__u32 udp_port;
	__u32 trim_size;
	__u32 event;
	__u32 dscp;
	__u16 flags, version;
};
#define VERDICT 0xca0de1a0

// roce is a parsed RoCE packet: offsets and what the tables match.
struct roce {
	__u32 l3, l4;
	__u32 length; // of the frame
	__u32 end; // of the datagram; what follows is Ethernet padding
	__u32 qpn, psn;
	__u8 version, opcode, class;
};

static __always_inline struct count *count_of(void *map, __u32 index)
{
	return bpf_map_lookup_elem(map, &index);
}

static __always_inline void add(void *map, __u32 index, __u32 bytes)
{
	struct count *c = count_of(map, index);

	if (c) {
		c->packets++;
		c->bytes += bytes;
	}
}

static __always_inline __u16 be16(const void *p)
{
	return bpf_ntohs(*(const __be16 *)p);
}

static __always_inline __u32 be32(const void *p)
{
	return bpf_ntohl(*(const __be32 *)p);
}

static __always_inline void put16(void *p, __u16 v)
{
	*(__be16 *)p = bpf_htons(v);
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return ~sum;
}

// updated is RFC 1624, equation 3.
static __always_inline __u16 updated(__u16 check, __u16 old, __u16 new)
{
	return fold((__u16)~check + (__u16)~old + new);
}

// class_of classifies an AETH syndrome.
static __always_inline __u8 class_of(__u8 syndrome)
{
	switch (syndrome & 0xe0) {
	case 0x00:
		return CLASS_ACK;
	case 0x20:
		return CLASS_RNR;
	}
	if (syndrome >= 0x60 && syndrome <= 0x63)
		return CLASS_NAK + (syndrome - 0x60);
	return CLASS_OTHER;
}

// parse_transport reads UDP and BTH; the IP header gave announced bytes to what starts at l4.
static __always_inline bool parse_transport(void *data, void *data_end, __u32 announced, struct roce *r)
{
	__u8 *udp = data + r->l4, *bth = udp + UDP_LEN;
	__u32 have = data_end - data - r->l4, length, need;
	const volatile struct opcode *info;
	bool truncated;

	if ((void *)(bth + BTH_LEN) > data_end || be16(udp + 2) != ROCE_PORT)
		return false;
	if (have > announced)
		have = announced;
	length = be16(udp + 4);
	if (length < UDP_LEN)
		return false;
	truncated = length > have;
	if (truncated)
		length = have;
	r->end = r->l4 + length;
	r->opcode = bth[0];
	info = &opcodes[r->opcode];
	need = UDP_LEN + BTH_LEN + info->extended;
	if (!truncated)
		need += ((bth[1] >> 4) & 3) + ICRC_LEN;
	if (length < need)
		return false;
	r->qpn = be32(bth + 4) & 0xffffff;
	r->psn = be32(bth + 8) & 0xffffff;
	r->class = info->class;
	if (info->acknowledges) {
		if ((void *)(bth + BTH_LEN + 1) > data_end)
			return false;
		r->class = class_of(bth[BTH_LEN]);
	}
	return true;
}

static __always_inline bool parse_v4(void *data, void *data_end, struct roce *r)
{
	__u8 *ip = data + r->l3;
	__u32 header, total;

	if ((void *)(ip + IPV4_LEN) > data_end || ip[0] >> 4 != 4)
		return false;
	header = (ip[0] & 0xf) * 4;
	total = be16(ip + 2);
	if (header < IPV4_LEN || total < header || be16(ip + 6) & 0x3fff || ip[9] != 17)
		return false;
	r->version = 4;
	r->l4 = r->l3 + header;
	return parse_transport(data, data_end, total - header, r);
}

static __always_inline bool parse_v6(void *data, void *data_end, struct roce *r)
{
	__u8 *ip = data + r->l3;

	if ((void *)(ip + IPV6_LEN) > data_end || ip[0] >> 4 != 6 || ip[6] != 17)
		return false;
	r->version = 6;
	r->l4 = r->l3 + IPV6_LEN;
	return parse_transport(data, data_end, be16(ip + 4), r);
}

// parse fills r and returns whether the frame is RoCE; type is the EtherType behind a tag.
static __always_inline bool parse(void *data, void *data_end, struct roce *r, __u16 *type)
{
	__u8 *eth = data;

	if ((void *)(eth + ETH_LEN) > data_end)
		return false;
	r->length = data_end - data;
	r->l3 = ETH_LEN;
	*type = be16(eth + 12);
	if (*type == 0x8100) {
		if ((void *)(eth + ETH_LEN + VLAN_LEN) > data_end)
			return false;
		*type = be16(eth + 16);
		r->l3 += VLAN_LEN;
	}
	switch (*type) {
	case 0x0800:
		return parse_v4(data, data_end, r);
	case 0x86dd:
		return parse_v6(data, data_end, r);
	}
	return false;
}

// cell_of is where a connection has its cell, if no other has it.
static __always_inline __u32 cell_of(const struct v4_key *k)
{
	__u64 x = ((__u64)k->src << 32 | k->dst) * 0x9e3779b97f4a7c15ull;

	return ((x >> 32) + k->qpn) & (FLOW_CELLS - 1);
}

static __always_inline struct flow *flow_v4(struct v4_key *k)
{
	__u32 index = cell_of(k), *cell = bpf_map_lookup_elem(&flow_cells, &index);

	index = cell ? *(volatile __u32 *)cell - 1 : FLOW_SLOTS; // once: the control plane may write
	if (index < FLOW_SLOTS) {
		struct slot *s = bpf_map_lookup_elem(&flow_slots, &index);

		if (s && s->key.qpn == k->qpn && s->key.src == k->src && s->key.dst == k->dst)
			return &s->flow;
	}
	return bpf_map_lookup_elem(&connection_v4, k);
}

static __always_inline struct flow *flow_of(void *data, void *data_end, struct roce *r)
{
	__u8 *ip = data + r->l3;

	if (r->version == 4) {
		struct v4_key k = {.qpn = r->qpn};

		if ((void *)(ip + IPV4_LEN) > data_end)
			return 0;
		__builtin_memcpy(&k.src, ip + 12, 8);
		return flow_v4(&k);
	}
	struct v6_key k = {.qpn = r->qpn};

	if ((void *)(ip + IPV6_LEN) > data_end)
		return 0;
	__builtin_memcpy(k.src, ip + 8, 32);
	return bpf_map_lookup_elem(&connection_v6, &k);
}

// next counts one arrival in a register cell, the epoch above the count, and returns its number.
static __always_inline __u16 next(__u32 *cell, __u16 epoch)
{
	__u16 n = *cell >> 16 == epoch ? *cell : 0;

	if (n != SATURATED)
		n++;
	*cell = (__u32)epoch << 16 | n;
	return n;
}

static __always_inline struct action *find(__u64 key)
{
	return bpf_map_lookup_elem(&events, &key);
}

// arrive counts the packet in the watch slot that waits for it, and returns its event.
static __always_inline struct action *watched(struct flow *f, __u32 space, struct roce *r)
{
	__u64 key = (__u64)f->id << 29 | (__u64)space << 28 | (__u64)r->class << 24 | r->psn;
	__u32 *slot, *cell, index;
	__u16 nth = 0;

	slot = bpf_map_lookup_elem(&watch, &key);
	if (!slot)
		return 0;
	if (!(*slot & WATCH_EVERY)) {
		index = *slot;
		cell = bpf_map_lookup_elem(&arrivals, &index);
		if (!cell)
			return 0;
		nth = next(cell, f->epoch);
	}
	return find(KEY(WATCHED_EVENT) | (__u64)(__u16)*slot << 16 | nth);
}

// advance moves the round of transmission on and returns ITER.
static __always_inline __u16 advance(struct flow *f, __u32 space, struct roce *r, struct round *s)
{
	__s32 ahead;

	if (s->epoch != f->epoch) {
		s->last = (f->ipsn[space] - 1) & 0xffffff;
		s->iter = 1;
		s->epoch = f->epoch;
	}
	ahead = (__s32)((r->psn - s->last) << 8) >> 8;
	s->last = r->psn;
	if (f->id & FLOW_MESSAGE_SCOPE) {
		if (ahead == 1) {
			if (opcodes[r->opcode].starts)
				s->iter = 1;
			return s->iter;
		}
	} else if (ahead > 0) {
		return s->iter;
	}
	if (s->iter != SATURATED)
		s->iter++;
	return s->iter;
}

static __always_inline struct action *match_data(struct flow *f, struct roce *r)
{
	__u32 space = opcodes[r->opcode].response & 1;
	__u32 index = 2 * (f->id & FLOW_INDEX_MASK) + space;
	struct round *s = bpf_map_lookup_elem(&rounds, &index);
	struct action *by_arrival = 0, *a;
	__u64 psn = 1ull << (r->psn & 63), key;
	struct filter *filter;
	__u16 iter;

	if (!s)
		return 0;
	iter = advance(f, space, r, s);
	if (!data_entries)
		return 0;
	filter = bpf_map_lookup_elem(&filters, &index);
	if (!filter)
		return 0;
	if (filter->watched & psn)
		by_arrival = watched(f, space, r);
	if (filter->exact & psn && filter->iters & 1ull << (iter & 63)) {
		key = (__u64)f->id << 41 | (__u64)space << 40 | (__u64)r->psn << 16 | iter;
		a = find(KEY(EVENT) | key);
		if (a)
			return a;
	}
	if (by_arrival)
		return by_arrival;
	if (!(filter->any & psn))
		return 0;
	return find(KEY(EVENT_ANY) | (__u64)f->id << 25 | (__u64)space << 24 | r->psn);
}

static __always_inline struct action *match_control(struct flow *f, struct roce *r)
{
	__u32 index = 16 * (f->id & FLOW_INDEX_MASK) + r->class;
	__u32 *cell = bpf_map_lookup_elem(&ordinals, &index);
	struct action *by_arrival, *a;
	__u16 ordinal;

	if (!cell)
		return 0;
	by_arrival = watches ? watched(f, opcodes[r->opcode].response & 1, r) : 0;
	ordinal = next(cell, f->epoch);
	if (!control_entries)
		return 0;
	a = find(KEY(CONTROL_EVENT) | (__u64)f->id << 20 | (__u64)r->class << 16 | ordinal);
	if (a)
		return a;
	if (by_arrival)
		return by_arrival;
	return find(KEY(EVENT_ANY) | (__u64)(f->id | FLOW_CONTROL_CLASS) << 25 | r->class);
}

static __always_inline struct diagnostics *diagnose(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&diagnostic, &zero);
}

// inject writes the event of the packet into v.
static __always_inline void inject(struct flow *f, struct roce *r, struct verdict *v)
{
	struct action *a = r->class == CLASS_DATA ? match_data(f, r) : match_control(f, r);
	__u32 index;
	__u64 *n;

	if (!a)
		return;
	index = a->hits;
	n = bpf_map_lookup_elem(&hits, &index);
	if (n)
		++*n;
	if (a->event == EVENT_TRIM && r->end <= r->l3 + a->size) {
		struct diagnostics *d = diagnose();

		if (d)
			d->runts++;
		return;
	}
	v->event = a->event;
	v->trim_size = a->size;
	v->dscp = a->dscp;
	v->flags = a->flags;
}

// udp_port draws the destination port of a mirror copy: the finaliser of SplitMix64, as in Go.
static __always_inline __u16 udp_port(__u64 seq)
{
	__u64 x = seed + seq * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return 1024 + ((x >> 32) * (65536 - 1024) >> 32);
}

// turn_of is n modulo slots, without a division for the usual numbers of slots.
static __always_inline __u32 turn_of(__u32 n, __u32 slots)
{
	return slots & (slots - 1) ? n % slots : n & (slots - 1);
}

// mirror numbers the packet and returns the port of the dumper whose turn it is, or NONE.
static __always_inline __u32 mirror(__u64 open, __u32 length, struct verdict *v)
{
	__u32 zero = 0, turn, *session, *port;
	struct state *s = bpf_map_lookup_elem(&states, &zero);
	__u64 seq;

	if (!s)
		return NONE;
	if (s->gate != open) {
		s->base = s->seq;
		s->gate = open;
	}
	seq = many_queues ? __sync_fetch_and_add(&s->seq, 1) : s->seq++;
	turn = turn_of(seq - s->base, open & 0xffff);
	seq = (seq + 1) & 0xffffffffffffull;
	session = bpf_map_lookup_elem(&turns, &turn);
	if (!session || *session == 0)
		return NONE;
	turn = *session;
	port = bpf_map_lookup_elem(&sessions, &turn);
	if (!port || *port >= MAX_PORTS)
		return NONE;
	add(&mirrored, turn, length);
	v->seq = seq;
	v->time = bpf_ktime_get_ns();
	v->udp_port = udp_port(seq);
	return *port;
}

#define DISCARD (MAX_PORTS + 1) // no egress at all

// route returns the egress port of a destination address.
static __always_inline __u32 route(void *data, void *data_end)
{
	__u8 *eth = data;
	__u64 mac, *cell;
	__u32 *port, index;

	if ((void *)(eth + ETH_LEN) > data_end)
		return DISCARD;
	mac = (__u64)be16(eth) << 32 | be32(eth + 2);
	if (eth[0] & 1)
		return (mac & ~0xfull) == 0x0180c2000000ull ? DISCARD : FLOOD;
	index = mac & (L2_CELLS - 1);
	cell = bpf_map_lookup_elem(&l2_cells, &index);
	if (cell) {
		__u64 c = *(volatile __u64 *)cell; // once: the control plane may write

		if (c && ((c ^ mac) & 0xffffffffffffull) == 0)
			return c >> 48;
	}
	port = bpf_map_lookup_elem(&l2, &mac);
	return port ? *port : l2_default;
}

// tell puts v in front of the packet; every pointer into the packet is stale afterwards.
static __always_inline bool tell(struct xdp_md *ctx, const struct verdict *v)
{
	struct verdict *meta;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*v)))
		return false;
	meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > (void *)(long)ctx->data)
		return false;
	*meta = *v;
	return true;
}

static __always_inline int send(__u32 egress)
{
	if (egress == FLOOD)
		return bpf_redirect_map(&group, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	if (egress >= MAX_PORTS)
		return XDP_DROP;
	return bpf_redirect_map(&ports, egress, 0);
}

static __always_inline void count_tx(__u32 egress, __u32 length)
{
	if (egress < MAX_PORTS) {
		add(&roce_tx, egress, length);
		return;
	}
	if (egress != FLOOD)
		return;
	for (__u32 i = 0; i < MAX_PORTS; i++) {
		// Verifiers before Linux 6.13 lose count of a variable whose address is taken, and see no end of the loop.
		__u32 key = i;
		__u32 *member = bpf_map_lookup_elem(&group_ports, &key);

		if (member && *member && i != this_port)
			add(&roce_tx, i, length);
	}
}

static __always_inline int send_both(__u32 egress, __u32 mirror_port)
{
	__u32 index = egress * MAX_PORTS + mirror_port;
	void *pair;

	if (egress > FLOOD)
		return bpf_redirect_map(&mirrors, mirror_port, 0);
	pair = bpf_map_lookup_elem(&pairs, &index);
	if (!pair) {
		// The copy is missing, and integrity sees the hole in the sequence.
		struct diagnostics *d = diagnose();

		if (d)
			d->unmirrored++;
		return send(egress);
	}
	if (egress == FLOOD)
		return bpf_redirect_map(pair, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	return bpf_redirect_map(pair, 0, BPF_F_BROADCAST);
}

SEC("xdp")
int injector(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct verdict v = {.mark = VERDICT};
	struct roce r = {};
	__u32 egress, forwarded, mirror_port = NONE;
	struct flow *f;
	__u16 type = 0;
	__u64 open;

	if (!parse(data, data_end, &r, &type)) {
		if (type == 0x8808)
			add(&pause_rx, this_port, 0);
		return send(route(data, data_end));
	}
	add(&roce_rx, this_port, r.length);
	f = flow_of(data, data_end, &r);
	if (f)
		inject(f, &r, &v);
	open = gate;
	if (open)
		mirror_port = mirror(open, r.length, &v);
	egress = v.event == EVENT_DROP ? DISCARD : route(data, data_end);
	forwarded = v.event == EVENT_TRIM ? r.l3 + v.trim_size : r.length;
	count_tx(egress, forwarded);
	if (mirror_port == NONE && (v.event == EVENT_NONE || egress == DISCARD))
		return send(egress);
	v.l3 = r.l3;
	v.l4 = r.l4;
	v.version = r.version;
	if (!tell(ctx, &v))
		return XDP_ABORTED; // no headroom: losing the packet shows, sending it unmarked would not
	return mirror_port == NONE ? send(egress) : send_both(egress, mirror_port);
}

// verdict_of returns what the injector decided about the packet, or 0 if it had nothing to say.
static __always_inline struct verdict *verdict_of(struct xdp_md *ctx)
{
	struct verdict *v = (void *)(long)ctx->data_meta;

	if ((void *)(v + 1) > (void *)(long)ctx->data || v->mark != VERDICT)
		return 0;
	return v;
}

static __always_inline void set_tos_v4(__u8 *ip, __u8 tos)
{
	__u16 first = be16(ip);

	put16(ip + 10, updated(be16(ip + 10), first, (first & 0xff00) | tos));
	ip[1] = tos;
}

static __always_inline __u8 tos_v6(const __u8 *ip)
{
	return be16(ip) >> 4;
}

static __always_inline void set_tos_v6(__u8 *ip, __u8 tos)
{
	put16(ip, (be16(ip) & 0xf00f) | (__u16)tos << 4);
}

static __always_inline void mark_ecn(__u8 *ip, __u8 version)
{
	if (version == 4)
		set_tos_v4(ip, ip[1] | 3);
	else
		set_tos_v6(ip, tos_v6(ip) | 3);
}

static __always_inline void set_dscp(__u8 *ip, __u8 version, __u8 dscp)
{
	if (version == 4)
		set_tos_v4(ip, (ip[1] & 3) | dscp << 2);
	else
		set_tos_v6(ip, (tos_v6(ip) & 3) | dscp << 2);
}

// corrupt damages what the iCRC covers and nothing else checks.
static __always_inline void corrupt(__u8 *ip, __u8 *udp, __u8 version)
{
	__u16 old, check;

	if (version == 4) {
		old = be16(ip + 4);
		put16(ip + 10, updated(be16(ip + 10), old, old ^ 0x8000));
		put16(ip + 4, old ^ 0x8000);
		return;
	}
	old = be16(udp);
	check = be16(udp + 6);
	if (check) {
		check = updated(check, old, old ^ 1);
		put16(udp + 6, check ? check : 0xffff); // zero would mean that there is none
	}
	put16(udp, old ^ 1);
}

// cut_headers updates the length fields of a packet that will be cut, as far as the cut leaves them.
static __always_inline void cut_headers(__u8 *ip, __u8 *udp, const struct verdict *v)
{
	__u32 header = v->l4 - v->l3;
	__u16 old;

	if (v->flags & TRIM_SET_DSCP)
		set_dscp(ip, v->version, v->dscp);
	if (v->flags & TRIM_UPDATE_IP_LENGTH && v->trim_size >= header) {
		if (v->version == 4) {
			old = be16(ip + 2);
			put16(ip + 10, updated(be16(ip + 10), old, v->trim_size));
			put16(ip + 2, v->trim_size);
		} else {
			put16(ip + 4, v->trim_size - IPV6_LEN);
		}
	}
	if (v->flags & TRIM_UPDATE_UDP_LENGTH && v->trim_size >= header + UDP_LEN)
		put16(udp + 4, v->trim_size - header);
}

// locate returns the IP and UDP headers that v names, or false if the frame ends before.
static __always_inline bool locate(struct xdp_md *ctx, __u32 l3, __u32 l4, __u8 **ip, __u8 **udp)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;

	// The offsets come out of the packet's metadata: the verifier wants to see bounds.
	if (l3 > ETH_LEN + VLAN_LEN || l4 > ETH_LEN + VLAN_LEN + 60)
		return false;
	*ip = data + l3;
	*udp = data + l4;
	return (void *)(*ip + IPV4_LEN) <= data_end && (void *)(*udp + UDP_LEN) <= data_end;
}

// cut shortens the frame to a length; it does nothing to one that is no longer.
static __always_inline bool cut(struct xdp_md *ctx, __u32 keep)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	long excess = data_end - data;

	// The compiler would add keep to the 32-bit view of data, which the verifier forbids.
	asm volatile("" : "+r"(excess));
	excess -= keep;
	return excess <= 0 || bpf_xdp_adjust_tail(ctx, -(int)excess) == 0;
}

SEC("xdp/devmap")
int forward(struct xdp_md *ctx)
{
	struct verdict *meta = verdict_of(ctx), v;
	__u8 *ip, *udp;

	if (!meta)
		return XDP_PASS;
	v = *meta;
	if (!locate(ctx, v.l3, v.l4, &ip, &udp))
		return XDP_DROP;
	switch (v.event) {
	case EVENT_ECN:
		mark_ecn(ip, v.version);
		break;
	case EVENT_CORRUPT:
		corrupt(ip, udp, v.version);
		break;
	case EVENT_TRIM:
		cut_headers(ip, udp, &v);
		if (!cut(ctx, v.l3 + v.trim_size))
			return XDP_DROP;
		break;
	}
	return XDP_PASS;
}

static __always_inline void put_mac(__u8 *p, __u64 v)
{
	put16(p, v >> 32);
	*(__be32 *)(p + 2) = bpf_htonl((__u32)v);
}

// set_ttl changes the TTL and recomputes the checksum: a copy whose checksum arrived wrong must not look damaged by us.
static __always_inline bool set_ttl(__u8 *ip, void *data_end, __u8 ttl)
{
	const __be16 *word = (void *)ip;
	__u32 sum = 0, words = (ip[0] & 0xf) * 2;

	ip[8] = ttl;
	put16(ip + 10, 0);
#pragma unroll
	for (int i = 0; i < IPV4_LEN / 2; i++)
		sum += bpf_ntohs(word[i]);
	word += IPV4_LEN / 2;
	words -= IPV4_LEN / 2;
	for (__u32 i = 0; i < 20; i++, word++) { // options
		const void *end = word + 1;

		if (i >= words)
			break;
		asm volatile("" : "+r"(end)); // the compiler would compare with data_end + 1, which the verifier forbids
		if (end > data_end)
			return false;
		sum += bpf_ntohs(*word);
	}
	put16(ip + 10, fold(sum));
	return true;
}

SEC("xdp/devmap")
int copy(struct xdp_md *ctx)
{
	struct verdict *meta = verdict_of(ctx), v;
	__u32 keep = snap;
	__u8 *eth, *ip, *udp;

	if (!meta)
		return XDP_DROP; // a dumper gets mirror copies and nothing else
	v = *meta;
	if (!locate(ctx, v.l3, v.l4, &ip, &udp))
		return XDP_DROP;
	put16(udp + 2, v.udp_port);
	if (v.version == 4) {
		if (!set_ttl(ip, (void *)(long)ctx->data_end, v.event))
			return XDP_DROP;
	} else {
		ip[7] = v.event;
	}
	eth = (void *)(long)ctx->data;
	if ((void *)(eth + ETH_LEN) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	put_mac(eth, v.time);
	put_mac(eth + 6, v.seq);
	return !keep || cut(ctx, keep) ? XDP_PASS : XDP_DROP;
}

// The few fields of the kernel's structures that undelivered reads, found by name when the program is loaded.
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

const volatile __u32 namespace; // inode number of the network namespace that the ports are in

MAP(port_of, BPF_MAP_TYPE_HASH, __u32, __u32, MAX_PORTS); // by interface number
MAP(losses, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, MAX_PORTS);

// undelivered counts frames that a redirect could not hand to a port's driver: no counter of the interface shows them all.
SEC("tp_btf/xdp_devmap_xmit")
int undelivered(__u64 *ctx)
{
	const struct net_device *to = (void *)ctx[1];
	__u32 drops = ctx[3], ifindex, *port;
	__u64 *n;

	if (!drops || to->nd_net.net->ns.inum != namespace)
		return 0;
	ifindex = to->ifindex;
	port = bpf_map_lookup_elem(&port_of, &ifindex);
	if (!port)
		return 0;
	n = bpf_map_lookup_elem(&losses, port);
	if (n)
		*n += drops;
	return 0;
}

// pass makes a veth's receiving end take redirected frames, which it does only with a program; see package xdp.
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
