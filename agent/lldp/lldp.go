// Package lldp reads what devices announce with LLDP (IEEE Std 802.1AB-2016), which shows where a cable leads.
//
// The contents come from an untrusted device: names are bounded and printable, and nothing else of a frame is kept.
package lldp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// EtherType is that of LLDP's frames (clause 7.3).
const EtherType = 0x88cc

// group is the destination of LLDP frames (clause 7.1, table 7-1: nearest bridge); bridges do not forward it.
var group = [6]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e}

// Neighbour is what a device announces about one of its ports. Chassis and Port are always present; addresses are
// formatted.
type Neighbour struct {
	Chassis, Port           string
	System, PortDescription string        // empty: it doesn't say
	TTL                     time.Duration // for how long this holds; 0: it takes its word back
}

// String names the neighbour for people.
func (n Neighbour) String() string {
	system := n.System
	if system == "" {
		system = "chassis " + n.Chassis
	}
	text := fmt.Sprintf("%s port %s", system, n.Port)
	if n.PortDescription != "" && n.PortDescription != n.Port {
		text += " (" + n.PortDescription + ")"
	}
	return text
}

// Is reports whether the neighbour has these names; an empty one matches any. A port may be named by its description,
// and a system by its chassis.
func (n Neighbour) Is(system, port string) bool {
	return (system == "" || system == n.System || system == n.Chassis) &&
		(port == "" || port == n.Port || port == n.PortDescription)
}

// Types of TLVs (table 8-1).
const (
	typeEnd             = 0
	typeChassis         = 1
	typePort            = 2
	typeTTL             = 3
	typePortDescription = 4
	typeSystem          = 5
)

// ErrNotLLDP says that a frame has another EtherType.
var ErrNotLLDP = errors.New("no LLDP frame")

// Parse reads a frame from its Ethernet header on, which may have VLAN tags. Chassis, port and TTL must come first, in
// this order, and once each (clause 9.2.8.7.1).
func Parse(frame []byte) (n Neighbour, err error) {
	const addresses = 12
	if len(frame) < addresses+2 {
		return n, ErrNotLLDP
	}
	rest := frame[addresses:]
	for len(rest) >= 6 && (binary.BigEndian.Uint16(rest) == 0x8100 || binary.BigEndian.Uint16(rest) == 0x88a8) {
		rest = rest[4:]
	}
	if binary.BigEndian.Uint16(rest) != EtherType {
		return n, ErrNotLLDP
	}
	rest = rest[2:]
	for i := 0; ; i++ {
		kind, value, more, err := next(rest)
		if err != nil {
			return n, fmt.Errorf("LLDP: TLV %d: %w", i+1, err)
		}
		if mandatory := i < typeTTL; mandatory && kind != i+1 || !mandatory && kind >= typeChassis && kind <= typeTTL {
			return n, fmt.Errorf("LLDP: TLV %d is of type %d; chassis, port and TTL come first, once each", i+1, kind)
		}
		if kind == typeEnd {
			return n, nil
		}
		if err := n.take(kind, value); err != nil {
			return n, fmt.Errorf("LLDP: TLV %d of type %d: %w", i+1, kind, err)
		}
		if rest = more; len(rest) == 0 && i >= typeTTL-1 {
			return n, nil // the end is left out by some
		}
	}
}

// next takes a TLV: seven bits of type, nine of length (clause 8.4).
func next(b []byte) (kind int, value, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, nil, fmt.Errorf("%d bytes are not a header", len(b))
	}
	header := binary.BigEndian.Uint16(b)
	kind, length := int(header>>9), int(header&0x1ff)
	if b = b[2:]; length > len(b) {
		return 0, nil, nil, fmt.Errorf("%d bytes announced, %d there", length, len(b))
	}
	return kind, b[:length], b[length:], nil
}

func (n *Neighbour) take(kind int, value []byte) (err error) {
	switch kind {
	case typeChassis:
		n.Chassis, err = id(value, chassisForms)
	case typePort:
		n.Port, err = id(value, portForms)
	case typeTTL:
		if len(value) < 2 {
			return fmt.Errorf("%d bytes", len(value))
		}
		n.TTL = time.Duration(binary.BigEndian.Uint16(value)) * time.Second
	case typePortDescription:
		n.PortDescription = text(value)
	case typeSystem:
		n.System = text(value)
	}
	return err
}

// forms lists which subtypes of an id hold an address rather than a name (tables 8-2 and 8-3).
type forms struct{ mac, network byte }

var (
	chassisForms = forms{mac: 4, network: 5}
	portForms    = forms{mac: 3, network: 4}
)

// maxID is the longest id (clauses 8.5.2.3 and 8.5.3.3).
const maxID = 255

func id(value []byte, f forms) (string, error) {
	if len(value) < 2 || len(value) > maxID+1 {
		return "", fmt.Errorf("an id of %d bytes; allowed are 2 to %d with its subtype", len(value), maxID+1)
	}
	subtype, value := value[0], value[1:]
	switch {
	case subtype == f.mac && len(value) == 6:
		return net.HardwareAddr(value).String(), nil
	case subtype == f.network:
		// One byte of address family in front (IANA: 1 and 2).
		if ip, ok := netip.AddrFromSlice(value[1:]); ok && (value[0] == 1 && ip.Is4() || value[0] == 2 && ip.Is6()) {
			return ip.String(), nil
		}
		return fmt.Sprintf("%x", value), nil
	}
	if name := text(value); name != "" {
		return name, nil
	}
	return fmt.Sprintf("%x", value), nil
}

// text makes a printable string of bytes, without trailing zeros and spaces, which some devices add.
func text(b []byte) string {
	if !utf8.Valid(b) {
		return fmt.Sprintf("%x", b)
	}
	s := strings.TrimSpace(strings.TrimRight(string(b), "\x00"))
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}
