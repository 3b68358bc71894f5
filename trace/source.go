package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/encapsulation"
)

// A Source is a capture that can be opened any number of times. Every pass over a trace opens it, so that memory does
// not depend on its length.
type Source struct {
	Name string // for messages: a path
	Open func() (io.ReadCloser, error)

	more  []Source  // that continue it, in the order of time
	twins *twinRule // frames that are left out; nil: none
	ahead bool      // a goroutine reads ahead
}

// FileSource is the capture in the file at path. Only it uses the file system: the codecs take readers and writers, but
// a trace that is streamed several times must be opened by whoever streams it.
func FileSource(path string) Source {
	return Source{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// OpenFrames opens src and reads the start of it, pcap or pcapng. An error is a *FileError or what Open returned.
func (src Source) OpenFrames() (*FrameFile, error) {
	f := &FrameFile{more: src.more, ahead: src.ahead}
	if src.twins != nil {
		f.twins = newTwins(src.twins.windowNS, src.twins.hops)
	}
	if err := f.open(src); err != nil {
		return nil, err
	}
	return f, nil
}

// FrameFile is an open capture. Its frames start with an Ethernet header, whatever the link type of the file, and RoCE
// packets are without tunnels and tags. It is not safe for concurrent use.
type FrameFile struct {
	reader  frameReader
	pcap    *PcapReader // the reader, if it is one
	release func()      // is called before file is closed
	file    io.Closer
	more    []Source
	ahead   bool // a goroutine reads ahead

	unwrapper  encapsulation.Unwrapper
	stamps     stamps
	unwrapped  []unwrapped
	interfaces []Interface // of files that were read to their end
	numbers    uint64      // of frames in those
	lastNS     int64       // time of the latest frame in the file
	name       string
	twins      *twins // leaves out second sights of frames; nil: all are wanted
}

// unwrapped counts frames by what was removed from them.
type unwrapped struct {
	layers encapsulation.Layers
	frames int64
}

func (f *FrameFile) open(src Source) error {
	file, err := src.Open()
	if err != nil {
		return err
	}
	r, release, err := newFrameReader(file, src.Name)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.reader, f.release, f.file, f.name = r, release, file, src.Name
	f.pcap, _ = r.(*PcapReader)
	if b, ok := r.(interface{ readAhead() (stop func()) }); ok && f.ahead {
		stop := b.readAhead()
		f.release = func() {
			stop()
			release()
		}
	}
	return nil
}

// Next reads the next frame into fr. io.EOF ends the capture.
func (f *FrameFile) Next(fr *Frame) error {
	if f.twins == nil {
		return f.read(fr)
	}
	for {
		if err := f.read(fr); err != nil {
			return err
		}
		if _, _, second, _ := f.twins.twin(fr); !second {
			return nil
		}
	}
}

// read reads the next frame, whether it is wanted or not.
func (f *FrameFile) read(fr *Frame) error {
	var err error
	if f.pcap != nil {
		err = f.pcap.Next(fr)
	} else {
		err = f.reader.Next(fr)
	}
	if err != nil {
		return f.ended(fr, err)
	}
	fr.Number += f.numbers
	f.lastNS = fr.TimeNS
	if fr.Link != encapsulation.LinkEthernet || !encapsulation.Plain(fr.Data) {
		f.unwrap(fr)
	}
	return nil
}

// unwrap takes the RoCE packet out of the headers around it.
func (f *FrameFile) unwrap(fr *Frame) {
	out, ok := f.unwrapper.Unwrap(fr.Link, fr.Data)
	fr.Data = out.Data
	fr.OrigLen = max(fr.OrigLen-out.Cut+out.Added, len(out.Data))
	if !ok || out.Layers == 0 {
		return
	}
	if out.Stamp.Valid {
		fr.TimeNS = f.stamps.time(out.Stamp, fr.TimeNS)
	}
	for i := range f.unwrapped {
		if f.unwrapped[i].layers == out.Layers {
			f.unwrapped[i].frames++
			return
		}
	}
	const kinds = 64
	if len(f.unwrapped) < kinds {
		f.unwrapped = append(f.unwrapped, unwrapped{out.Layers, 1})
	}
}

// maxDisorderNS is how much earlier than the last frame of a file the first frame of the file that continues it may be.
const maxDisorderNS = 100_000

// ended closes a file that has been read, or continues with the next one.
func (f *FrameFile) ended(fr *Frame, err error) error {
	if !errors.Is(err, io.EOF) || len(f.more) == 0 {
		return err
	}
	f.collect()
	if err := f.Close(); err != nil {
		return err
	}
	f.numbers, f.file = fr.Number, nil
	last, previous := f.lastNS, f.name
	next := f.more[0]
	f.more = f.more[1:]
	if err := f.open(next); err != nil {
		return err
	}
	number := fr.Number
	if err := f.read(fr); err != nil {
		return err
	}
	if fr.Number == number+1 && f.lastNS < last-maxDisorderNS {
		return &FileError{Name: f.name, Packet: 1,
			Err: fmt.Errorf("the file starts %s before the end of %s: files of one capture follow each other; "+
				"captures of two places are compared with --after", clock.TextNS(last-f.lastNS), previous)}
	}
	return nil
}

// collect keeps what the file says about its interfaces.
func (f *FrameFile) collect() {
	if r, ok := f.reader.(*pcapngReader); ok {
		f.interfaces = append(f.interfaces, r.all...)
	}
}

// Interfaces returns what pcapng files say about their interfaces. Counts are complete when Next has returned io.EOF; a
// classic pcap file has none.
func (f *FrameFile) Interfaces() []Interface {
	all := f.interfaces
	if r, ok := f.reader.(*pcapngReader); ok {
		all = append(all[:len(all):len(all)], r.all...)
	}
	return all
}

// notes lists what was done to the frames so far, and what the capture missed.
func (f *FrameFile) notes() []string {
	var list []string
	for _, u := range f.unwrapped {
		if rest := u.layers &^ (encapsulation.Cooked | encapsulation.Raw | encapsulation.ERF); rest != 0 {
			list = append(list, fmt.Sprintf("%d RoCE packets were taken out of their headers: %v", u.frames, u.layers))
		}
	}
	list = append(list, f.stamps.notes()...)
	for _, i := range f.Interfaces() {
		if i.Dropped > 0 {
			name := i.File
			if i.Name != "" {
				name += ", interface " + i.Name
			}
			list = append(list, fmt.Sprintf("%s: the capture missed %d frames, by its own count", name, i.Dropped))
		}
	}
	return list
}

// Close closes the file.
func (f *FrameFile) Close() error {
	if f.file == nil {
		return nil
	}
	f.release()
	return f.file.Close()
}

// ForEachFrame calls fn for every frame of src in file order, until fn fails or ctx ends. The frame is valid during the
// call only. An error about the file is a *FileError or what Open returned, after fn has seen all frames before the
// damage.
func (src Source) ForEachFrame(ctx context.Context, fn func(*Frame) error) (err error) {
	return src.forEachFrame(ctx, passage{fn: fn})
}

// passage is what a pass over a capture does.
type passage struct {
	fn func(*Frame) error // sees every frame that skim does not take
	// skim gets each frame first, without a Frame made of it, from classic pcap files. It returns true if it handled the
	// frame; otherwise fn gets it. nil: fn gets all.
	skim func(data []byte, number uint64, offset int64) bool
	done func(*FrameFile) // called with the file after its last frame; may be nil
}

// forEachFrame is ForEachFrame for any passage.
func (src Source) forEachFrame(ctx context.Context, p passage) (err error) {
	file, err := src.OpenFrames()
	if err != nil {
		return err
	}
	defer func() { err = alsoClose(err, file) }()
	if p.done != nil {
		defer func() { p.done(file) }()
	}
	var f Frame
	for looked := -cancelEvery; ; {
		refused := p.skim == nil || file.skim(&f, p.skim)
		if n := int(f.Number); n-looked >= cancelEvery {
			if looked = n; ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if err := file.Next(&f); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if !refused && p.skim(f.Data, f.Number, f.Offset) {
			continue
		}
		if err := p.fn(&f); err != nil {
			return err
		}
	}
}

// skim calls take with the frames in the buffer of a classic pcap file of Ethernet, and reports whether it refused one.
// fr gets the number of the latest one handled.
func (f *FrameFile) skim(fr *Frame, take func(data []byte, number uint64, offset int64) bool) (refused bool) {
	r := f.pcap
	if r == nil || r.swapped || r.link != encapsulation.LinkEthernet || f.twins != nil {
		return false
	}
	before := r.packets
	if refused = r.skim(f.numbers, take); r.packets > before {
		fr.Number, f.lastNS = f.numbers+r.packets, r.lastNS
	}
	return refused
}

// Join returns the capture that several files hold one after the other, as tcpdump -C, -G and dumpcap -b write it. The
// files are ordered by their first frames; files that overlap in time are refused when they are read.
func Join(parts ...Source) (Source, error) {
	type started struct {
		src   Source
		first int64
	}
	var list, empty []started
	for _, p := range parts {
		var f Frame
		file, err := p.OpenFrames()
		if err != nil {
			return Source{}, err
		}
		err = file.Next(&f)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrTruncatedFile) {
			return Source{}, alsoClose(err, file)
		}
		s := started{p, file.lastNS}
		if cerr := file.Close(); cerr != nil {
			return Source{}, cerr
		}
		if err != nil {
			empty = append(empty, s)
		} else {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b started) int { return cmp.Compare(a.first, b.first) })
	list = append(list, empty...)
	if len(list) == 0 {
		return Source{}, errors.New("no capture file is given")
	}
	joined := list[0].src
	var names []string
	for _, s := range list {
		names = append(names, s.src.Name)
		joined.more = append(joined.more, s.src)
	}
	joined.more = joined.more[1:]
	joined.Name = strings.Join(names, ", ")
	return joined, nil
}

// alsoClose closes c and joins its error to err.
func alsoClose(err error, c io.Closer) error {
	if cerr := c.Close(); cerr != nil {
		return errors.Join(err, cerr)
	}
	return err
}

// errStop ends a pass early without being an error.
var errStop = errors.New("stop")
