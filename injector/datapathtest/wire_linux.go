package datapathtest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

// A Wire is the outside of a live switch: a veth pair for each port, with sockets at the far ends.
type Wire struct {
	rings   [Ports]*link.Ring
	senders [Ports]*link.Sender
}

// wireMTU is what every live datapath can carry.
const wireMTU = 2048

// NewWire makes the veth pairs of a switch in the current namespace: Near(i) is the switch's end of port i.
func NewWire(t testing.TB) *Wire {
	t.Helper()
	w := new(Wire)
	for i := range Ports {
		linktest.Veth(t, Near(i), Far(i))
		linktest.SetMTU(t, Near(i), wireMTU)
		linktest.SetMTU(t, Far(i), wireMTU)
	}
	return w
}

// Near is the interface of port i at the switch.
func Near(i int) string { return fmt.Sprintf("s%d", i) }

// Far is the interface behind port i.
func Far(i int) string { return fmt.Sprintf("h%d", i) }

// NearPorts lists the interfaces of all ports.
func NearPorts() (names []string) {
	for i := range Ports {
		names = append(names, Near(i))
	}
	return names
}

// Listen opens the sockets; the switch should run already, so that its set-up is not heard.
func (w *Wire) Listen(t testing.TB) {
	t.Helper()
	for i := range Ports {
		var err error
		if w.rings[i], err = link.OpenRing(link.RingConfig{Interface: Far(i), Promiscuous: true, Blocks: 4}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.rings[i].Close() })
		if w.senders[i], err = link.OpenSender(Far(i)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.senders[i].Close() })
	}
}

// Send sends frames one after the other.
func (w *Wire) Send(t testing.TB, in []Frame) {
	t.Helper()
	for _, f := range in {
		if err := w.senders[f.Port].Queue(f.Data); err != nil {
			t.Fatal(err)
		}
		if err := w.senders[f.Port].Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// Exchange sends frames one after the other and returns what left each port, the stamps of mirror copies cleared. It waits
// for as many frames as are wanted, and a moment for more.
func (w *Wire) Exchange(t testing.TB, in []Frame, want [Ports][][]byte) (out [Ports][][]byte) {
	t.Helper()
	w.Send(t, in)
	for port := range w.rings {
		out[port] = receive(t, w.rings[port], len(want[port]))
	}
	for _, mirror := range []int{DumperA, DumperB} {
		for _, f := range out[mirror] {
			ClearStamp(f)
		}
	}
	return out
}

func receive(t testing.TB, r *link.Ring, n int) (frames [][]byte) {
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

// Check runs the suite: program resets the datapath and programs it for a case.
func (w *Wire) Check(t *testing.T, program func(Case) error) {
	t.Helper()
	for _, c := range Cases() {
		want, err := Expected(c)
		if err == nil {
			err = program(c)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if err := Compare(want, w.Exchange(t, c.In, want)); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
