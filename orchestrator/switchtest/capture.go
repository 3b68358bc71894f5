package switchtest

import (
	"errors"
	"fmt"
	"io"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// captures are the pcap files of a run: what came to the switches under test, and what left them, each frame as it was there.
type captures struct {
	files []io.WriteCloser
	taps  []*fabric.Capture
	seen  []uint64 // packets that each tap should have written
}

// CaptureNames lists the captures that a run may leave, below its directory.
func CaptureNames() []string { return []string{"taps/before.pcap", "taps/behind.pcap"} }

// newCaptures makes taps/before.pcap and taps/behind.pcap.
func newCaptures(dir *orchestrator.RunDir, net *fabric.Network) (*captures, error) {
	if err := dir.Mkdir("taps"); err != nil {
		return nil, err
	}
	c := &captures{seen: make([]uint64, 2)}
	for i, stage := range []fabric.Stage{fabric.Ingress, fabric.Egress} {
		name := CaptureNames()[i]
		file, err := dir.Create(name)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		at := func(p fabric.Point, _ *fabric.Packet) bool {
			return !p.Host && p.Stage == stage && p.Port < net.Switch(p.Node).Ports()
		}
		capture := fabric.NewCapture(file, name, func(p fabric.Point, q *fabric.Packet) bool {
			if at(p, q) {
				c.seen[i]++
				return true
			}
			return false
		})
		c.files, c.taps = append(c.files, file), append(c.taps, capture)
		net.SetTap(capture.See)
	}
	return c, nil
}

func (c *captures) close() error {
	var err error
	for i := range c.files {
		err = errors.Join(err, c.taps[i].Close(), c.files[i].Close())
	}
	return err
}

// incomplete says what a capture lacks.
func (c *captures) incomplete() string {
	for i, t := range c.taps {
		if t.Packets() != c.seen[i] {
			return fmt.Sprintf("%s has %d of %d packets", CaptureNames()[i], t.Packets(), c.seen[i])
		}
	}
	return ""
}
