// Package netlock is the wire format of a lock manager in a switch: what clients, the switch and lock servers send over
// UDP (reference model netlock.md, section 3). The first 20 bytes are the layout of the published artefact. In network
// byte order:
//
//	byte  0       1   2     3       4            8     12         20
//	      passes  op  mode  client  transaction  lock  timestamp  mark, options
//
// What follows is of this package, because the model names the fields and not their place: a byte with the mark of
// packets to a lock server, if it is from 1 to 3, then options of a type (from 16 on), the number of bytes of their
// value, and the value. A byte of 0 ends them, so that padding of Ethernet is harmless.
//
//	type  bytes  option
//	16    1      priority, 1 is the highest
//	17    2      tenant
//	18    0      last packet that one PUSH_REQ gets back
//	19    4      avail: free slots of the switch (PUSH_REQ)
//	20    8      sent: BUFFER_ONLY packets that the switch has sent for the lock (PUSH_REQ), or, until the server has
//	             answered that the lock moves to the switch, the number of that move (BUFFER_ONLY)
//	21    8      received: those that the server has received (PUSH_BACK, PUSH_EMPTY)
//	22    8      index: number of the packet among those ever pushed back for the lock (PUSH_BACK), or the last one that
//	             the switch has taken (PUSH_REQ)
//	23    4, 16  address of the client, where the IP header has another one (PUSH_BACK)
//
// Each option occurs at most once. Options of other types are refused: they may change what a packet means.
//
// PUSH_REQ and PUSH_EMPTY have a mark while a lock moves, and sent and index are those of the move, which the answer
// repeats. The switch repeats PUSH_REQ until the answer comes.
//
//	          PUSH_REQ                                         PUSH_EMPTY
//	OWNED     the server owns the lock from now on; it grants  the server owns the lock
//	          what it buffers, but for what was taken (index)
//	FAILOVER  the switch owns the lock; the server clears its  the server's queue is empty: the switch may grant. Also
//	          buffer, and says when its own queue is empty     between switches, of a lock that returns from a backup
package netlock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// UDP ports (artefact).
const (
	Port      = 8888 // requests to a lock server; the switch answers on the path
	ReplyPort = 8889 // answers to clients
	AdminPort = 7777 // of the control plane
	ProbePort = 9998 // of probes of liveness
)

// Size is the size of a header without mark and options.
const Size = 20

// MaxSize is the size of the largest header.
const MaxSize = Size + 1 + (2 + 1) + (2 + 2) + 2 + (2 + 4) + 3*(2+8) + (2 + 16)

// Op is what a packet asks or answers.
type Op uint8

// Operations. The artefact has the first five.
const (
	Acquire         Op = iota // client: a request. Switch: its grant
	Release                   // client: the end of a lock's use
	PushBack                  // server: a buffered request. Switch: its grant
	GrantFromServer           // server: a grant
	Reject                    // switch: the tenant's quota is used up
	PushRequest               // switch: send what is buffered, as far as there is room
	PushEmpty                 // server: nothing is buffered
	ops
)

// String returns the operation as the model writes it.
func (o Op) String() string {
	if o < ops {
		return [ops]string{"ACQUIRE", "RELEASE", "PUSH_BACK", "GRANT_FROM_SERVER", "REJECT", "PUSH_REQ", "PUSH_EMPTY"}[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Mode is the mode of a lock.
type Mode uint8

// Modes.
const (
	Shared Mode = iota
	Exclusive
	modes
)

// String returns S or X.
func (m Mode) String() string {
	if m < modes {
		return [modes]string{"S", "X"}[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Mark is what a lock server does with a packet.
type Mark uint8

// Marks.
const (
	Unmarked   Mark = iota
	Owned           // the server owns the lock: it queues and grants
	BufferOnly      // the switch owns it: the server only queues
	Failover        // the server clears what it has buffered
	marks
)

// String returns the mark as the model writes it.
func (m Mark) String() string {
	if m < marks {
		return [marks]string{"none", "OWNED", "BUFFER_ONLY", "FAILOVER"}[m]
	}
	return fmt.Sprintf("mark %d", uint8(m))
}

// Types of options.
const (
	optionPriority = 16 + iota
	optionTenant
	optionLast
	optionAvail
	optionSent
	optionReceived
	optionIndex
	optionClient
	optionEnd
)

// Header is a packet of the lock manager after the UDP header. Options that are zero, or an invalid address, are not on
// the wire.
type Header struct {
	Passes      uint8 // through the switch: 0 on links, 1 and 2 only inside it
	Op          Op
	Mode        Mode
	Client      uint8 // thread of the host
	Transaction uint32
	Lock        uint32
	Timestamp   uint64 // the client's, echoed by answers; its unit is the client's own
	Mark        Mark

	Priority uint8
	Tenant   uint16
	Last     bool
	Avail    uint32
	Sent     uint64
	Received uint64
	Index    uint64
	Address  netip.Addr // of the client
}

// ErrForeign is wrapped by errors of Parse.
var ErrForeign = errors.New("not a packet of the lock manager")

// Parse decodes a UDP payload. On error h is unchanged.
func (h *Header) Parse(b []byte) error {
	if len(b) < Size {
		return fmt.Errorf("%w: %d bytes, want at least %d", ErrForeign, len(b), Size)
	}
	of := Header{Passes: b[0], Op: Op(b[1]), Mode: Mode(b[2]), Client: b[3], Transaction: binary.BigEndian.Uint32(b[4:]),
		Lock: binary.BigEndian.Uint32(b[8:]), Timestamp: binary.BigEndian.Uint64(b[12:])}
	const passes = 2
	switch {
	case of.Passes > passes:
		return fmt.Errorf("%w: byte 0: %d passes, want 0 to %d", ErrForeign, of.Passes, passes)
	case of.Op >= ops:
		return fmt.Errorf("%w: byte 1: operation %d, want 0 to %d", ErrForeign, of.Op, ops-1)
	case of.Mode >= modes:
		return fmt.Errorf("%w: byte 2: mode %d, want 0 (shared) or 1 (exclusive)", ErrForeign, of.Mode)
	}
	at := Size
	if at < len(b) && b[at] != 0 && Mark(b[at]) < marks {
		of.Mark = Mark(b[at])
		at++
	}
	if err := of.options(b, at); err != nil {
		return err
	}
	*h = of
	return nil
}

// options decodes what follows the mark.
func (h *Header) options(b []byte, at int) error {
	for before := byte(0); at < len(b) && b[at] != 0; {
		kind := b[at]
		switch {
		case kind < optionPriority || kind >= optionEnd:
			return fmt.Errorf("%w: byte %d: option %d, want %d to %d", ErrForeign, at, kind, optionPriority, optionEnd-1)
		case kind <= before:
			return fmt.Errorf("%w: byte %d: option %d after option %d, want each once and in order", ErrForeign, at, kind,
				before)
		case at+2 > len(b) || at+2+int(b[at+1]) > len(b):
			return fmt.Errorf("%w: byte %d: option %d is longer than the packet of %d bytes", ErrForeign, at, kind, len(b))
		}
		value := b[at+2 : at+2+int(b[at+1])]
		if err := h.option(kind, value); err != nil {
			return fmt.Errorf("%w: byte %d: option %d: %w", ErrForeign, at, kind, err)
		}
		before, at = kind, at+2+len(value)
	}
	return nil
}

// sizes are the bytes of the values of options, but of addresses.
var sizes = [...]int{optionPriority: 1, optionTenant: 2, optionLast: 0, optionAvail: 4, optionSent: 8,
	optionReceived: 8, optionIndex: 8}

func (h *Header) option(kind byte, value []byte) error {
	if kind == optionClient {
		address, ok := netip.AddrFromSlice(value)
		if !ok {
			return fmt.Errorf("an address of %d bytes, want 4 or 16", len(value))
		}
		h.Address = address
		return nil
	}
	if len(value) != sizes[kind] {
		return fmt.Errorf("a value of %d bytes, want %d", len(value), sizes[kind])
	}
	var padded [8]byte
	copy(padded[len(padded)-len(value):], value)
	n := binary.BigEndian.Uint64(padded[:])
	if n == 0 && kind != optionLast {
		return errors.New("a value of 0, which is sent without the option")
	}
	switch kind {
	case optionPriority:
		h.Priority = uint8(n)
	case optionTenant:
		h.Tenant = uint16(n)
	case optionLast:
		h.Last = true
	case optionAvail:
		h.Avail = uint32(n)
	case optionSent:
		h.Sent = n
	case optionReceived:
		h.Received = n
	case optionIndex:
		h.Index = n
	}
	return nil
}

// AppendTo appends the header to b.
func (h *Header) AppendTo(b []byte) []byte {
	b = append(b, h.Passes, byte(h.Op), byte(h.Mode), h.Client)
	b = binary.BigEndian.AppendUint32(b, h.Transaction)
	b = binary.BigEndian.AppendUint32(b, h.Lock)
	b = binary.BigEndian.AppendUint64(b, h.Timestamp)
	if h.Mark != Unmarked {
		b = append(b, byte(h.Mark))
	}
	b = appendOption(b, optionPriority, uint64(h.Priority))
	b = appendOption(b, optionTenant, uint64(h.Tenant))
	if h.Last {
		b = append(b, optionLast, 0)
	}
	b = appendOption(b, optionAvail, uint64(h.Avail))
	b = appendOption(b, optionSent, h.Sent)
	b = appendOption(b, optionReceived, h.Received)
	b = appendOption(b, optionIndex, h.Index)
	switch {
	case h.Address.Is4():
		address := h.Address.As4()
		b = append(append(b, optionClient, byte(len(address))), address[:]...)
	case h.Address.Is6():
		address := h.Address.As16()
		b = append(append(b, optionClient, byte(len(address))), address[:]...)
	}
	return b
}

// Len returns the bytes of the header.
func (h *Header) Len() int {
	n := Size
	if h.Mark != Unmarked {
		n++
	}
	option := func(kind byte, there bool) {
		if there {
			n += 2 + sizes[kind]
		}
	}
	option(optionPriority, h.Priority != 0)
	option(optionTenant, h.Tenant != 0)
	option(optionLast, h.Last)
	option(optionAvail, h.Avail != 0)
	option(optionSent, h.Sent != 0)
	option(optionReceived, h.Received != 0)
	option(optionIndex, h.Index != 0)
	if h.Address.IsValid() {
		n += 2 + h.Address.BitLen()/8
	}
	return n
}

// appendOption appends an option with a number, unless that is 0.
func appendOption(b []byte, kind byte, n uint64) []byte {
	if n == 0 {
		return b
	}
	var value [8]byte
	binary.BigEndian.PutUint64(value[:], n)
	return append(append(b, kind, byte(sizes[kind])), value[len(value)-sizes[kind]:]...)
}

// String prints the header on one line.
func (h *Header) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v %v lock %d transaction %d client %d", h.Op, h.Mode, h.Lock, h.Transaction, h.Client)
	if h.Passes != 0 {
		fmt.Fprintf(&text, " pass %d", h.Passes)
	}
	if h.Mark != Unmarked {
		fmt.Fprintf(&text, " %v", h.Mark)
	}
	for _, o := range []struct {
		name  string
		value uint64
	}{
		{"priority", uint64(h.Priority)}, {"tenant", uint64(h.Tenant)}, {"avail", uint64(h.Avail)}, {"sent", h.Sent},
		{"received", h.Received}, {"index", h.Index},
	} {
		if o.value != 0 {
			fmt.Fprintf(&text, " %s %d", o.name, o.value)
		}
	}
	if h.Last {
		text.WriteString(" last")
	}
	if h.Address.IsValid() {
		fmt.Fprintf(&text, " of %v", h.Address)
	}
	return text.String()
}
