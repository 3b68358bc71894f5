package trace

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/fairshim"
	"candela.dev/candela/packet/netlock"
)

// ShowFrames prints one line per frame of a capture to w: time since the first frame and since the line before,
// addresses, protocol and the length on the wire. It is for captures without RoCE packets, such as the taps of tests of
// switches; labels of fair queueing (package fairshim) and packets of
// lock managers (package netlock) are decoded. What can't be decoded is said in its line.
// Connection of o is not used. It returns an error if Around names no frame, or the file can't be read to its end.
func ShowFrames(ctx context.Context, src Source, w io.Writer, o ShowOptions) error {
	p := &framePrinter{w: w}
	pick := newPicker(o, p.print)
	first := true
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		if first {
			p.startNS, first = f.TimeNS, false
		}
		return pick.take(f.Number, shownFrame{f.Number, f.TimeNS, frameText(f)})
	})
	return pick.ended(err, src.Name)
}

type shownFrame struct {
	number uint64
	timeNS int64
	text   string
}

type framePrinter struct {
	w       io.Writer
	startNS int64
	steps   Printer // of which the time since the line before is used
}

func (p *framePrinter) print(f *shownFrame, prefix string) error {
	b := strconv.AppendUint(append([]byte(prefix), '#'), f.number, 10)
	b = appendPadded(append(b, "  t="...), clock.TextNS(f.timeNS-p.startNS))
	b = appendPadded(append(b, ' '), p.steps.step(&Record{TimeNS: f.timeNS}))
	_, err := p.w.Write(append(append(append(b, "  "...), f.text...), '\n'))
	return err
}

// frameText says what a frame is.
func frameText(f *Frame) string {
	var p packet.Packet
	err := p.Parse(f.Data)
	if p.IP.Version == 0 {
		if err != nil {
			return fmt.Sprintf("%d B, %v", f.OrigLen, err)
		}
		return fmt.Sprintf("%v -> %v  EtherType %#04x %d B", p.Eth.Src, p.Eth.Dst, p.Eth.Type, f.OrigLen)
	}
	protocol, label := p.IP.Protocol, ""
	if protocol == fairshim.Protocol {
		var h fairshim.Header
		if shimErr := h.Parse(p.Payload); shimErr != nil {
			label = "  " + shimErr.Error()
		} else {
			protocol, p.Payload = h.Next, p.Payload[h.Size():]
			label = fmt.Sprintf("  label %s %d", fairshim.RateText(h.Kbps), append([]uint16{0}, h.Nodes()...))
		}
	}
	src, dst := p.IP.Src.String(), p.IP.Dst.String()
	if from, to, ok := ports(&p, protocol); ok {
		if to == netlock.Port || to == netlock.ReplyPort {
			label += lockText(&p)
		}
		src, dst = netip.AddrPortFrom(p.IP.Src, from).String(), netip.AddrPortFrom(p.IP.Dst, to).String()
	}
	text := fmt.Sprintf("%s -> %s  %s %d B", src, dst, protocolText(protocol), f.OrigLen)
	if p.IP.ECN() == packet.CE {
		text += " CE"
	}
	if err != nil {
		label += "  " + err.Error()
	}
	return text + label
}

// lockText says what a packet of a lock manager is; nothing if it is a packet of another protocol.
func lockText(p *packet.Packet) string {
	var h netlock.Header
	if !p.HasUDP || h.Parse(p.Payload) != nil {
		return ""
	}
	return "  " + h.String()
}

// Numbers of protocols after an IP header (IANA).
const (
	protocolICMP   = 1
	protocolTCP    = 6
	protocolICMPv6 = 58
)

func protocolText(protocol uint8) string {
	switch protocol {
	case protocolICMP:
		return "ICMP"
	case protocolTCP:
		return "TCP"
	case packet.ProtocolUDP:
		return "UDP"
	case protocolICMPv6:
		return "ICMPv6"
	}
	return fmt.Sprintf("protocol %d", protocol)
}

// ports returns those of a packet with TCP or UDP, if it is a first fragment, or whole, and has them.
func ports(p *packet.Packet, protocol uint8) (src, dst uint16, ok bool) {
	const offset = 0x1fff
	switch {
	case p.HasUDP:
		return p.UDP.SrcPort, p.UDP.DstPort, true
	case protocol != protocolTCP && protocol != packet.ProtocolUDP, p.IP.FlagsFragment&offset != 0, len(p.Payload) < 4:
		return 0, 0, false
	}
	b := p.Payload
	return uint16(b[0])<<8 | uint16(b[1]), uint16(b[2])<<8 | uint16(b[3]), true
}
