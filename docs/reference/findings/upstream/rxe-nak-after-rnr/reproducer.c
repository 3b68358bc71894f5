/*
 * Responder of qpn 1 sent a NAK for psn 3 although nothing had arrived out of order (last in order: psn 2).
 * Clause: IBTA volume 1, 9.7.4.1.1; 9.7.5.2 (rule gbn.nak-unprovoked of Candela)
 *
 * Needs two hosts with an RDMA device each, and libibverbs.
 *
 *   cc -O2 -Wall -o reproducer reproducer.c -libverbs
 *   ./reproducer DEVICE GID_INDEX              responder, first
 *   ./reproducer DEVICE GID_INDEX RESPONDER    requester; an IP address
 *
 * GID_INDEX is that of a RoCEv2 GID: /sys/class/infiniband/DEVICE/ports/1/
 * gid_attrs/types. Queue pairs are told each other over TCP port 18515.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define OPCODE        IBV_WR_SEND
#define MESSAGES      6
#define MESSAGE_SIZE  2048 /* bytes */
#define PATH_MTU      1024
#define TX_DEPTH      4 /* outstanding requests */
#define RX_DEPTH      1 /* receives that are posted */
#define REPOST_US     50 /* until a used receive is posted again */
#define TIMEOUT       14 /* local ACK timeout: 4.096 us * 2^TIMEOUT */
#define RETRY_COUNT   7
#define RNR_RETRY     7
#define MIN_RNR_TIMER 5
#define HOP_LIMIT     64
#define TRAFFIC_CLASS 2
#define ANSWERS       1
#define PATIENCE_S    30 /* without a completion */
#define TCP_PORT      18515

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(2);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* What each side tells the other, in network byte order. */
struct side {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey, qpn, psn;
};

struct counter {
	char name[64];
	long long value;
};

static int read_counters(const char *device, struct counter *list, int most)
{
	char dir[256], path[600];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(dir, sizeof dir, "/sys/class/infiniband/%s/ports/1/hw_counters", device);
	d = opendir(dir);
	while (d && n < most && (e = readdir(d))) {
		FILE *f;

		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (e->d_name[0] == '.' || !(f = fopen(path, "r")))
			continue;
		snprintf(list[n].name, sizeof list[n].name, "%.63s", e->d_name);
		if (strcmp(e->d_name, "lifespan") && fscanf(f, "%lld", &list[n].value) == 1)
			n++;
		fclose(f);
	}
	if (d)
		closedir(d);
	return n;
}

static int meet(const char *responder)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(TCP_PORT)};
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	check(s >= 0, "socket");
	if (responder) {
		check(inet_pton(AF_INET, responder, &a.sin_addr) == 1, "address of the responder");
		check(!connect(s, (struct sockaddr *)&a, sizeof a), "connect");
		return s;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	check(!bind(s, (struct sockaddr *)&a, sizeof a) && !listen(s, 1), "listen");
	s = accept(s, NULL, NULL);
	check(s >= 0, "accept");
	return s;
}

static void post_request(struct ibv_qp *qp, struct ibv_mr *mr, const struct side *peer, int i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mr->addr, .length = MESSAGE_SIZE, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = MESSAGE_SIZE > 0, .opcode = OPCODE,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = be64toh(peer->addr);
		wr.wr.atomic.rkey = ntohl(peer->rkey);
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = be64toh(peer->addr);
		wr.wr.rdma.rkey = ntohl(peer->rkey);
	}
	check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

static void post_receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mr->addr, .length = MESSAGE_SIZE, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = MESSAGE_SIZE > 0}, *bad;

	check(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

int main(int argc, char **argv)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC;
	const size_t memory = MESSAGE_SIZE > 4096 ? MESSAGE_SIZE : 4096;
	const char *responder = argc > 3 ? argv[3] : NULL;
	struct counter before[64], after[64];
	struct ibv_context *context = NULL;
	struct ibv_device **devices;
	struct side mine, peer;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	int i, n, s, gid, posted = 0, done = 0, failed = 0;
	double last;
	char byte = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3) {
		fprintf(stderr, "usage: %s DEVICE GID_INDEX [RESPONDER]\n", argv[0]);
		return 2;
	}
	gid = atoi(argv[2]);
	devices = ibv_get_device_list(NULL);
	for (i = 0; devices && devices[i]; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), argv[1]))
			context = ibv_open_device(devices[i]);
	check(context != NULL, argv[1]);
	n = read_counters(argv[1], before, 64);
	memset(&mine, 0, sizeof mine);
	check(!ibv_query_gid(context, 1, gid, &mine.gid), "ibv_query_gid");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, TX_DEPTH + RX_DEPTH + 1, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, calloc(1, memory), memory, access) : NULL;
	check(pd && cq && mr, "resources");
	struct ibv_qp_init_attr create = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = TX_DEPTH, .max_recv_wr = RX_DEPTH + 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	qp = ibv_create_qp(pd, &create);
	check(qp != NULL, "ibv_create_qp");

	mine.addr = htobe64((uintptr_t)mr->addr);
	mine.rkey = htonl(mr->rkey);
	mine.qpn = htonl(qp->qp_num);
	srand(getpid());
	mine.psn = htonl(rand() & 0xffffff);
	s = meet(responder);
	check(write(s, &mine, sizeof mine) == sizeof mine, "write");
	check(recv(s, &peer, sizeof peer, MSG_WAITALL) == sizeof peer, "recv");

	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	check(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	for (i = 0; !responder && i < RX_DEPTH; i++)
		post_receive(qp, mr);
	if (responder || ANSWERS) {
		a = (struct ibv_qp_attr){
			.qp_state = IBV_QPS_RTR,
			.path_mtu = PATH_MTU == 256 ? IBV_MTU_256 : PATH_MTU == 512 ? IBV_MTU_512 :
				    PATH_MTU == 1024 ? IBV_MTU_1024 : PATH_MTU == 2048 ? IBV_MTU_2048 : IBV_MTU_4096,
			.dest_qp_num = ntohl(peer.qpn), .rq_psn = ntohl(peer.psn), .max_dest_rd_atomic = 16,
			.min_rnr_timer = MIN_RNR_TIMER,
			.ah_attr = {.is_global = 1, .port_num = 1,
				    .grh = {.dgid = peer.gid, .sgid_index = gid, .hop_limit = HOP_LIMIT,
					    .traffic_class = TRAFFIC_CLASS}},
		};
		check(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = ntohl(mine.psn), .timeout = TIMEOUT,
					 .retry_cnt = RETRY_COUNT, .rnr_retry = RNR_RETRY, .max_rd_atomic = 16};
		check(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
	}
	check(write(s, &byte, 1) == 1 && recv(s, &byte, 1, MSG_WAITALL) == 1, "the peer's queue pair");

	last = now();
	if (responder) {
		for (; done < MESSAGES && !failed; ) {
			while (posted < MESSAGES && posted - done < TX_DEPTH)
				post_request(qp, mr, &peer, posted++);
			if (ibv_poll_cq(cq, 1, &wc) == 1) {
				done++;
				failed = wc.status != IBV_WC_SUCCESS;
				if (failed)
					printf("request %d: %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status));
				last = now();
			} else if (now() - last > PATIENCE_S) {
				printf("no completion for %d s\n", PATIENCE_S);
				break;
			}
		}
		printf("%d of %d requests completed%s\n", done - failed, MESSAGES, failed ? ", one with an error" : "");
	} else { /* serve until the requester closes its socket */
		while (recv(s, &byte, 1, MSG_DONTWAIT) != 0) {
			if (ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS) {
				usleep(REPOST_US);
				post_receive(qp, mr);
			}
		}
	}
	i = read_counters(argv[1], after, 64);
	for (n = n < i ? n : i, i = 0; i < n; i++)
		if (after[i].value != before[i].value)
			printf("%-28s %+lld\n", after[i].name, after[i].value - before[i].value);
	return 0;
}
