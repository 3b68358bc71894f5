package nic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"candela.dev/candela/testbeds"
)

// Priorities is the number of priorities, and of traffic classes at most (IEEE Std 802.1Q, clause 6.9.3).
const Priorities = 8

// PFC is which priorities pause by themselves (clause 36); linux/dcbnl.h calls it ieee_pfc.
type PFC struct {
	Enabled  uint8 // bit i: priority i
	Capable  uint8 // how many priorities can be enabled; read only
	Delay    uint16
	Requests [Priorities]uint64 // pauses sent, by priority; read only
	Received [Priorities]uint64 // pauses received; read only

	raw []byte // as it was read: what is not named here is written back unchanged
}

// ETS is how priorities share the port (clause 37); linux/dcbnl.h calls it ieee_ets.
type ETS struct {
	Classes   uint8             // that there are; read only
	Class     [Priorities]uint8 // of each priority
	Algorithm [Priorities]uint8 // of each class: 0 strict, 1 credit-based shaper, 2 ETS, 255 vendor's
	Bandwidth [Priorities]uint8 // of each class, per cent of what strict classes leave; they add up to 100 or 0

	raw []byte
}

// DCB is an interface's settings for lossless traffic; nil where its driver has none.
type DCB struct {
	PFC   *PFC
	ETS   *ETS
	Apps  []App
	Trust []uint8 // selectors in the order in which they are tried
}

// Algorithms by number (table 37-1).
const (
	strict = 0
	shared = 2
)

var algorithmNames = map[uint8]string{strict: "strict", 1: "cbs", shared: "ets", 255: "vendor"}

func (e *ETS) check() error {
	var sum int
	for i := range Priorities {
		switch {
		case e.Class[i] >= Priorities:
			return fmt.Errorf("ETS: priority %d: class %d; allowed are 0 to %d", i, e.Class[i], Priorities-1)
		case e.Algorithm[i] != strict && e.Algorithm[i] != shared:
			return fmt.Errorf("ETS: class %d: algorithm %d; allowed are 0, strict, and 2, shared", i, e.Algorithm[i])
		case e.Algorithm[i] == strict && e.Bandwidth[i] != 0:
			return fmt.Errorf("ETS: class %d is strict and has a bandwidth of %d %%", i, e.Bandwidth[i])
		}
		sum += int(e.Bandwidth[i])
	}
	if sum != 0 && sum != 100 {
		return fmt.Errorf("ETS: the bandwidths add up to %d %%; they must to 100", sum)
	}
	return nil
}

// dcbProperties returns the state. An interface without DCB is listed as such, unlike one that was not asked.
func (n *NIC) dcbProperties() ([]testbeds.Property, error) {
	d, err := n.control.DCB(n.Interface)
	switch {
	case errors.Is(err, ErrUnsupported):
		return []testbeds.Property{{Name: "dcb", Value: "not supported by the driver"}}, nil
	case err != nil:
		return nil, fmt.Errorf("DCB: %w", err)
	}
	var list []testbeds.Property
	add := func(name string, value any) { list = append(list, testbeds.NewProperty(name, value)) }
	if p := d.PFC; p != nil {
		add("pfc-priorities", priorities(p.Enabled))
		add("pfc-capable", p.Capable)
		add("pfc-delay", p.Delay)
	}
	if e := d.ETS; e != nil {
		add("ets-classes", e.Classes)
		add("ets-class-of-priority", e.Class)
		add("ets-algorithms", algorithms(e.Algorithm))
		add("ets-bandwidths", e.Bandwidth)
	}
	if d.Trust != nil {
		add("trust", selectors(d.Trust))
	}
	for _, a := range d.Apps {
		if a.Selector == selectDSCP {
			add(fmt.Sprint(dscpPrefix, a.Protocol), a.Priority)
		}
	}
	return list, nil
}

// priorities lists the bits of a set.
func priorities(set uint8) string {
	var list []string
	for i := range Priorities {
		if set>>i&1 == 1 {
			list = append(list, fmt.Sprint(i))
		}
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, " ")
}

func algorithms(list [Priorities]uint8) string {
	var names []string
	for _, a := range list {
		name, ok := algorithmNames[a]
		if !ok {
			name = fmt.Sprint(a)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// checkDCB reports what the interface can't be set to, before anything is.
func (n *NIC) checkDCB(pfc *uint8, ets *ETS) error {
	if pfc == nil && ets == nil {
		return nil
	}
	d, err := n.control.DCB(n.Interface)
	var missing []string
	if pfc != nil && (err != nil || d.PFC == nil) {
		missing = append(missing, "PFC")
	}
	if ets != nil && (err != nil || d.ETS == nil) {
		missing = append(missing, "ETS")
	}
	if err != nil && !errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("DCB: %w", err)
	}
	if len(missing) > 0 {
		return unsupported("it has no such DCB setting", missing...)
	}
	if ets != nil {
		return ets.check()
	}
	return nil
}

// Sizes and offsets of the structures of linux/dcbnl.h, which netlink carries in memory layout.
const (
	etsBytes    = 3 + 7*Priorities
	etsCapable  = 1                // ets_cap
	etsTransmit = 3                // tc_tx_bw
	etsTSA      = 3 + 2*Priorities // tc_tsa
	etsClass    = 3 + 3*Priorities // prio_tc
	pfcDelay    = 4                // after three bytes and one of padding
	pfcRequests = 8                // aligned as a 64-bit number
	pfcReceived = pfcRequests + 8*Priorities
	pfcBytes    = pfcReceived + 8*Priorities
)

func parseETS(b []byte) (*ETS, error) {
	if len(b) < etsBytes {
		return nil, fmt.Errorf("ETS of %d bytes, want %d", len(b), etsBytes)
	}
	e := &ETS{Classes: b[etsCapable], raw: slices.Clone(b[:etsBytes])}
	copy(e.Bandwidth[:], b[etsTransmit:])
	copy(e.Algorithm[:], b[etsTSA:])
	copy(e.Class[:], b[etsClass:])
	return e, nil
}

func appendETS(to []byte, e *ETS) []byte {
	b := make([]byte, etsBytes)
	copy(b, e.raw)
	copy(b[etsTransmit:], e.Bandwidth[:])
	copy(b[etsTSA:], e.Algorithm[:])
	copy(b[etsClass:], e.Class[:])
	return append(to, b...)
}

func parsePFC(b []byte) (*PFC, error) {
	if len(b) < pfcBytes {
		return nil, fmt.Errorf("PFC of %d bytes, want %d", len(b), pfcBytes)
	}
	p := &PFC{Capable: b[0], Enabled: b[1], Delay: binary.NativeEndian.Uint16(b[pfcDelay:]),
		raw: slices.Clone(b[:pfcBytes])}
	for i := range Priorities {
		p.Requests[i] = binary.NativeEndian.Uint64(b[pfcRequests+8*i:])
		p.Received[i] = binary.NativeEndian.Uint64(b[pfcReceived+8*i:])
	}
	return p, nil
}

func appendPFC(to []byte, p *PFC) []byte {
	b := make([]byte, pfcBytes)
	copy(b, p.raw)
	b[1] = p.Enabled
	return append(to, b...)
}

// Attributes of linux/dcbnl.h.
const (
	attrIEEE = 13
	ieeeETS  = 1
	ieeePFC  = 2

	ieeeApps  = 3  // DCB_ATTR_IEEE_APP_TABLE
	ieeeTrust = 11 // DCB_ATTR_DCB_APP_TRUST_TABLE, of Linux 6.2
	// Entries of both: DCB_ATTR_IEEE_APP, and DCB_ATTR_DCB_APP for the selectors that IEEE does not have.
	entryIEEE = 1
	entryDCB  = 2
)

// appBytes is the size of struct dcb_app: selector, priority, protocol.
const appBytes = 4

func appendApp(to []byte, a App) []byte {
	return binary.NativeEndian.AppendUint16(append(to, a.Selector, a.Priority), a.Protocol)
}

// entryOf is the type of the attribute with a selector.
func entryOf(selector uint8) int {
	if selector == selectPCP {
		return entryDCB
	}
	return entryIEEE
}

func parseApps(b []byte) (list []App, err error) {
	return list, attributes(b, func(_ uint16, value []byte) error {
		if len(value) < appBytes {
			return fmt.Errorf("entry of the application table of %d bytes, want %d", len(value), appBytes)
		}
		list = append(list, App{value[0], value[1], binary.NativeEndian.Uint16(value[2:])})
		return nil
	})
}

func parseTrust(b []byte) (list []uint8, err error) {
	list = []uint8{}
	return list, attributes(b, func(_ uint16, value []byte) error {
		if len(value) > 0 {
			list = append(list, value[0])
		}
		return nil
	})
}

// parseDCB reads the attributes of an answer to DCB_CMD_IEEE_GET.
func parseDCB(b []byte) (d DCB, err error) {
	return d, attributes(b, func(kind uint16, value []byte) error {
		if kind != attrIEEE {
			return nil
		}
		return attributes(value, func(kind uint16, value []byte) (err error) {
			switch kind {
			case ieeeETS:
				d.ETS, err = parseETS(value)
			case ieeePFC:
				d.PFC, err = parsePFC(value)
			case ieeeApps:
				d.Apps, err = parseApps(value)
			case ieeeTrust:
				d.Trust, err = parseTrust(value)
			}
			return err
		})
	})
}

// parseDCBResult reads the answer to DCB_CMD_IEEE_SET: a byte that is 0, or the negative error number.
func parseDCBResult(b []byte) (failure syscall.Errno, err error) {
	return failure, attributes(b, func(kind uint16, value []byte) error {
		if kind == attrIEEE && len(value) > 0 {
			failure = syscall.Errno(-int8(value[0]))
		}
		return nil
	})
}
