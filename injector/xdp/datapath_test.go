//go:build linux

package xdp_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

// box is an XDP switch between veth pairs, with a ring at the far end of each.
type box struct {
	datapath *xdp.Datapath
	rings    [datapathtest.Ports]*link.Ring
	senders  [datapathtest.Ports]*link.Sender
}

// open makes a box in the current namespace.
func open(t testing.TB, cfg xdp.Config) *box {
	t.Helper()
	b := &box{}
	for i := range datapathtest.Ports {
		near, far := fmt.Sprintf("s%d", i), fmt.Sprintf("h%d", i)
		linktest.Veth(t, near, far)
		linktest.SetMTU(t, near, 2048)
		linktest.SetMTU(t, far, 2048)
		cfg.Ports = append(cfg.Ports, near)
		release, err := xdp.Pass(far)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = release.Close() })
	}
	var err error
	if b.datapath, err = xdp.Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.datapath.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range datapathtest.Ports {
		if b.rings[i], err = link.OpenRing(link.RingConfig{Interface: fmt.Sprintf("h%d", i), Promiscuous: true, Blocks: 4}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.rings[i].Close() })
		if b.senders[i], err = link.OpenSender(fmt.Sprintf("h%d", i)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.senders[i].Close() })
	}
	return b
}

// exchange sends frames one after the other and returns what left each port.
func (b *box) exchange(t testing.TB, in []datapathtest.Frame, want [datapathtest.Ports][][]byte) (out [datapathtest.Ports][][]byte) {
	t.Helper()
	for _, f := range in {
		if err := b.senders[f.Port].Queue(f.Data); err != nil {
			t.Fatal(err)
		}
		if err := b.senders[f.Port].Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for port := range b.rings {
		out[port] = read(t, b.rings[port], len(want[port]))
	}
	return out
}

// read reads n frames, and more if they come within a moment.
func read(t testing.TB, r *link.Ring, n int) (frames [][]byte) {
	t.Helper()
	for {
		patience := time.Second
		if len(frames) >= n {
			patience = 2 * time.Millisecond
		}
		block, err := r.Wait(patience)
		if err != nil {
			t.Fatal(err)
		}
		if block == nil {
			return frames
		}
		for f := range block.Frames() {
			frames = append(frames, bytes.Clone(f.Data))
		}
		block.Release()
	}
}

func TestTheProgramDecidesAsThePipelineDoes(t *testing.T) {
	linktest.Namespace(t, func() {
		b := open(t, xdp.Config{Seed: datapathtest.Seed, CPU: 0})
		if err := b.datapath.Check(); err != nil {
			t.Error(err)
		}
		for _, c := range datapathtest.Cases() {
			want, err := datapathtest.Expected(c)
			if err != nil {
				t.Fatal(c.Name, err)
			}
			b.datapath.Reset()
			if err := datapathtest.Program(b.datapath, c); err != nil {
				t.Fatal(c.Name, err)
			}
			got := b.exchange(t, c.In, want)
			for _, mirror := range []int{datapathtest.DumperA, datapathtest.DumperB} {
				for _, f := range got[mirror] {
					datapathtest.ClearStamp(f)
				}
			}
			if err := datapathtest.Compare(want, got); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			if err := b.datapath.Fault(); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	})
}
