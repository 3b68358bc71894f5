package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// frameReader yields the frames of a capture file in order.
type frameReader interface {
	// Next reads the next frame into f, whose Data is valid until the call after. io.EOF ends the file.
	Next(f *Frame) error
}

// newFrameReader reads the start of src and returns a reader for the format that it finds there, pcap or pcapng.
func newFrameReader(src io.Reader, name string) (frameReader, error) {
	var magic [4]byte
	n, err := io.ReadFull(src, magic[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &FileError{Name: name, Err: err}
	}
	whole := &prefixedReader{prefix: magic[:n], rest: src}
	if n == len(magic) && be32(magic[:]) == magicPcapng {
		return newPcapngReader(whole, name)
	}
	return NewPcapReader(whole, name)
}

// prefixedReader gives back bytes that were read to look at them. io.MultiReader would do, but hides nothing less: this one
// keeps large reads large.
type prefixedReader struct {
	prefix []byte
	rest   io.Reader
}

func (r *prefixedReader) Read(b []byte) (int, error) {
	if len(r.prefix) > 0 {
		n := copy(b, r.prefix)
		r.prefix = r.prefix[n:]
		return n, nil
	}
	return r.rest.Read(b)
}

// pcapngReader adapts gopacket's pcapng reader. It is several times slower than [PcapReader] and allocates; foreign captures
// are small enough for that, and run directories hold pcap.
type pcapngReader struct {
	r       *pcapgo.NgReader
	name    string
	packets uint64
}

func newPcapngReader(src io.Reader, name string) (r *pcapngReader, err error) {
	defer recoverPcapng(name, 0, &err)
	ng, err := pcapgo.NewNgReader(bufio.NewReaderSize(src, 64<<10), pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return nil, &FileError{Name: name, Err: fmt.Errorf("pcapng: %w", truncated(err))}
	}
	return &pcapngReader{r: ng, name: name}, nil
}

// Next implements frameReader.
func (r *pcapngReader) Next(f *Frame) (err error) {
	defer recoverPcapng(r.name, r.packets+1, &err)
	data, info, err := r.r.ZeroCopyReadPacketData()
	if err == io.EOF {
		return io.EOF
	}
	if err != nil {
		return &FileError{Name: r.name, Packet: r.packets + 1, Err: fmt.Errorf("pcapng: %w", truncated(err))}
	}
	r.packets++
	if link, ok := interfaceLink(r.r, info.InterfaceIndex); ok && link != layers.LinkTypeEthernet {
		return &FileError{Name: r.name, Packet: r.packets, Err: fmt.Errorf("interface %d has link type %v; only Ethernet carries RoCEv2 here",
			info.InterfaceIndex, link)}
	}
	*f = Frame{Number: r.packets, TimeNS: info.Timestamp.UnixNano(), Data: data, OrigLen: info.Length}
	return nil
}

func interfaceLink(r *pcapgo.NgReader, index int) (layers.LinkType, bool) {
	i, err := r.Interface(index)
	return i.LinkType, err == nil
}

// truncated makes an unexpected end answer to ErrTruncatedFile.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrTruncatedFile, err)
	}
	return err
}

// recoverPcapng turns a panic of the library, which trusts block lengths, into an error: captures are hostile input.
func recoverPcapng(name string, packet uint64, err *error) {
	if p := recover(); p != nil {
		*err = &FileError{Name: name, Packet: packet, Err: fmt.Errorf("pcapng: damaged block (%v)", p)}
	}
}
