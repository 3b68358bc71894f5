package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// port is one attached interface.
type port struct {
	name    string
	ifindex int
	mtu     int
	program *ebpf.Collection // the injector with this port's number, on the shared maps
	link    link.Link
	napi    *napi // nil: left alone
}

// A Datapath is the injector on a set of interfaces. It implements switchd.Datapath: the server calls it under its
// lock, while packets pass. An entry takes effect as a whole; the entries of a batch take effect one after the other.
type Datapath struct {
	cfg    Config
	shared *ebpf.Collection // maps, egress programs and the one that watches their redirects
	watch  link.Link        // of that one
	home   *namespace
	ports  []port
	mode   Mode

	gates       uint64               // openings so far
	indices     map[uint64]uint32    // of event keys in map hits
	freed       []uint32             // indices for reuse
	filters     map[uint32]bpfFilter // as written
	cells       map[uint32]uint64    // of destination addresses: whose each is
	connections connections
	inData      map[dataEntry]bool  // entries that can name a data packet
	controls    map[uint64]struct{} // entries that name control packets
	watches     map[uint64]struct{}
	group       []uint16
	sessions    map[uint32]uint16    // → mirror port
	pairs       map[uint32]*ebpf.Map // by egress and mirror port; made when first needed and kept, because that takes long
	faults      []error              // of operations that return none
}

// dataEntry names an entry of a table that serves data packets.
type dataEntry struct {
	table uint32
	key   uint64
}

// Open loads the program, attaches it to every port and moves their receive processing to one CPU. It needs CAP_BPF and
// CAP_NET_ADMIN. The caller closes the Datapath, which detaches everything; the kernel does so if the process dies.
func Open(cfg Config) (_ *Datapath, err error) {
	if len(cfg.Ports) == 0 || len(cfg.Ports) > MaxPorts {
		return nil, fmt.Errorf("xdp: %d ports, allowed are 1…%d", len(cfg.Ports), MaxPorts)
	}
	d := &Datapath{cfg: cfg, mode: cfg.Mode}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("xdp: %w", err), d.Close())
		}
	}()
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the memory limit: %w", err)
	}
	for i, name := range cfg.Ports {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("port %d: interface %q: %w", i, name, err)
		}
		if device.MTU > MaxMTU {
			return nil, fmt.Errorf("port %d: interface %q has an MTU of %d, allowed is up to %d; set a smaller one, "+
				"or use the afpacket datapath", i, name, device.MTU, MaxMTU)
		}
		d.ports = append(d.ports, port{name: name, ifindex: device.Index, mtu: device.MTU})
	}
	if err := d.load(); err != nil {
		return nil, err
	}
	d.Reset()
	for i := range d.ports {
		if err := d.attach(i); err != nil {
			return nil, err
		}
	}
	return d, errors.Join(d.faults...)
}

// load loads maps and egress programs.
func (d *Datapath) load() error {
	spec, err := loadBpf()
	if err != nil {
		return err
	}
	delete(spec.Programs, bpfProgInjector)
	if d.home, err = here(); err != nil {
		return err
	}
	if err := spec.Variables[bpfVarNamespace].Set(d.home.inode); err != nil {
		return err
	}
	if d.shared, err = ebpf.NewCollection(spec); err != nil {
		return verifier(err)
	}
	d.pairs = map[uint32]*ebpf.Map{}
	for i := range uint32(len(d.ports)) {
		err = errors.Join(err, d.device(d.table(bpfMapPorts), i, uint16(i), bpfProgForward),
			d.device(d.table(bpfMapMirrors), i, uint16(i), bpfProgCopy))
	}
	err = errors.Join(err, d.shared.Variables[bpfVarSeed].Set(d.cfg.Seed))
	for i, p := range d.ports {
		err = errors.Join(err, d.table(bpfMapPortOf).Put(uint32(p.ifindex), uint32(i)))
	}
	if err != nil {
		return err
	}
	d.watch, err = link.AttachTracing(link.TracingOptions{Program: d.shared.Programs[bpfProgUndelivered]})
	if err != nil {
		return fmt.Errorf("watch redirects: %w", err)
	}
	return nil
}

// attach attaches a program to port i that has the port's number and shares all maps.
func (d *Datapath) attach(i int) error {
	p := &d.ports[i]
	spec, err := loadBpf()
	if err != nil {
		return err
	}
	for _, name := range []string{bpfProgForward, bpfProgCopy, bpfProgPass, bpfProgUndelivered} {
		delete(spec.Programs, name)
	}
	err = errors.Join(spec.Variables[bpfVarThisPort].Set(uint16(i)),
		spec.Variables[bpfVarManyQueues].Set(d.cfg.MultiQueue),
		spec.Variables[bpfVarOpcodes].Set(opcodeTable()))
	if err != nil {
		return err
	}
	replace := map[string]*ebpf.Map{}
	for name, m := range d.shared.Maps {
		if name != ".rodata" {
			replace[name] = m
		}
	}
	p.program, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replace})
	if err != nil {
		return verifier(err)
	}
	if err := d.attachLink(p); err != nil {
		return err
	}
	if d.cfg.CPU < 0 {
		return nil
	}
	p.napi, err = pin(p.name, d.cfg.CPU)
	return err
}

// attachLink tries the driver's hook first, if both are allowed. Ports on different hooks would differ in latency, so
// the first that needs the generic one decides for the following ones.
func (d *Datapath) attachLink(p *port) error {
	attach := func(flags link.XDPAttachFlags) error {
		l, err := link.AttachXDP(link.XDPOptions{Program: p.program.Programs[bpfProgInjector], Interface: p.ifindex,
			Flags: flags})
		if err == nil {
			p.link = l
		}
		return err
	}
	var native error
	if d.mode != ModeGeneric {
		if native = attach(link.XDPDriverMode); native == nil {
			return nil
		}
		if d.mode == ModeDriver {
			return fmt.Errorf("attach to the driver of %q (MTU %d; a veth's peer must not have a larger one than %d): %w",
				p.name, p.mtu, MaxMTU, native)
		}
	}
	if err := attach(link.XDPGenericMode); err != nil {
		return fmt.Errorf("attach to %q: %w", p.name, errors.Join(native, err))
	}
	d.mode = ModeGeneric
	return nil
}

// verifier wraps the kernel's refusal of a program; %+v of the cause is its whole log.
func verifier(err error) error { return fmt.Errorf("load the program: %w", err) }

// Mode says which hook the ports use; any means the driver's.
func (d *Datapath) Mode() Mode {
	if d.mode == ModeAny {
		return ModeDriver
	}
	return d.mode
}

// Close detaches the program from every port and frees everything.
func (d *Datapath) Close() error {
	var failed []error
	for i := range d.ports {
		p := &d.ports[i]
		if p.napi != nil {
			failed = append(failed, p.napi.restore())
		}
		if p.link != nil {
			failed = append(failed, p.link.Close())
		}
		if p.program != nil {
			p.program.Close()
		}
	}
	if d.watch != nil {
		failed = append(failed, d.watch.Close())
	}
	if d.home != nil {
		failed = append(failed, d.home.close())
	}
	for _, m := range d.pairs {
		failed = append(failed, m.Close())
	}
	if d.shared != nil {
		d.shared.Close()
	}
	d.ports, d.pairs, d.shared, d.watch, d.home = nil, nil, nil, nil, nil
	return errors.Join(failed...)
}

// Diagnostics reads the counters that the contract lacks.
func (d *Datapath) Diagnostics() (Diagnostics, error) {
	var cpus []bpfDiagnostics
	if err := d.table(bpfMapDiagnostic).Lookup(uint32(0), &cpus); err != nil {
		return Diagnostics{}, fmt.Errorf("xdp: read diagnostics: %w", err)
	}
	var sum Diagnostics
	for _, c := range cpus {
		sum.Runts += c.Runts
		sum.Unmirrored += c.Unmirrored
	}
	return sum, nil
}

// Losses returns, by port, how many frames a redirect could not hand to the port's driver since the Datapath was
// opened. It also moves a port that was down back to its CPU.
func (d *Datapath) Losses() ([]uint64, error) {
	for i := range d.ports {
		if n := d.ports[i].napi; n != nil {
			if err := n.rebind(d.cfg.CPU); err != nil {
				return nil, fmt.Errorf("xdp: %w", err)
			}
		}
	}
	list := make([]uint64, len(d.ports))
	for i := range list {
		var cpus []uint64
		if err := d.table(bpfMapLosses).Lookup(uint32(i), &cpus); err != nil {
			return nil, fmt.Errorf("xdp: read losses: %w", err)
		}
		for _, n := range cpus {
			list[i] += n
		}
	}
	return list, nil
}

// Fault returns what went wrong in operations that return no error, and forgets it.
func (d *Datapath) Fault() error {
	err := errors.Join(d.faults...)
	d.faults = nil
	return err
}

func (d *Datapath) note(what string, err error) {
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		d.faults = append(d.faults, fmt.Errorf("xdp: %s: %w", what, err))
	}
}

func (d *Datapath) table(name string) *ebpf.Map { return d.shared.Maps[name] }

func (d *Datapath) set(variable string, value any) {
	d.note("set "+variable, d.shared.Variables[variable].Set(value))
}

// opcodeTable gives the program the properties of opcodes in package packet.
func opcodeTable() (table [256]bpfOpcode) {
	for i := range table {
		o := packet.Opcode(i)
		table[i] = bpfOpcode{
			Class:        uint8(packet.Classify(o, 0)),
			Acknowledges: flag(o == packet.Acknowledge),
			Response:     uint8(o.Space()),
			Starts:       flag(o.Starts()),
			Extended:     uint8(o.Headers().ExtendedLen()),
		}
	}
	return table
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// v4Key and v6Key are connection keys with addresses in network order, as packets have them.

func v4Key(k p4.Key) bpfV4Key {
	return bpfV4Key{Src: network32(k[0].Lo), Dst: network32(k[1].Lo), Qpn: uint32(k[2].Lo)}
}

func v6Key(k p4.Key) bpfV6Key {
	return bpfV6Key{Src: network128(k[0]), Dst: network128(k[1]), Qpn: uint32(k[2].Lo)}
}

func network32(v uint64) uint32 {
	return binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, uint32(v)))
}

func network128(v p4.Value) [4]uint32 {
	return [4]uint32{network32(v.Hi >> 32), network32(v.Hi), network32(v.Lo >> 32), network32(v.Lo)}
}

// Pass attaches a program that passes everything to an interface, so that a veth takes redirected frames from its peer.
// The caller closes it.
func Pass(name string) (link.Link, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("xdp: let frames pass to %q: %w", name, err)
	}
	spec, err := loadBpf()
	if err != nil {
		return nil, fmt.Errorf("xdp: %w", err)
	}
	// The program uses no map.
	program, err := ebpf.NewProgram(spec.Programs[bpfProgPass])
	if err != nil {
		return nil, fmt.Errorf("xdp: %w", verifier(err))
	}
	defer program.Close()
	l, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: device.Index, Flags: link.XDPDriverMode})
	if err != nil {
		return nil, fmt.Errorf("xdp: let frames pass to %q: %w", name, err)
	}
	return l, nil
}

// Program returns the program on a port, for measurements.
func (d *Datapath) Program(port int) *ebpf.Program {
	return d.ports[port].program.Programs[bpfProgInjector]
}
