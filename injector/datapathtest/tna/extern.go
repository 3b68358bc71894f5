package tna

import (
	"encoding/binary"
	"strconv"

	"candela.dev/candela/injector/p4"
)

// invoke calls a method of a header, a packet, a table or an extern object.
func (p *pass) invoke(e *expr) value {
	on := e.args[0].text
	switch e.text {
	case "isValid":
		return p.get(e.at, on+".$valid")
	case "setValid":
		p.set(e.at, on+".$valid", value{lo: 1})
		return value{}
	case "apply":
		if in := p.u.instances[on]; in != nil && in.unit != nil {
			p.within(e, in.unit)
			return value{}
		}
		p.apply(e)
		return value{}
	case "extract":
		p.extract(e.at, e.args[1].text)
		return value{}
	case "advance":
		p.bit += int(p.eval(e.args[1]).lo)
		return value{}
	}
	if on == "pkt" && e.text == "emit" {
		p.emit(e.at, e.args[1].text)
		return value{}
	}
	in := p.u.instances[on]
	if in == nil {
		p.fault(e.at, "there is no %s", on)
	}
	switch in.typ + "." + e.text {
	case "RegisterAction.execute":
		return p.execute(e, in)
	case "register.read":
		p.set(e.at, e.args[1].text, p.softwareCell(e, in, p.eval(e.args[2])))
	case "register.write":
		v := p.eval(e.args[2])
		p.softwareCell(e, in, p.eval(e.args[1]))
		p.s.registers[in.name][p.eval(e.args[1]).lo][""] = value{v.hi, v.lo, width(in)}.cut()
	case "counter.count":
		c := p.s.counters[in.control]
		i := p.eval(e.args[1]).lo
		c[i] = [2]uint64{c[i][0] + 1, c[i][1] + uint64(len(p.frame))}
	case "Counter.count":
		c := p.s.counters[in.control]
		i := p.eval(e.args[1]).lo
		if want, _ := strconv.Atoi(in.types[1]); want != 0 && p.eval(e.args[1]).width != want {
			p.fault(e.at, "counter %s has an index of %d bits", in.name, want)
		}
		c[i] = [2]uint64{c[i][0] + 1, c[i][1] + uint64(len(p.frame))}
	case "DirectCounter.count":
		if p.own == nil || p.own.counter != in.name {
			p.fault(e.at, "%s is not the counter of the table", in.name)
		}
		p.once(e.at, "counter "+in.name)
		t := p.s.Info.TableNamed(p.own.control)
		p.s.hits[place{t.ID, p.key}]++
	case "Hash.get":
		v := p.eval(e.args[1])
		if in.args[0].text == "HashAlgorithm_t.CRC16" {
			v = value{0, uint64(crc16(v)), 16}
		}
		if want, _ := strconv.Atoi(in.types[0]); want != v.width {
			p.fault(e.at, "hash %s gives %d bits, not %d", in.name, want, v.width)
		}
		return v
	case "Checksum.update":
		return p.sum(e.args[1])
	case "Mirror.emit":
		p.copyOf(e)
	default:
		p.fault(e.at, "%s of %s is not known", e.text, in.typ)
	}
	return value{}
}

// crc16 is CRC-16/ARC.
func crc16(v value) (crc uint16) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], v.hi)
	binary.BigEndian.PutUint64(b[8:], v.lo)
	for _, x := range b[16-v.width/8:] {
		crc ^= uint16(x)
		for range 8 {
			if crc&1 == 1 {
				crc = crc>>1 ^ 0xa001
			} else {
				crc >>= 1
			}
		}
	}
	return crc
}

// sum is the Internet checksum of a list.
func (p *pass) sum(list *expr) value {
	var b []byte
	var bits bitWriter
	for _, a := range list.args {
		bits.add(p.eval(a))
	}
	b = bits.bytes
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return value{0, uint64(^uint16(sum)), 16}
}

// execute runs a register action on a cell.
func (p *pass) execute(e *expr, in *instance) value {
	reg := p.u.instances[in.args[0].text]
	p.once(e.at, "register "+reg.name)
	index := p.eval(e.args[1])
	if want, _ := strconv.Atoi(in.types[1]); index.width != 0 && index.width != want {
		p.fault(e.at, "register %s has an index of %d bits", reg.name, want)
	}
	if index.lo >= reg.args[0].num.lo {
		p.fault(e.at, "register %s has no cell %d", reg.name, index.lo)
	}
	cells := p.s.registers[reg.name]
	if cells == nil {
		cells = map[uint64]map[string]value{}
		p.s.registers[reg.name] = cells
	}
	stored := cells[index.lo]
	if stored == nil {
		stored = map[string]value{}
		first := value{}
		if len(reg.args) > 1 {
			first = reg.args[1].num
		}
		if w, err := strconv.Atoi(reg.types[0]); err == nil {
			first.width = w
			stored[""] = first.cut()
		} else {
			for _, f := range p.s.program.structs[reg.types[0]] {
				stored["."+f.name] = value{0, 0, f.width}
			}
		}
		cells[index.lo] = stored
	}
	outer := p.locals
	p.locals = map[string]value{}
	for name, v := range stored {
		p.locals[in.params[0]+name] = v
	}
	out := value{}
	if len(in.params) > 1 {
		out.width, _ = strconv.Atoi(in.types[2])
		p.locals[in.params[1]] = out
	}
	p.run(in.apply)
	for name := range stored {
		stored[name] = p.locals[in.params[0]+name]
	}
	if len(in.params) > 1 {
		out = p.locals[in.params[1]]
	}
	p.locals = outer
	return out
}

// bitWriter collects bits, the first of a byte on top.
type bitWriter struct {
	bytes []byte
	n     int
}

func (w *bitWriter) add(v value) {
	for i := v.width - 1; i >= 0; i-- {
		if w.n%8 == 0 {
			w.bytes = append(w.bytes, 0)
		}
		if v.slice(i, i).lo == 1 {
			w.bytes[w.n/8] |= 0x80 >> (w.n % 8)
		}
		w.n++
	}
}

// peek returns bits behind the parser's place.
func (p *pass) peek(from, width int) (v value, ok bool) {
	v.width = width
	for i := range width {
		at := p.bit + from + i
		if at/8 >= len(p.frame) {
			return v, false
		}
		v = value{v.hi<<1 | v.lo>>63, v.lo<<1 | uint64(p.frame[at/8]>>(7-at%8)&1), width}
	}
	return v, true
}

// tooShort ends a parser at a frame that ends within a header.
type tooShort struct{}

// extract takes a header from the packet; intrinsic metadata come from elsewhere.
func (p *pass) extract(at, header string) {
	f := p.typeOf(at, header)
	if !p.s.program.headers[f.typ] {
		return
	}
	taken := 0
	values := map[string]value{}
	for _, g := range p.s.program.structs[f.typ] {
		v, ok := p.peek(taken, g.width)
		if !ok {
			panic(tooShort{})
		}
		values[header+"."+g.name] = v
		taken += g.width
	}
	for name, v := range values {
		p.vars[name] = v
	}
	p.bit += taken
	p.set(at, header+".$valid", value{lo: 1})
}

// emit puts the valid headers of a struct out.
func (p *pass) emit(at, path string) {
	var w bitWriter
	header := func(path, typ string) {
		if !p.valid(at, path) {
			return
		}
		for _, g := range p.s.program.structs[typ] {
			w.add(p.get(at, path+"."+g.name))
		}
	}
	typ := p.typeOf(at, path).typ
	if p.s.program.headers[typ] {
		header(path, typ)
	} else {
		for _, f := range p.s.program.structs[typ] {
			header(path+"."+f.name, f.typ)
		}
	}
	if w.n%8 != 0 {
		p.fault(at, "headers of %d bits", w.n)
	}
	p.out = append(p.out, w.bytes...)
}

// copyOf makes a mirror copy: a header, and the packet as it arrived.
func (p *pass) copyOf(e *expr) {
	p.session = p.eval(e.args[2]).lo
	fields := p.s.program.structs[e.args[1].text]
	if len(fields) != len(e.args[3].args) {
		p.fault(e.at, "%s has %d fields", e.args[1].text, len(fields))
	}
	var w bitWriter
	for i, a := range e.args[3].args {
		v := p.eval(a)
		if v.width != fields[i].width {
			p.fault(e.at, "field %s has %d bits, not %d", fields[i].name, fields[i].width, v.width)
		}
		w.add(v)
	}
	p.mirror = w.bytes
}

// place names an entry.
type place struct {
	table uint32
	key   p4.Key
}
