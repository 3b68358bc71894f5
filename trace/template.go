package trace

import (
	"encoding/binary"

	"candela.dev/candela/packet"
)

// A template is what all frames with the same headers have in common: addresses, queue pair, opcode, lengths, flags. A connection
// has a handful of them, so that most frames are decoded by recognising theirs and reading the few fields that differ.
type template struct {
	hash   uint64                // first what is compared, then what a record is made of
	words  [templateWords]uint64 // the headers, without what may differ
	length int32                 // of the frame
	ext    extension
	imm    uint8 // as in bthShape
	ttl    uint8 // where the TTL or hop limit is
	agrees bool  // IP and UDP announce the same length
	span   span
	record Record // without PSN, acknowledge request, RETH, AETH and what the mirror says
	key    flowKey
}

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

// What of a frame without VLAN tag and IP options is no part of its template, in the eight-byte words from the EtherType on,
// read little-endian: identification, TTL, checksums, acknowledge request and PSN; in IPv6 flow label and hop limit. The reserved bits beside
// the acknowledge request are 0 in all frames of a template.
const (
	maskV4Type, maskV4Flags  = 0x0000_ffff_ffff_ffff, 0xffff_0000_ff00_ffff
	maskV4Ports, maskV4BTH   = 0xffff_0000_ffff_ffff, 0x0000_ffff_ffff_ffff
	maskV6Type, maskV6Next   = 0xffff_0000_f0ff_ffff, 0xffff_ffff_ffff_00ff
	maskV6Opcode, maskV6Dest = 0xffff_ffff_ffff_0000, 0x0000_0000_ffff_ffff

	templatedV4 = packet.EthernetLen + packet.IPv4Len + packet.UDPLen + packet.BTHLen
	templatedV6 = packet.EthernetLen + packet.IPv6Len + packet.UDPLen + packet.BTHLen
)

// templateKey fills words with the constant part of frame and returns its hash, or false for frames that have no template.
func templateKey(frame []byte, words *[templateWords]uint64) (hash uint64, ok bool) {
	const first = packet.EthernetLen - 2
	if len(frame) < templatedV4 {
		return 0, false
	}
	b := frame[first:templatedV4:templatedV4]
	switch b[2] {
	case 0x45:
		words[0] = binary.LittleEndian.Uint64(b) & maskV4Type
		words[1] = binary.LittleEndian.Uint64(b[8:]) & maskV4Flags
		words[2] = binary.LittleEndian.Uint64(b[16:])
		words[3] = binary.LittleEndian.Uint64(b[24:]) & maskV4Ports
		words[4] = binary.LittleEndian.Uint64(b[32:]) & maskV4BTH
		words[5], words[6], words[7] = 0, 0, 0
	default:
		if b[2]>>4 != 6 || len(frame) < templatedV6 {
			return 0, false
		}
		b = frame[first:templatedV6:templatedV6]
		words[0] = binary.LittleEndian.Uint64(b) & maskV6Type
		words[1] = binary.LittleEndian.Uint64(b[8:]) & maskV6Next
		words[2], words[3] = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		words[4] = binary.LittleEndian.Uint64(b[32:])
		words[5] = binary.LittleEndian.Uint64(b[40:])
		words[6] = binary.LittleEndian.Uint64(b[48:]) & maskV6Opcode
		words[7] = binary.LittleEndian.Uint64(b[54:]) & maskV6Dest
	}
	h := words[0]*0x9e3779b97f4a7c15 ^ words[2]*0xd1b54a32d192ed03 ^ words[3]*0x8cb92ba72f3d8dd7 ^ words[4]*0xaef17502108ef2d9
	h ^= (words[5]^words[6]<<1)*0xc2b2ae3d27d4eb4f ^ words[7]*0x165667b19e3779f9
	return h ^ h>>31, true
}

// templates finds templates by open addressing.
type templates struct {
	list  []template
	slots []uint16 // index + 1, a power of two of them, at most half full
}

// maxTemplates bounds the memory that a hostile capture can take. Frames beyond it are decoded field by field.
const maxTemplates = 1 << 12

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

// is compares the words in line: arrays of this length are compared by a call.
func (c *template) is(w *[templateWords]uint64) bool {
	// In Go ^ and | bind alike.
	d := (c.words[0] ^ w[0]) | (c.words[1] ^ w[1]) | (c.words[2] ^ w[2]) | (c.words[3] ^ w[3])
	return d|(c.words[4]^w[4])|(c.words[5]^w[5])|(c.words[6]^w[6])|(c.words[7]^w[7]) == 0
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
