package live

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"candela.dev/candela/link"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func (s *Switch) openRemote(h int) (err error) {
	r := s.cfg.Remote
	if h >= len(r.Ports) {
		return fmt.Errorf("no interface of this machine is its port: %d are given", len(r.Ports))
	}
	if s.cfg.Stacks[h] != nil || len(s.cfg.Connections) == 0 {
		return errNoConnections
	}
	s.hosts = append(s.hosts, &host{id: fabric.HostID(h), link: s.cfg.Links[h], s: s})
	p := &port{s: s, host: s.hosts[h], uplink: &uplink{name: r.Ports[h].Interface}}
	s.ports = append(s.ports, p)
	if err := p.uplink.open(s.cfg.MaxFrame); err != nil {
		return err
	}
	if p.line, err = openLine(p.uplink.name, kernelSlots); err != nil {
		return err
	}
	s.net.Host(fabric.HostID(h)).Attach(p)
	return nil
}

// uplink is an interface of this machine used as a switch port during a run.
type uplink struct {
	name     string
	offloads *link.Offloads
	before   netlink.LinkStatistics
}

func (w *uplink) open(frame int) (err error) {
	l, err := netlink.LinkByName(w.name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", w.name, err)
	}
	if mtu := l.Attrs().MTU; mtu < frame-ethernetLen {
		return fmt.Errorf("interface %s has an MTU of %d, the test needs %d", w.name, mtu, frame-ethernetLen)
	}
	if w.offloads, err = link.DisableOffloads(w.name); err != nil {
		return err
	}
	if left := w.offloads.Remaining; len(left) > 0 {
		return fmt.Errorf("interface %s keeps offloads that change frames: %v", w.name, left)
	}
	return statistics(w.name, &w.before)
}

func (w *uplink) close() error {
	if w == nil || w.offloads == nil {
		return nil
	}
	return w.offloads.Restore()
}

// remoteLosses reports losses between a port and a host on another machine, from the counters of both.
func (p *port) remoteLosses(counts *HostCounts, lose func(string, ...any)) error {
	var now netlink.LinkStatistics
	if err := statistics(p.uplink.name, &now); err != nil {
		return err
	}
	h := p.host.id
	if n := now.TxDropped - p.uplink.before.TxDropped; n > 0 {
		lose("%d frames to host %d, by interface %s of the switch", n, h, p.uplink.name)
	}
	if counts.Sent > p.came {
		lose("%d of %d frames of host %d did not come out of its port's ring", counts.Sent-p.came, counts.Sent, h)
	}
	if counts.Received < p.sender.Sent() {
		lose("%d of %d frames to host %d did not reach its interface", p.sender.Sent()-counts.Received, p.sender.Sent(), h)
	}
	for _, text := range counts.Losses {
		lose("host %d: %s", h, text)
	}
	return nil
}

// address sets the Ethernet addresses of a frame to a host on another machine.
func (p *port) address(frame []byte, in *fabric.Packet) []byte {
	ports := p.s.cfg.Remote.Ports
	if len(frame) >= ethernetLen && int(in.Src) < len(ports) && int(in.Dst) < len(ports) {
		copy(frame, ports[in.Dst].MAC[:])
		copy(frame[len(ports[in.Dst].MAC):], ports[in.Src].MAC[:])
	}
	return frame
}

// closeRemote restores the interfaces.
func (s *Switch) closeRemote() error {
	var failed []error
	for _, p := range s.ports {
		failed = append(failed, p.uplink.close())
	}
	return errors.Join(failed...)
}
