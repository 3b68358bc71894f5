package rdma

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// A script drives one NIC with one queue pair against a scripted peer. Unindented lines are commands. The indented
// lines after each are the expected actions of the NIC within the next 5 us:
//
//	post VERB BYTES             post a work request
//	postrecv BYTES              post a receive request
//	recv OPCODE PSN [OPTIONS]   a packet arrives; PSNs are relative to the IPSN of their space, from 0
//	wait DURATION               time passes
//	+COMMAND                    the same without waiting
//	  OPCODE PSN …              the NIC sends
//	  done …                    the NIC completes
//
// Options: len=N payload bytes, dma=N and va=N for the RETH, rkey=bad or old, ackreq, ce, imm=N, code=N RNR timer code.
type script struct {
	t    *testing.T
	nic  *NIC
	qp   *QP
	now  clock.Time
	log  []string
	peer packet.PSN // IPSN of the peer
	next uint64     // work request ID
}

const (
	peerQPN   = packet.QPN(0x1234)
	localMAC  = 0x020000000001
	remoteMAC = 0x020000000002
)

func newScript(t *testing.T, qp QPConfig, bugs Bugs, np NotificationPoint) *script {
	t.Helper()
	nic, err := NewNIC(Config{Name: "dut", MAC: packet.MACFromUint48(localMAC), IPs: addresses[:1], Profile: Spec(),
		Bugs:     bugs,
		PortRate: 100 * clock.Gbps, Rand: rand.New(rand.NewPCG(1, 1)), NP: np})
	if err != nil {
		t.Fatal(err)
	}
	qp.LocalIP = addresses[0]
	q, err := nic.CreateQP(qp)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, nic: nic, qp: q, peer: 0xfffffe} // the peer's stream wraps with its third packet
	remote := Remote{IP: addresses[1], QPN: peerQPN, IPSN: s.peer, MAC: packet.MACFromUint48(remoteMAC)}
	if err := q.Connect(remote); err != nil {
		t.Fatal(err)
	}
	return s
}

// run executes text and compares the NIC's actions with the indented lines.
func (s *script) run(text string) {
	s.t.Helper()
	var want []string
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" {
			continue
		}
		want = append(want, trimmed)
		if strings.HasPrefix(strings.TrimPrefix(line, "\t\t\t"), "\t") {
			continue
		}
		s.log = append(s.log, trimmed)
		s.command(strings.Fields(trimmed))
	}
	if diff := cmp.Diff(want, s.log); diff != "" {
		s.t.Errorf("-want +got\n%s", diff)
	}
}

func (s *script) command(f []string) {
	s.t.Helper()
	var err error
	name, atOnce := strings.CutPrefix(f[0], "+")
	switch name {
	case "post":
		verb, ok := generator.ParseVerb(f[1])
		if !ok {
			s.t.Fatalf("verb %q", f[1])
		}
		wr := generator.WorkRequest{ID: s.next, Verb: verb, Length: s.number(f[2]), RemoteAddr: 0x10000, RKey: 7, Imm: 5,
			Invalidate: 7}
		err = s.qp.PostSend(s.now, wr)
		s.next++
	case "postrecv":
		err = s.qp.PostRecv(s.now, generator.ReceiveRequest{Length: s.number(f[1])})
	case "recv":
		p := s.packet(f[1:])
		s.nic.HandlePacket(s.now, &p)
	case "wait":
		d, perr := time.ParseDuration(f[1])
		err = perr
		s.settle(clock.FromStd(d))
	default:
		err = fmt.Errorf("unknown command %q", f[0])
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if !atOnce {
		s.settle(5 * clock.Microsecond)
	}
}

func (s *script) number(text string) int {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(n)
}

// settle advances the time by d and logs the NIC's actions.
func (s *script) settle(d clock.Duration) {
	end := s.now.Add(d)
	s.logCompletions()
	for s.nic.NextTimer() <= end {
		s.now = max(s.now, s.nic.NextTimer())
		s.nic.HandleTimer(s.now)
		var p packet.Packet
		for s.nic.Poll(s.now, &p) {
			s.log = append(s.log, s.describe(&p))
		}
		s.logCompletions()
	}
	s.now = end
}

func (s *script) logCompletions() {
	var c generator.Completion
	for s.nic.PollCompletion(&c) {
		line := fmt.Sprintf("done %s %d %s", c.Verb, c.ID, c.Status)
		if c.Receive {
			line = fmt.Sprintf("done recv %s", c.Status)
			if c.Status == generator.Success {
				line += fmt.Sprintf(" len=%d", c.Length)
			}
			if c.HasImm {
				line += fmt.Sprintf(" imm=%d", c.Imm)
			}
		}
		s.log = append(s.log, line)
	}
}

// describe prints a packet that the NIC sent, with a relative PSN.
func (s *script) describe(p *packet.Packet) string {
	op := p.BTH.Opcode
	base := s.qp.IPSN()
	if op.IsResponse() {
		base = s.peer
	}
	if op == packet.CNP {
		return "CNP"
	}
	line := fmt.Sprintf("%s %d", op, p.BTH.PSN.Sub(base))
	if op == packet.Acknowledge {
		line = fmt.Sprintf("%s %d", p.Class(), p.BTH.PSN.Sub(base))
	}
	if p.Headers&packet.HasAETH != 0 {
		line += fmt.Sprintf(" msn=%d", p.AETH.MSN)
	}
	if p.Headers&packet.HasIETH != 0 {
		line += fmt.Sprintf(" inv=%d", p.IETH)
	}
	if len(p.Payload) > 0 {
		line += fmt.Sprintf(" len=%d", len(p.Payload))
	}
	if p.Headers&packet.HasRETH != 0 {
		line += fmt.Sprintf(" va=%d dma=%d", p.RETH.VA-0x10000, p.RETH.Length)
	}
	if p.Headers&packet.HasAtomicAckETH != 0 {
		line += fmt.Sprintf(" original=%d", p.AtomicAckETH)
	}
	if p.BTH.AckReq {
		line += " ackreq"
	}
	return line
}

// packet returns the peer's packet of a recv command.
func (s *script) packet(f []string) packet.Packet {
	s.t.Helper()
	opt := map[string]string{}
	for _, w := range f[2:] {
		k, v, _ := strings.Cut(w, "=")
		opt[k] = v
	}
	op, syndrome := s.opcode(f[0], opt)
	p := packet.Packet{
		Eth: packet.Ethernet{Dst: packet.MACFromUint48(localMAC), Src: packet.MACFromUint48(remoteMAC),
			Type: packet.EtherTypeIPv4},
		IP:     packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP, Src: addresses[1], Dst: addresses[0]},
		UDP:    packet.UDP{SrcPort: 0xc000, DstPort: packet.Port},
		HasUDP: true, Derived: true, Headers: packet.HasBTH | op.Headers(),
	}
	base := s.peer
	if op.IsResponse() {
		base = s.qp.IPSN()
	}
	psn := base.Add(s.number(f[1]))
	p.BTH = packet.BTH{Opcode: op, PKey: 0xffff, DestQP: s.qp.QPN(), PSN: psn}
	p.AETH = packet.AETH{Syndrome: syndrome}
	_, p.BTH.AckReq = opt["ackreq"]
	if _, ok := opt["ce"]; ok {
		p.SetECN(packet.CE)
	}
	if v, ok := opt["imm"]; ok {
		p.ImmDt = uint32(s.number(v))
	}
	s.address(&p, opt)
	s.payload(&p, opt)
	return p
}

func (s *script) opcode(name string, opt map[string]string) (packet.Opcode, packet.Syndrome) {
	syndromes := map[string]packet.Syndrome{"ack": packet.SyndromeAckNoCredit, "nak": packet.SyndromeNakSequence,
		"nak-inv": packet.SyndromeNakInvalid, "nak-acc": packet.SyndromeNakAccess, "nak-op": packet.SyndromeNakOperation}
	if sy, ok := syndromes[name]; ok {
		return packet.Acknowledge, sy
	}
	if name == "rnr" {
		return packet.Acknowledge, packet.SyndromeRNR | packet.Syndrome(s.number(opt["code"]))
	}
	for op := range packet.Opcode(255) {
		if op.String() == name {
			return op, packet.SyndromeAckNoCredit
		}
	}
	s.t.Fatalf("opcode %q", name)
	return 0, 0
}

func (s *script) address(p *packet.Packet, opt map[string]string) {
	region := s.qp.Region()
	va, rkey := region.Base, region.RKey
	if v, ok := opt["va"]; ok {
		va += uint64(s.number(v))
	}
	switch opt["rkey"] {
	case "bad":
		rkey++
	case "old": // key before the latest SEND with invalidate
		rkey = generator.TurnedRKey(rkey, -1)
	}
	p.IETH = rkey
	p.RETH = packet.RETH{VA: va, RKey: rkey}
	p.AtomicETH = packet.AtomicETH{VA: va, RKey: rkey, Swap: 1}
	if v, ok := opt["dma"]; ok {
		p.RETH.Length = uint32(s.number(v))
	}
}

// payload sets p's payload to len bytes of its sender's memory.
func (s *script) payload(p *packet.Packet, opt map[string]string) {
	n := 0
	if v, ok := opt["len"]; ok {
		n = s.number(v)
	}
	p.BTH.PadCount = uint8(-n & 3)
	switch op := p.BTH.Opcode; {
	case op.IsReadResponse():
		w := s.qp.req.out
		if w.len() > 0 && n <= maxMTU {
			offset := p.BTH.PSN.Sub(packet.NewPSN(w.at(0).first)) * s.qp.cfg.MTU
			p.Payload = s.nic.memory.at(7, 0x10000+uint64(offset), n)
		}
	case op.Verb() == packet.VerbSend:
		p.Payload = s.nic.memory.send(s.qp.qpn, p.BTH.PSN, n)
	case op.Starts():
		p.Payload = s.nic.memory.at(p.RETH.RKey, p.RETH.VA, n)
	default:
		p.Payload = s.nic.memory.at(s.qp.resp.open.rkey, s.qp.resp.open.va, n)
	}
}
