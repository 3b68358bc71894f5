package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"candela.dev/candela/packet"
)

// View is a side of the injector from which a plain capture is seen.
type View uint8

// Views.
const (
	ViewBefore View = iota // packets as they arrived at the injector
	ViewAfter              // packets as the injector passed them on
)

// ToPlain writes the packets of a mirror trace as a plain capture. Fields that the mirror encoding overwrote are
// invented: TTL 64, and Ethernet addresses 02:xx from the IP addresses. In a view after the injector, dropped packets
// are missing, marked ones carry CE and corrupted ones a broken iCRC, as the injector's actions make them; other events
// cannot be redone from a mirror copy and are an error. It returns how many packets were written.
func ToPlain(ctx context.Context, src Source, format Format, view View, out io.Writer, name string) (int64, error) {
	dec := NewDecoder(format, nil, false)
	w := NewPcapWriter(out, name, 0)
	var r Record
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		switch err := dec.Decode(f, &r); {
		case errors.Is(err, ErrNotRoCE):
			return nil
		case err != nil:
			return fmt.Errorf("%s: frame %d: %w", src.Name, f.Number, err)
		case view == ViewAfter && r.Event == EventDrop:
			return nil
		}
		frame, err := w.Reserve(f.TimeNS, len(f.Data), f.OrigLen)
		if err != nil {
			return err
		}
		copy(frame, f.Data)
		return plainFrame(frame, format, view, &r)
	})
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	return int64(w.Packets()), err
}

// plainFrame undoes the mirror encoding of frame and, in a view after the injector, applies the event of r.
func plainFrame(frame []byte, format Format, view View, r *Record) error {
	if format == FormatLumina {
		if err := NormaliseLumina(frame, 0); err != nil {
			return err
		}
	}
	l3, l4, err := LocateUDP(frame)
	if err != nil {
		return err
	}
	ip := frame[l3:]
	event := EventNone
	if view == ViewAfter {
		event = r.Event
	}
	switch event {
	case EventNone, EventDrop:
	case EventECN:
		setCE(ip)
	case EventCorrupt:
		corrupt(ip, frame[l4:])
	default:
		return fmt.Errorf("mirror %d: event %v can't be redone from a mirror copy", r.ID, event)
	}
	const ttl = 64
	if ip[0]>>4 == 4 {
		copy(frame, hostMAC(ip[16:20]))
		copy(frame[6:], hostMAC(ip[12:16]))
		setTTL(ip, ttl)
		return nil
	}
	copy(frame, hostMAC(ip[36:40]))
	copy(frame[6:], hostMAC(ip[20:24]))
	ip[7] = ttl
	return nil
}

// hostMAC returns a locally administered address for the host with the given last four bytes of its IP address.
func hostMAC(ip []byte) []byte { return []byte{2, 0, ip[0], ip[1], ip[2], ip[3]} }

func setCE(ip []byte) {
	if ip[0]>>4 == 4 {
		ip[1] |= uint8(packet.CE) // the checksum follows with the TTL
		return
	}
	ip[1] |= uint8(packet.CE) << 4
}

// corrupt does the injector's corrupt action (design, "Injector contract") and adjusts the IPv4 checksum to the TTL.
func corrupt(ip, udp []byte) {
	if ip[0]>>4 == 4 {
		ip[4] ^= 0x80
		return
	}
	old := be16(udp)
	binary.BigEndian.PutUint16(udp, old^1)
	if sum := be16(udp[6:]); sum != 0 {
		binary.BigEndian.PutUint16(udp[6:], adjustChecksum(sum, old, old^1))
	}
}

// adjustChecksum returns the checksum that results from sum when one 16-bit word changes (RFC 1624, eqn. 3).
func adjustChecksum(sum, old, new uint16) uint16 {
	acc := uint32(^sum) + uint32(^old) + uint32(new)
	acc = acc>>16 + acc&0xffff
	return ^uint16(acc>>16 + acc)
}

// ToMirror writes the RoCE packets of a plain capture as a mirror trace: sequence numbers from 1, stamps from the first
// packet's time, no events. It returns how many packets were written.
func ToMirror(ctx context.Context, src Source, out io.Writer, name string) (int64, error) {
	w := NewPcapWriter(out, name, 0)
	start, n := int64(0), uint64(0)
	dec := NewDecoder(FormatPlain, nil, false)
	var r Record
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		switch err := dec.Decode(f, &r); {
		case errors.Is(err, ErrNotRoCE):
			return nil
		case err != nil:
			return fmt.Errorf("%s: frame %d: %w", src.Name, f.Number, err)
		}
		if n == 0 {
			start = f.TimeNS
		}
		n++
		frame, err := w.Reserve(f.TimeNS, len(f.Data), f.OrigLen)
		if err != nil {
			return err
		}
		copy(frame, f.Data)
		return EncodeMirror(frame, MirrorMeta{Seq: n, TimeNS: f.TimeNS - start, UDPDstPort: packet.Port})
	})
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	return int64(n), err
}

// RestoreFrame undoes the mirror encoding of a frame in place, as [ToPlain] does for a whole trace; r is the frame's
// record.
func RestoreFrame(frame []byte, format Format, view View, r *Record) error {
	return plainFrame(frame, format, view, r)
}
