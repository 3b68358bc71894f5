package trace

import (
	"encoding/binary"

	"candela.dev/candela/packet"
)

// A template is what frames with the same headers have in common: addresses, queue pair, opcode, lengths, flags. A
// connection has a handful of them, so most frames are decoded by recognising the template and reading the few fields
// that differ.
type template struct {
	// Fields used for every frame come first, in one cache line for IPv4.
	length int32  // of the frame
	sum    uint32 // of the IPv4 header's 16-bit words, in the processor's order, without what may differ
	at     uint8  // where the BTH ends
	ttl    uint8  // where the TTL or hop limit is
	ext    extension
	imm    uint8                 // as in bthShape
	quick  bool                  // mirror copies need no record to be checked: see scan.templated
	whole  bool                  // the frame is not cut, so that its iCRC can be checked
	v4     bool                  // IPv4, else IPv6
	stray  bool                  // of no known connection
	words  [templateWords]uint64 // the headers, without what may differ
	hash   uint64
	agrees bool // IP and UDP announce the same length
	span   span
	record Record // without PSN, acknowledge request, RETH, AETH and what the mirror says
	key    flowKey
	_      [templatePad]byte
}

// templatePad aligns templates with cache lines.
const templatePad = 56

// extension is the part of the extended headers that a record keeps.
type extension uint8

const (
	extNone extension = iota
	extRETH
	extAETH
	extAtomic    // AtomicETH
	extAtomicAck // AETH and AtomicAckETH
	extIETH
)

const templateWords = 8

// The parts of a frame without VLAN tag and IP options that vary within a template, in the eight-byte words from the
// EtherType on, read little-endian: identification, TTL, checksums, acknowledge request and PSN; in IPv6 the hop limit.
// The reserved bits next to the acknowledge request are 0 in all frames of a template.
const (
	maskV4Type, maskV4Flags  = 0x0000_ffff_ffff_ffff, 0xffff_0000_ff00_ffff
	maskV4Ports, maskV4BTH   = 0xffff_0000_ffff_ffff, 0x0000_ffff_ffff_ffff
	maskV6Next               = 0xffff_ffff_ffff_00ff
	maskV6Opcode, maskV6Dest = 0xffff_ffff_ffff_0000, 0x0000_0000_ffff_ffff

	templateStart = packet.EthernetLen - 2
	templatedV4   = packet.EthernetLen + packet.IPv4Len + packet.UDPLen + packet.BTHLen
	templatedV6   = packet.EthernetLen + packet.IPv6Len + packet.UDPLen + packet.BTHLen
)

// templateKey fills words with the constant part of frame and returns its hash, or false for frames that have no
// template.
func templateKey(frame []byte, words *[templateWords]uint64) (hash uint64, ok bool) {
	if len(frame) < templatedV4 {
		return 0, false
	}
	b := frame[templateStart:templatedV4:templatedV4]
	switch b[2] {
	case 0x45:
		words[0] = binary.LittleEndian.Uint64(b) & maskV4Type
		words[1] = binary.LittleEndian.Uint64(b[8:]) & maskV4Flags
		words[2] = binary.LittleEndian.Uint64(b[16:])
		words[3] = binary.LittleEndian.Uint64(b[24:]) & maskV4Ports
		words[4] = binary.LittleEndian.Uint64(b[32:]) & maskV4BTH
		words[5], words[6], words[7] = 0, 0, 0
		return hashV4(words[2], words[3], words[4]), true
	default:
		if b[2]>>4 != 6 || len(frame) < templatedV6 {
			return 0, false
		}
		b = frame[templateStart:templatedV6:templatedV6]
		words[0] = binary.LittleEndian.Uint64(b)
		words[1] = binary.LittleEndian.Uint64(b[8:]) & maskV6Next
		words[2], words[3] = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		words[4] = binary.LittleEndian.Uint64(b[32:])
		words[5] = binary.LittleEndian.Uint64(b[40:])
		words[6] = binary.LittleEndian.Uint64(b[48:]) & maskV6Opcode
		words[7] = binary.LittleEndian.Uint64(b[54:]) & maskV6Dest
	}
	h := hashV4(words[2], words[3], words[4])
	h ^= words[0] * 0xff51afd7ed558ccd // with the flow label
	h ^= (words[5]^words[6]<<1)*0xc2b2ae3d27d4eb4f ^ words[7]*0x165667b19e3779f9
	return h ^ h>>31, true
}

// hashV4 mixes addresses, ports, length, opcode and queue pair of an IPv4 packet.
func hashV4(w2, w3, w4 uint64) uint64 {
	h := w2*0xd1b54a32d192ed03 ^ (w3^w4<<9)*0x9e3779b97f4a7c15
	return h ^ h>>32
}

// templates finds templates by open addressing.
type templates struct {
	list  []template
	slots []uint16 // index + 1, a power of two of them, at most half full
}

// maxTemplates bounds the memory for a hostile capture. Further frames are decoded field by field.
const maxTemplates = 1 << 12

// match returns the index of the template of a frame, or −1.
func (t *templates) match(frame []byte) int {
	if len(frame) < templatedV4 || len(t.slots) == 0 {
		return -1
	}
	b := frame[templateStart:templatedV4:templatedV4]
	if b[2] != 0x45 {
		var words [templateWords]uint64
		hash, ok := templateKey(frame, &words)
		if !ok {
			return -1
		}
		return t.find(&words, len(frame), hash)
	}
	w0 := binary.LittleEndian.Uint64(b) & maskV4Type
	w1 := binary.LittleEndian.Uint64(b[8:]) & maskV4Flags
	w2 := binary.LittleEndian.Uint64(b[16:])
	w3 := binary.LittleEndian.Uint64(b[24:]) & maskV4Ports
	w4 := binary.LittleEndian.Uint64(b[32:]) & maskV4BTH
	slots := t.slots
	for i := hashV4(w2, w3, w4); ; i++ {
		at := int(slots[i&uint64(len(slots)-1)]) - 1
		if uint(at) >= uint(len(t.list)) {
			return -1
		}
		c := &t.list[at] // of an IPv6 template the first word differs
		d := (c.words[0] ^ w0) | (c.words[1] ^ w1) | (c.words[2] ^ w2) | (c.words[3] ^ w3) | (c.words[4] ^ w4)
		if d == 0 && int(c.length) == len(frame) {
			return at
		}
	}
}

// find returns the index of the template of a frame of that length, or −1.
func (t *templates) find(words *[templateWords]uint64, length int, hash uint64) int {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; len(t.slots) > 0; i = (i + 1) & mask {
		at := int(t.slots[i]) - 1
		if at < 0 {
			break
		}
		if c := &t.list[at]; c.hash == hash && int(c.length) == length && c.is(words) {
			return at
		}
	}
	return -1
}

// is compares the words inline: arrays of this length would be compared by a call.
func (c *template) is(w *[templateWords]uint64) bool {
	// In Go ^ and | have the same precedence.
	d := (c.words[0] ^ w[0]) | (c.words[1] ^ w[1]) | (c.words[2] ^ w[2]) | (c.words[3] ^ w[3])
	return d|(c.words[4]^w[4])|(c.words[5]^w[5])|(c.words[6]^w[6])|(c.words[7]^w[7]) == 0
}

// holds reports whether the IPv4 header checksum of a frame of the template is right and not 0xffff, or there is
// none, as in IPv6.
func (c *template) holds(frame []byte) bool {
	if !c.v4 {
		return true
	}
	const ip = packet.EthernetLen
	h := frame[ip : ip+packet.IPv4Len : ip+packet.IPv4Len]
	checksum := uint32(binary.LittleEndian.Uint16(h[10:]))
	// The sum of all words, checksum included, is 0xffff; byte order does not matter.
	sum := c.sum + uint32(binary.LittleEndian.Uint16(h[4:])) + uint32(h[8]) + checksum
	sum = sum>>16 + sum&0xffff
	return sum>>16+sum&0xffff == 0xffff && checksum != 0xffff
}

// constantSum returns the sum of an IPv4 header's words without identification, TTL and checksum.
func constantSum(ip []byte) uint32 {
	sum := uint32(0)
	for i := 0; i < packet.IPv4Len; i += 2 {
		word := uint32(binary.LittleEndian.Uint16(ip[i:]))
		switch i {
		case 4, 10:
			continue
		case 8:
			word &^= 0xff
		}
		sum += word
	}
	return sum
}

// add keeps a template and returns its index, or −1 if there are too many.
func (t *templates) add(c *template) int {
	if len(t.list) >= maxTemplates {
		return -1
	}
	t.list = append(t.list, *c)
	if 2*len(t.list) > len(t.slots) {
		t.slots = make([]uint16, max(16, 2*len(t.slots)))
		for i := range t.list {
			t.place(i)
		}
	} else {
		t.place(len(t.list) - 1)
	}
	return len(t.list) - 1
}

func (t *templates) place(index int) {
	mask := uint64(len(t.slots) - 1)
	i := t.list[index].hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = uint16(index + 1)
}
