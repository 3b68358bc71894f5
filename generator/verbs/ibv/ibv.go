//go:build verbs && cgo && linux

package ibv

/*
#cgo LDFLAGS: -libverbs
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

// Many verbs are inline functions or take unions: these shims make them plain functions.

static int candela_post_send(struct ibv_qp *qp, uint64_t id, int opcode, uint64_t addr, uint32_t length, uint32_t lkey,
		uint32_t imm, uint64_t raddr, uint32_t rkey, uint64_t compare, uint64_t swap) {
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
	struct ibv_send_wr wr, *bad;
	memset(&wr, 0, sizeof wr);
	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.num_sge = length ? 1 : 0;
	wr.opcode = opcode;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.imm_data = htobe32(imm);
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = compare;
		wr.wr.atomic.swap = swap;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

static int candela_post_recv(struct ibv_qp *qp, uint64_t id, uint64_t addr, uint32_t length, uint32_t lkey) {
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;
	return ibv_post_recv(qp, &wr, &bad);
}

static int candela_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc) { return ibv_poll_cq(cq, n, wc); }
static int candela_notify(struct ibv_cq *cq) { return ibv_req_notify_cq(cq, 0); }
static uint32_t candela_imm(struct ibv_wc *wc) { return be32toh(wc->imm_data); }
static int candela_port_state(struct ibv_context *c, int port) {
	struct ibv_port_attr a;
	memset(&a, 0, sizeof a);
	int err = ibv_query_port(c, port, &a);
	return err ? -err : (int)a.state;
}

static struct ibv_qp *candela_create_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t sends, uint32_t receives) {
	struct ibv_qp_init_attr a;
	memset(&a, 0, sizeof a);
	a.send_cq = cq;
	a.recv_cq = cq;
	a.cap.max_send_wr = sends;
	a.cap.max_recv_wr = receives;
	a.cap.max_send_sge = 1;
	a.cap.max_recv_sge = 1;
	a.qp_type = IBV_QPT_RC;
	return ibv_create_qp(pd, &a);
}

static int candela_init_qp(struct ibv_qp *qp, int port) {
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = port;
	a.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int candela_receive_qp(struct ibv_qp *qp, int mtu, uint32_t dest, uint32_t psn, int reads, int rnr_timer,
		const void *dgid, int sgid, int hops, int tclass, uint32_t flow_label, int port) {
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = mtu;
	a.dest_qp_num = dest;
	a.rq_psn = psn;
	a.max_dest_rd_atomic = reads;
	a.min_rnr_timer = rnr_timer;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = port;
	memcpy(a.ah_attr.grh.dgid.raw, dgid, 16);
	a.ah_attr.grh.sgid_index = sgid;
	a.ah_attr.grh.hop_limit = hops;
	a.ah_attr.grh.traffic_class = tclass;
	a.ah_attr.grh.flow_label = flow_label;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int candela_send_qp(struct ibv_qp *qp, uint32_t psn, int timeout, int retries, int rnr_retries, int reads) {
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = psn;
	a.timeout = timeout;
	a.retry_cnt = retries;
	a.rnr_retry = rnr_retries;
	a.max_rd_atomic = reads;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_MAX_QP_RD_ATOMIC);
}

// candela_source_port sets the UDP source port of a connected queue pair. libmlx5 alone has a function for that, which
// takes no other driver's queue pair. It is looked for at run time, so that the program runs without the library.
static int candela_source_port(struct ibv_qp *qp, uint16_t port) {
	void *library = dlopen("libmlx5.so.1", RTLD_NOW);
	if (!library)
		return EOPNOTSUPP;
	bool (*supported)(struct ibv_device *) = (bool (*)(struct ibv_device *))dlsym(library, "mlx5dv_is_supported");
	int (*set)(struct ibv_qp *, uint16_t) = (int (*)(struct ibv_qp *, uint16_t))dlsym(library, "mlx5dv_modify_qp_udp_sport");
	if (!supported || !set || !supported(qp->context->device))
		return EOPNOTSUPP;
	return set(qp, port);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// Device is an open RDMA device. All its queue pairs share a protection domain and a completion queue. It is not safe
// for concurrent use.
type Device struct {
	context *C.struct_ibv_context
	pd      *C.struct_ibv_pd
	channel *C.struct_ibv_comp_channel
	cq      *C.struct_ibv_cq
	attr    C.struct_ibv_device_attr
	port    C.int
	wc      [32]C.struct_ibv_wc
}

// Attributes are the attributes of a device.
type Attributes struct {
	Firmware   string
	VendorID   uint32
	VendorPart uint32
	MaxReads   int // of queue pairs that set none
	MostReads  int // that a queue pair can set
}

func failed(what string, code C.int) error {
	if code < 0 {
		code = -code
	}
	return fmt.Errorf("%s: %w", what, syscall.Errno(code))
}

// Open opens a port of the device with a name and creates a completion queue with room for completions.
func Open(name string, port, completions int) (_ *Device, err error) {
	d := &Device{port: C.int(port)}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.context, err = openContext(name); err != nil {
		return nil, err
	}
	if code := C.ibv_query_device(d.context, &d.attr); code != 0 {
		return nil, failed("query device", code)
	}
	if state := C.candela_port_state(d.context, d.port); state != C.IBV_PORT_ACTIVE {
		return nil, fmt.Errorf("port %d of %s is not active (state %d)", port, name, int(state))
	}
	if d.pd, err = C.ibv_alloc_pd(d.context); d.pd == nil {
		return nil, fmt.Errorf("allocate protection domain: %w", err)
	}
	if d.channel, err = C.ibv_create_comp_channel(d.context); d.channel == nil {
		return nil, fmt.Errorf("create completion channel: %w", err)
	}
	if err := unix.SetNonblock(int(d.channel.fd), true); err != nil {
		return nil, err
	}
	if d.cq, err = C.ibv_create_cq(d.context, C.int(min(completions, int(d.attr.max_cqe))), nil, d.channel,
		0); d.cq == nil {
		return nil, fmt.Errorf("create completion queue of %d: %w", completions, err)
	}
	return d, nil
}

func openContext(name string) (*C.struct_ibv_context, error) {
	var n C.int
	list, err := C.ibv_get_device_list(&n)
	if list == nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	defer C.ibv_free_device_list(list)
	var names []string
	for _, device := range unsafe.Slice(list, int(n)) {
		found := C.GoString(C.ibv_get_device_name(device))
		names = append(names, found)
		if found != name {
			continue
		}
		context, err := C.ibv_open_device(device)
		if context == nil {
			return nil, fmt.Errorf("open device %s: %w", name, err)
		}
		return context, nil
	}
	return nil, fmt.Errorf("no RDMA device %q; there are %q", name, names)
}

// Attributes returns the attributes of the device.
func (d *Device) Attributes() Attributes {
	return Attributes{
		Firmware: C.GoString(&d.attr.fw_ver[0]), VendorID: uint32(d.attr.vendor_id),
		VendorPart: uint32(d.attr.vendor_part_id),
		MaxReads:   d.reads(), MostReads: d.mostReads(),
	}
}

// mostReads returns the maximum number of outstanding READs and atomics that both directions can have.
func (d *Device) mostReads() int {
	return max(1, min(int(d.attr.max_qp_rd_atom), int(d.attr.max_qp_init_rd_atom)))
}

// reads returns the number of outstanding READs and atomics in either direction if the caller sets none.
func (d *Device) reads() int {
	const enough = 16
	return min(enough, d.mostReads())
}

// Close frees the device. The caller must have closed queue pairs and memory.
func (d *Device) Close() {
	if d.cq != nil {
		C.ibv_destroy_cq(d.cq)
	}
	if d.channel != nil {
		C.ibv_destroy_comp_channel(d.channel)
	}
	if d.pd != nil {
		C.ibv_dealloc_pd(d.pd)
	}
	if d.context != nil {
		C.ibv_close_device(d.context)
	}
	*d = Device{}
}

// Memory is registered memory, remotely accessible.
type Memory struct {
	Bytes []byte
	mr    *C.struct_ibv_mr
}

// Register allocates n zeroed bytes that the device and peers may access.
func (d *Device) Register(n int) (*Memory, error) {
	bytes, err := unix.Mmap(-1, 0, max(n, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	m := &Memory{Bytes: bytes}
	access := C.int(
		C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_READ | C.IBV_ACCESS_REMOTE_ATOMIC)
	if m.mr, err = C.ibv_reg_mr(d.pd, unsafe.Pointer(&bytes[0]), C.size_t(len(bytes)), access); m.mr == nil {
		return nil, errors.Join(fmt.Errorf("register %d bytes: %w", n, err), unix.Munmap(bytes))
	}
	return m, nil
}

// Address returns the address of Bytes for peers.
func (m *Memory) Address() uint64 { return uint64(uintptr(unsafe.Pointer(&m.Bytes[0]))) }

// RKey returns the remote key.
func (m *Memory) RKey() uint32 { return uint32(m.mr.rkey) }

// Close frees the memory.
func (m *Memory) Close() error {
	C.ibv_dereg_mr(m.mr)
	return unix.Munmap(m.Bytes)
}

// QP is a reliable connected queue pair.
type QP struct {
	qp     *C.struct_ibv_qp
	device *Device
}

// CreateQP creates a queue pair, ready for [QP.Connect], with room for the given numbers of requests.
func (d *Device) CreateQP(sends, receives int) (*QP, error) {
	qp, err := C.candela_create_qp(d.pd, d.cq, C.uint32_t(sends), C.uint32_t(receives))
	if qp == nil {
		return nil, fmt.Errorf("create queue pair for %d sends and %d receives: %w", sends, receives, err)
	}
	q := &QP{qp: qp, device: d}
	if code := C.candela_init_qp(qp, d.port); code != 0 {
		q.Close()
		return nil, failed("queue pair to INIT", code)
	}
	return q, nil
}

// Number returns the QPN.
func (q *QP) Number() packet.QPN { return packet.QPN(q.qp.qp_num) }

// Close destroys the queue pair.
func (q *QP) Close() { C.ibv_destroy_qp(q.qp) }

// Path has the attributes of the path to the peer.
type Path struct {
	GIDIndex     int // of the local address
	PeerIP       netip.Addr
	PeerQPN      packet.QPN
	PeerIPSN     packet.PSN
	IPSN         packet.PSN
	MTU          int // bytes
	AckTimeout   uint8
	RetryCount   uint8
	RNRRetry     uint8
	MinRNRTimer  uint8
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32 // 0: none
	SourcePort   uint16 // of UDP; 0: the device's choice
	MaxRDAtomic  int    // 0: 16, or what the device has
}

// label returns the flow label of the path, and whether the device gets the source port from it.
func (p *Path) label() (label uint32, enough bool) {
	switch {
	case p.SourcePort == 0:
		return p.FlowLabel, true
	case p.FlowLabel != 0:
		return p.FlowLabel, packet.FlowLabelPort(p.FlowLabel) == p.SourcePort
	}
	return packet.PortFlowLabel(p.SourcePort)
}

// Connect makes the queue pair ready to receive and to send.
func (q *QP) Connect(p Path) error {
	mtu, ok := map[int]C.int{256: C.IBV_MTU_256, 512: C.IBV_MTU_512, 1024: C.IBV_MTU_1024, 2048: C.IBV_MTU_2048,
		4096: C.IBV_MTU_4096}[p.MTU]
	if !ok {
		return fmt.Errorf("path MTU %d is not 256, 512, 1024, 2048 or 4096", p.MTU)
	}
	gid := p.PeerIP.As16()
	reads := C.int(q.device.reads())
	if p.MaxRDAtomic != 0 {
		reads = C.int(p.MaxRDAtomic)
	}
	label, derived := p.label()
	code := C.candela_receive_qp(q.qp, mtu, C.uint32_t(p.PeerQPN), C.uint32_t(p.PeerIPSN), reads, C.int(p.MinRNRTimer),
		unsafe.Pointer(&gid[0]), C.int(p.GIDIndex), C.int(p.HopLimit), C.int(p.TrafficClass),
		C.uint32_t(label), q.device.port)
	if code != 0 {
		return failed("queue pair to RTR", code)
	}
	code = C.candela_send_qp(q.qp, C.uint32_t(p.IPSN), C.int(p.AckTimeout), C.int(p.RetryCount), C.int(p.RNRRetry), reads)
	if code != 0 {
		return failed("queue pair to RTS", code)
	}
	if derived {
		return nil
	}
	return q.setSourcePort(p.SourcePort)
}

// setSourcePort sets a UDP source port that the flow label does not give.
func (q *QP) setSourcePort(port uint16) error {
	if code := C.candela_source_port(q.qp, C.uint16_t(port)); code != 0 {
		return fmt.Errorf("device %s: UDP source port %d (only mlx5 has mlx5dv_modify_qp_udp_sport; others derive ports from "+
			"49152 on from a flow label, and the test must then give no other flow-label): %w",
			C.GoString(C.ibv_get_device_name(q.device.context.device)), port, failed("set it", code))
	}
	return nil
}

// PostSend posts a request on length bytes of m from offset on.
func (q *QP) PostSend(wr generator.WorkRequest, m *Memory, offset, length int) error {
	opcode, ok := map[generator.Verb]C.int{
		generator.Write: C.IBV_WR_RDMA_WRITE, generator.WriteImm: C.IBV_WR_RDMA_WRITE_WITH_IMM, generator.Send: C.IBV_WR_SEND,
		generator.SendImm: C.IBV_WR_SEND_WITH_IMM, generator.Read: C.IBV_WR_RDMA_READ,
		generator.CompareSwap: C.IBV_WR_ATOMIC_CMP_AND_SWP, generator.FetchAdd: C.IBV_WR_ATOMIC_FETCH_AND_ADD,
	}[wr.Verb]
	if !ok {
		return fmt.Errorf("verb %v is none of the reliable connection service", wr.Verb)
	}
	compare := wr.Compare
	if wr.Verb == generator.FetchAdd {
		compare = wr.SwapAdd
	}
	code := C.candela_post_send(q.qp, C.uint64_t(wr.ID), opcode, C.uint64_t(m.Address()+uint64(offset)),
		C.uint32_t(length),
		C.uint32_t(m.mr.lkey), C.uint32_t(wr.Imm), C.uint64_t(wr.RemoteAddr), C.uint32_t(wr.RKey), C.uint64_t(compare),
		C.uint64_t(wr.SwapAdd))
	if code != 0 {
		return failed("post send", code)
	}
	return nil
}

// PostRecv posts a receive request for length bytes of m from offset on.
func (q *QP) PostRecv(id uint64, m *Memory, offset, length int) error {
	code := C.candela_post_recv(q.qp, C.uint64_t(id), C.uint64_t(m.Address()+uint64(offset)), C.uint32_t(length),
		C.uint32_t(m.mr.lkey))
	if code != 0 {
		return failed("post receive", code)
	}
	return nil
}

// Completion is one work completion. Status is the library's name of the status.
type Completion struct {
	ID      uint64
	QPN     packet.QPN
	Receive bool
	Status  string
	Length  int
	HasImm  bool
	Imm     uint32
}

// Poll calls handle for up to 32 completions and returns their number.
func (d *Device) Poll(handle func(Completion) error) (int, error) {
	n := C.candela_poll(d.cq, C.int(len(d.wc)), &d.wc[0])
	if n < 0 {
		return 0, failed("poll completion queue", n)
	}
	for i := range d.wc[:n] {
		wc := &d.wc[i]
		c := Completion{
			ID: uint64(wc.wr_id), QPN: packet.QPN(wc.qp_num), Receive: isReceive(uint64(wc.wr_id)),
			Status: statusName(wc.status), Length: int(wc.byte_len),
		}
		if c.Receive {
			c.ID &^= ReceiveBit
		}
		if wc.wc_flags&C.IBV_WC_WITH_IMM != 0 {
			c.HasImm, c.Imm = true, uint32(C.candela_imm(wc))
		}
		if err := handle(c); err != nil {
			return int(n), err
		}
	}
	return int(n), nil
}

// ReceiveBit marks the IDs of receive requests: the opcode of a failed completion is undefined, its ID is not.
const ReceiveBit = 1 << 63

func isReceive(id uint64) bool { return id&ReceiveBit != 0 }

// statusName returns the name of a status in the C header.
func statusName(s C.enum_ibv_wc_status) string {
	names := [...]string{
		"IBV_WC_SUCCESS", "IBV_WC_LOC_LEN_ERR", "IBV_WC_LOC_QP_OP_ERR", "IBV_WC_LOC_EEC_OP_ERR", "IBV_WC_LOC_PROT_ERR",
		"IBV_WC_WR_FLUSH_ERR", "IBV_WC_MW_BIND_ERR", "IBV_WC_BAD_RESP_ERR", "IBV_WC_LOC_ACCESS_ERR", "IBV_WC_REM_INV_REQ_ERR",
		"IBV_WC_REM_ACCESS_ERR", "IBV_WC_REM_OP_ERR", "IBV_WC_RETRY_EXC_ERR", "IBV_WC_RNR_RETRY_EXC_ERR",
		"IBV_WC_LOC_RDD_VIOL_ERR", "IBV_WC_REM_INV_RD_REQ_ERR", "IBV_WC_REM_ABORT_ERR", "IBV_WC_INV_EECN_ERR",
		"IBV_WC_INV_EEC_STATE_ERR", "IBV_WC_FATAL_ERR", "IBV_WC_RESP_TIMEOUT_ERR", "IBV_WC_GENERAL_ERR",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("IBV_WC_%d", int(s))
}

// Arm requests an event for the next completion. Call Poll again after it: earlier completions cause no event.
func (d *Device) Arm() error {
	if code := C.candela_notify(d.cq); code != 0 {
		return failed("ask for completion events", code)
	}
	return nil
}

// Wait waits for a completion event, at most patience.
func (d *Device) Wait(patience time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(d.channel.fd), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(max(0, patience).Nanoseconds())
	n, err := unix.Ppoll(fds, &timeout, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for completions: %w", err)
	}
	if n <= 0 {
		return nil
	}
	var cq *C.struct_ibv_cq
	var context unsafe.Pointer
	if C.ibv_get_cq_event(d.channel, &cq, &context) == 0 {
		C.ibv_ack_cq_events(cq, 1)
	}
	return nil
}
