package trace

import (
	"errors"
	"fmt"

	"candela.dev/candela/packet"
)

// Format is the encoding of a capture file.
type Format uint8

// Formats.
const (
	// FormatAuto detects the format from the first RoCE frames.
	FormatAuto Format = iota
	// FormatMirror is the mirror encoding with port 4791 restored.
	FormatMirror
	// FormatPlain is a capture of the packets themselves.
	FormatPlain
	// FormatLumina is the mirror encoding of Lumina's prototype: UDP destination port 9741, the original source port in
	// the UDP checksum field, sequence numbers from 1 to 2³¹−1.
	FormatLumina
)

var formatNames = [...]string{"auto", "mirror", "plain", "lumina"}

// String returns the format in the words of --input.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// ParseFormat returns the format that --input names.
func ParseFormat(name string) (Format, error) {
	for i, n := range formatNames {
		if n == name {
			return Format(i), nil
		}
	}
	return FormatAuto, fmt.Errorf("input format %q is unknown (auto, mirror, plain, lumina)", name)
}

// LuminaPort is the UDP destination port of mirror copies made by Lumina's prototype.
const LuminaPort = 9741

// ErrNotRoCE is Decode's result for frames that are not RoCEv2. It is a plain value because many frames of a capture
// may be such.
var ErrNotRoCE = errors.New("not a RoCEv2 frame")

// bthShape is what the decoder needs to know about an opcode.
type bthShape struct {
	extLen uint8 // bytes of extended headers
	imm    uint8 // offset of immediate data after the BTH, plus 1; 0: none
	ext    extension
}

var bthShapes = makeBTHShapes()

func makeBTHShapes() (shapes [256]bthShape) {
	lengths := [...]struct {
		header packet.Headers
		n      uint8
	}{
		{packet.HasRETH, packet.RETHLen}, {packet.HasAtomicETH, packet.AtomicETHLen}, {packet.HasAETH, packet.AETHLen},
		{packet.HasAtomicAckETH, packet.AtomicAckETHLen}, {packet.HasImmDt, packet.ImmDtLen},
		{packet.HasIETH, packet.IETHLen},
	}
	for op := range shapes {
		s, headers := &shapes[op], packet.Opcode(op).Headers()
		for _, l := range lengths {
			if headers&l.header == 0 {
				continue
			}
			switch l.header {
			case packet.HasRETH:
				s.ext = extRETH
			case packet.HasAtomicETH:
				s.ext = extAtomic
			case packet.HasAETH:
				s.ext = extAETH // it is always the first extension
			case packet.HasAtomicAckETH:
				s.ext = extAtomicAck
			case packet.HasIETH:
				s.ext = extIETH
			case packet.HasImmDt:
				s.imm = s.extLen + 1
			default:
			}
			s.extLen += l.n
		}
	}
	return shapes
}

// span is where the parts of a RoCE frame lie.
type span struct {
	l3, l4 int
	end    int // of the packet within the captured bytes
	// missing counts bytes that the length fields announce beyond the captured ones.
	missing int
	ipStale bool // the IP length announces bytes beyond the captured ones
}

// locateRoCE finds the UDP payload of a frame to UDP destination port port. ok is false for every other frame; err says
// why a frame to that port cannot be used.
func locateRoCE(frame []byte, port uint16) (s span, ok bool, err error) {
	if len(frame) < packet.EthernetLen {
		return s, false, nil
	}
	l3 := packet.EthernetLen
	etherType := be16(frame[12:])
	if etherType == packet.EtherTypeVLAN && len(frame) >= l3+packet.VLANLen {
		etherType = be16(frame[16:])
		l3 += packet.VLANLen
	}
	announced := 0
	switch etherType {
	case packet.EtherTypeIPv4:
		if len(frame) < l3+packet.IPv4Len {
			return s, false, nil
		}
		ip := frame[l3 : l3+packet.IPv4Len : l3+packet.IPv4Len]
		const moreFragmentsOrOffset = 0x3fff
		if ip[0]>>4 != 4 || ip[9] != packet.ProtocolUDP || be16(ip[6:])&moreFragmentsOrOffset != 0 {
			return s, false, nil
		}
		ihl := int(ip[0]&0xf) * 4
		announced = int(be16(ip[2:]))
		if ihl < packet.IPv4Len || announced < ihl {
			return s, false, nil
		}
		s.l4 = l3 + ihl
	case packet.EtherTypeIPv6:
		if len(frame) < l3+packet.IPv6Len || frame[l3]>>4 != 6 || frame[l3+6] != packet.ProtocolUDP {
			return s, false, nil
		}
		announced = packet.IPv6Len + int(be16(frame[l3+4:]))
		s.l4 = l3 + packet.IPv6Len
	default:
		return s, false, nil
	}
	s.l3, s.end = l3, l3+announced
	if s.end > len(frame) {
		s.missing, s.end, s.ipStale = s.end-len(frame), len(frame), true
	}
	if s.end < s.l4+packet.UDPLen || be16(frame[s.l4+2:]) != port {
		return s, false, nil
	}
	return s, true, s.boundByUDP(int(be16(frame[s.l4+4:])))
}

// boundByUDP applies the UDP length: the shorter of the two length fields ends the packet, as in receivers. If that is
// the IP length (a trimmed packet with an unchanged UDP header), the rest is missing.
func (s *span) boundByUDP(length int) error {
	have := s.end - s.l4
	switch {
	case length < packet.UDPLen:
		return fmt.Errorf("UDP length at byte %d says %d bytes, below %d", s.l4+4, length, packet.UDPLen)
	case length <= have:
		s.end, s.missing = s.l4+length, 0
	default:
		s.missing = max(s.missing, length-have)
	}
	if have := s.end - s.l4 - packet.UDPLen; have < packet.BTHLen {
		return fmt.Errorf("BTH at byte %d needs %d bytes, the frame has %d left", s.l4+packet.UDPLen, packet.BTHLen, have)
	}
	return nil
}

// decodeRoCE fills r with the contents of frame: everything but ID, TimeNS, Event and Flow. It agrees with packet.Parse
// (FuzzDecodeAgreesWithParse), at a tenth of the cost.
func decodeRoCE(frame []byte, port uint16, r *Record) (s span, err error) {
	s, ok, err := locateRoCE(frame, port)
	if !ok {
		return s, ErrNotRoCE
	}
	if err != nil {
		return s, err
	}
	at := s.l4 + packet.UDPLen
	b := frame[at : at+packet.BTHLen : at+packet.BTHLen]
	word := be64(b) // opcode, SE M pad TVer, P_Key, FECN BECN resv6, DestQP
	ack := be32(b[8:])
	shape := &bthShapes[b[0]]
	pad := uint8(word>>52) & 3
	tos := frame[s.l3+1]
	if frame[s.l3]>>4 == 6 {
		tos = uint8(be16(frame[s.l3:]) >> 4)
	}
	*r = Record{Flow: NoFlow}
	r.PSN, r.DestQP, r.PKey = packet.PSN(ack&maxUint24), packet.QPN(word&maxUint24), uint16(word>>32)
	r.Opcode, r.PadCount, r.ECN, r.DSCP = packet.Opcode(b[0]), pad, packet.ECN(tos&3), tos>>2
	r.SrcPort, r.Version = be16(frame[s.l4:]), uint8(word>>48)&0xf
	r.Reserved = uint16(word>>24&0x3f)<<8 | uint16(ack>>24&0x7f)
	flags := Flags(word>>54&1)*MigReq | Flags(word>>55&1)*Solicited | Flags(word>>31&1)*FECN | Flags(
		word>>30&1)*BECN | Flags(ack>>31)*AckReq
	ext := frame[at+packet.BTHLen : s.end]
	if len(ext) < int(shape.extLen) {
		return s, fmt.Errorf("%v extended headers at byte %d need %d bytes, the frame has %d left",
			r.Opcode, at+packet.BTHLen, shape.extLen, len(ext))
	}
	flags |= shape.ext.flags()
	r.extend(shape.ext, ext)
	if shape.imm != 0 {
		r.Operand = uint64(be32(ext[shape.imm-1:]))
	}
	payload := len(ext) - int(shape.extLen) + s.missing - packet.ICRCLen - int(pad)
	if s.missing > 0 {
		flags |= Truncated
	} else if payload < 0 {
		return s, fmt.Errorf("pad and iCRC at byte %d need %d bytes, the frame has %d left",
			s.end-len(ext)+int(shape.extLen), int(pad)+packet.ICRCLen, len(ext)-int(shape.extLen))
	}
	r.PayloadLen = uint16(max(0, payload))
	r.Flags = flags
	if r.Opcode == packet.UDSendOnly && r.DestQP == packet.GSI {
		if c, ok := packet.ParseCM(ext); ok {
			r.setCM(&c)
		}
	}
	return s, nil
}

// flags returns the flags of a record with that extension.
func (e extension) flags() Flags {
	switch e {
	case extRETH:
		return HasRETH
	case extAETH, extAtomicAck:
		return HasAETH
	case extNone, extAtomic, extIETH:
	}
	return 0
}

// extend reads the extended headers after a BTH.
func (r *Record) extend(e extension, b []byte) {
	switch e {
	case extRETH:
		r.VA, r.RKey, r.DMALen = be64(b), be32(b[8:]), be32(b[12:])
	case extAtomic:
		r.VA, r.RKey = be64(b), be32(b[8:])
		if r.Operand = be64(b[12:]); r.Opcode == packet.CmpSwap {
			r.Compare = be64(b[20:])
		}
	case extIETH:
		r.RKey = be32(b)
	case extAETH, extAtomicAck:
		aeth := be32(b)
		r.Syndrome, r.MSN = packet.Syndrome(aeth>>24), aeth&maxUint24
		if e == extAtomicAck {
			r.VA = be64(b[packet.AETHLen:])
		}
	case extNone:
	}
}

// checkICRC checks the iCRC of a whole frame.
func checkICRC(frame []byte, s *span) packet.ICRCStatus {
	if s.missing > 0 {
		return packet.ICRCNotCheckable
	}
	at := s.end - packet.ICRCLen
	if packet.ComputeICRC(frame[s.l3:at]) == le32(frame[at:]) {
		return packet.ICRCValid
	}
	return packet.ICRCInvalid
}

// frameFlowKey returns the flow key of a RoCE frame.
func frameFlowKey(frame []byte, s *span, qpn packet.QPN) flowKey {
	if frame[s.l3]>>4 == 4 {
		return flowKey{a: be64(frame[s.l3+12:]), qpn: uint64(qpn)}
	}
	ip := frame[s.l3+8 : s.l3+packet.IPv6Len]
	return flowKey{a: be64(ip), b: be64(ip[8:]), c: be64(ip[16:]), d: be64(ip[24:]), qpn: uint64(qpn) | flowKeyV6}
}

// A Decoder turns the frames of one capture into records, in order. It allocates nothing per frame after the first
// frame of each kind. It is not safe for concurrent use.
type Decoder struct {
	format    Format
	flows     *Connections
	withICRC  bool
	payloads  bool // records get the hash of their payload
	port      uint16
	clock     TimeUnwrapper
	templates templates
	labels    labels
	template  int     // of the last frame, −1: none
	key       flowKey // of the last frame, for inference and for captures by Lumina
	srcPort   uint16  // UDP, of the last frame, where key is wanted
	wantsKey  bool
	scratch   []byte // a frame being repaired, for iCRC
	reused    *reused
}

// NewDecoder returns a decoder of frames in a format other than auto. connections may be nil: no frame then has a flow.
// withICRC requests a check of every whole frame, which costs a CRC over it.
func NewDecoder(format Format, connections *Connections, withICRC bool) *Decoder {
	d := &Decoder{format: format, flows: connections, withICRC: withICRC, port: packet.Port}
	if format == FormatLumina {
		d.port = LuminaPort
	}
	d.wantsKey = connections == nil || format != FormatMirror
	d.reused = newReused(connections)
	return d
}

// Decode fills r from f. It returns ErrNotRoCE for frames of other protocols, and another error for RoCE frames that
// cannot be decoded. Frame numbers become ids in plain captures, mirror sequence numbers elsewhere.
func (d *Decoder) Decode(f *Frame, r *Record) error {
	var words [templateWords]uint64
	hash, templated := templateKey(f.Data, &words)
	templated = templated && d.format != FormatLumina // the source port is elsewhere
	if templated {
		if d.template = d.templates.find(&words, len(f.Data), hash); d.template >= 0 {
			if t := &d.templates.list[d.template]; f.Data[t.span.l4+packet.UDPLen+packet.BTHLen-4]&reservedAck == 0 {
				return d.fill(t, f, r)
			}
		}
	}
	d.template = -1
	s, err := decodeRoCE(f.Data, d.port, r)
	if err != nil {
		return err
	}
	d.key, d.srcPort = frameFlowKey(f.Data, &s, r.DestQP), be16(f.Data[s.l4:])
	if d.flows != nil {
		r.Flow = d.flows.flows.find(&d.key)
	}
	r.Flags |= Sent | Passed
	if templated && s.l3 == packet.EthernetLen && r.Opcode != packet.UDSendOnly && r.Reserved&reservedAck == 0 {
		agrees := s.l4-s.l3+int(be16(f.Data[s.l4+4:])) == ipLen(f.Data[s.l3:])
		d.learn(&template{words: words, length: int32(len(f.Data)), record: *r, span: s, key: d.key, hash: hash,
			agrees: agrees,
			sum:    constantSum(f.Data[s.l3:])})
	}
	if err := d.complete(&s, f, r); err != nil {
		return err
	}
	d.labels.note(f.Data, &s, &d.key, r)
	return nil
}

// reservedAck are the reserved bits next to the acknowledge request.
const reservedAck = 0x7f

// learn makes a template of a frame that was decoded field by field.
func (d *Decoder) learn(t *template) {
	t.ext, t.imm = bthShapes[t.record.Opcode].ext, bthShapes[t.record.Opcode].imm
	t.record.Flags &^= AckReq
	t.v4, t.ttl = true, packet.EthernetLen+8
	if t.key.qpn&flowKeyV6 != 0 {
		t.v4, t.ttl = false, packet.EthernetLen+7
	}
	t.at, t.whole, t.stray = uint8(t.span.l4+packet.UDPLen+packet.BTHLen), t.span.missing == 0, t.record.Flow == NoFlow
	t.quick = t.agrees && t.ext <= extAETH && t.imm == 0
	d.template = d.templates.add(t)
}

// fill makes r from a template and the fields of f that vary.
func (d *Decoder) fill(t *template, f *Frame, r *Record) error {
	*r = t.record
	at := t.span.l4 + packet.UDPLen + packet.BTHLen
	ack := be32(f.Data[at-4:])
	r.PSN = packet.PSN(ack & maxUint24)
	r.Flags |= Flags(ack>>31) * AckReq
	if t.ext != extNone {
		r.extend(t.ext, f.Data[at:])
	}
	if t.imm != 0 {
		r.Operand = uint64(be32(f.Data[at+int(t.imm)-1:]))
	}
	if d.wantsKey {
		d.key, d.srcPort = t.key, be16(f.Data[t.span.l4:])
	}
	return d.complete(&t.span, f, r)
}

// complete adds what the frame's place in the capture says.
func (d *Decoder) complete(s *span, f *Frame, r *Record) error {
	if d.reused != nil {
		d.reused.resolve(r)
	}
	if d.format == FormatPlain {
		r.ID, r.TimeNS = f.Number, f.TimeNS
	} else if err := d.decodeMirror(f.Data, s, r); err != nil {
		return err
	}
	if d.withICRC && s.missing == 0 {
		r.ICRC = d.icrc(f.Data, s)
	}
	if d.payloads && r.PayloadLen > 0 {
		r.Payload = payloadOf(f.Data, s, r)
	}
	if d.format == FormatLumina {
		r.SrcPort = be16(f.Data[s.l4+6:]) // where the prototype keeps the original
	}
	return nil
}

func (d *Decoder) decodeMirror(frame []byte, s *span, r *Record) error {
	r.ID = uint48(frame[6:12])
	r.TimeNS = d.clock.Unwrap(uint48(frame[0:6]))
	ttl := frame[s.l3+7]
	if frame[s.l3]>>4 == 4 {
		ttl = frame[s.l3+8]
	}
	if EventType(ttl) > MaxEventType {
		return fmt.Errorf("mirror %d: TTL %d is not an event type (0 to %d)", r.ID, ttl, MaxEventType)
	}
	r.Event = EventType(ttl)
	return nil
}

func (d *Decoder) icrc(frame []byte, s *span) packet.ICRCStatus {
	if d.format != FormatLumina {
		return checkICRC(frame, s)
	}
	d.scratch = append(d.scratch[:0], frame...)
	restoreLuminaPorts(d.scratch, s.l4)
	return checkICRC(d.scratch, s)
}

// restoreLuminaPorts undoes the prototype's port rewriting: the original source port is in the UDP checksum field, and
// the checksum is lost (RoCE NICs send zero; the iCRC does not cover it).
func restoreLuminaPorts(frame []byte, l4 int) {
	copy(frame[l4:], frame[l4+6:l4+8])
	frame[l4+2], frame[l4+3] = packet.Port>>8, packet.Port&0xff
	frame[l4+6], frame[l4+7] = 0, 0
}
