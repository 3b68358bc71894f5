package datapathtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

// A Wire is the outside of a live switch: a veth pair for each port, with sockets at the far ends.
type Wire struct {
	Differences

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

// Listen opens the sockets. Start the switch first, so that frames of its set-up are not captured.
func (w *Wire) Listen(t testing.TB) {
	t.Helper()
	for i := range Ports {
		var err error
		if w.rings[i], err = link.OpenRing(link.RingConfig{Interface: Far(i), Promiscuous: true, Blocks: 64}); err != nil {
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

// Exchange sends frames one by one and returns what left each port, with mirror stamps cleared. It waits for as many
// frames as are wanted, and a moment for more.
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
	deadline := time.Now().Add(20 * time.Second) // a busy machine may keep frames for seconds
	for {
		patience := max(0, time.Until(deadline))
		if len(frames) >= n {
			patience = 2 * time.Millisecond
		}
		block, err := r.Wait(patience)
		if err != nil {
			t.Fatal(err)
		}
		if block == nil && len(frames) < n && time.Now().Before(deadline) {
			continue // a signal, as the runtime sends itself, ends a wait early
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

// Check runs the suite and the sequences. do runs a function that programs the datapath, under the necessary lock.
// After each step the counters must equal those of the pipeline.
func (w *Wire) Check(t *testing.T, do func(func(switchd.Datapath) error) error) {
	t.Helper()
	for _, c := range Cases() {
		w.checkSequence(t, do, Sequence{Name: c.Name, Steps: []Step{{Entries: c.Entries, In: c.In}}})
	}
	for _, s := range Sequences() {
		w.checkSequence(t, do, s)
	}
}

// CheckRandom runs n sequences of random entries and frames.
func (w *Wire) CheckRandom(t *testing.T, seed uint64, n int, do func(func(switchd.Datapath) error) error) {
	t.Helper()
	for i := range n {
		if w.checkSequence(t, do, Random(seed+uint64(i))); t.Failed() {
			return
		}
	}
}

// Agrees runs one case and returns how the datapath differs from the pipeline; nil if it does not.
func (w *Wire) Agrees(t *testing.T, do func(func(switchd.Datapath) error) error, c Case) error {
	t.Helper()
	s := Sequence{Name: c.Name, Steps: []Step{{Entries: c.Entries, In: c.In}}}
	ref, err := newReference(c)
	if err != nil {
		return err
	}
	err = do(func(d switchd.Datapath) error {
		d.Reset()
		return Program(d, c)
	})
	if err == nil {
		err = w.checkFrames(t, ref, c.In)
	}
	if err == nil {
		err = do(func(d switchd.Datapath) error { return s.compareCounters(ref, d, w.TxBytes) })
	}
	return err
}

func (w *Wire) checkSequence(t *testing.T, do func(func(switchd.Datapath) error) error, s Sequence) {
	t.Helper()
	ref, err := newReference(Case{})
	if err == nil {
		err = do(func(d switchd.Datapath) error {
			d.Reset()
			return Program(d, Case{})
		})
	}
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	for i, step := range s.Steps {
		if step.Reopens && w.Turns {
			return
		}
		if err := errors.Join(step.apply(ref), do(step.apply)); err != nil {
			t.Fatalf("%s: step %d: %v", s.Name, i, err)
		}
		err := w.checkFrames(t, ref, step.In)
		if err == nil {
			err = do(func(d switchd.Datapath) error { return s.compareCounters(ref, d, w.TxBytes) })
		}
		if err != nil {
			t.Errorf("%s: step %d: %v", s.Name, i, err)
			return
		}
	}
}

// checkFrames lets frames arrive, those of one port at a time: a switch may serve its ports in any order.
func (w *Wire) checkFrames(t *testing.T, ref *reference, in []Frame) error {
	t.Helper()
	for len(in) > 0 {
		n := slices.IndexFunc(in, func(f Frame) bool { return f.Port != in[0].Port })
		if n < 0 {
			n = len(in)
		}
		want, err := ref.process(in[:n])
		if err != nil {
			return err
		}
		got := w.Exchange(t, in[:n], want)
		if w.CopyPorts {
			clearPorts(want, got)
		}
		if err := Compare(want, got); err != nil {
			return err
		}
		in = in[n:]
	}
	return nil
}
