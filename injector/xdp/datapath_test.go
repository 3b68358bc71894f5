//go:build linux

package xdp_test

import (
	"strings"
	"testing"
	"time"

	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link/linktest"
)

// open makes an XDP switch in the current namespace, and what hangs on it.
func open(t testing.TB, cfg xdp.Config) (*xdp.Datapath, *datapathtest.Wire) {
	t.Helper()
	w := datapathtest.NewWire(t)
	for i := range datapathtest.Ports {
		release, err := xdp.Pass(datapathtest.Far(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = release.Close() })
	}
	cfg.Ports = datapathtest.NearPorts()
	d, err := xdp.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	w.Listen(t)
	return d, w
}

// randomSequences are a sample of a second or two.
const randomSequences = 20

func TestTheProgramDecidesAsThePipelineDoes(t *testing.T) {
	linktest.Namespace(t, func() {
		d, w := open(t, xdp.Config{Seed: datapathtest.Seed, CPU: 0})
		if err := d.Check(); err != nil {
			t.Error(err)
		}
		do := func(f func(switchd.Datapath) error) error { return f(d) }
		w.Check(t, do)
		w.CheckRandom(t, 1, randomSequences, do)
		if err := d.Fault(); err != nil {
			t.Error(err)
		}
	})
}

func TestAVethWhosePeerTakesNoRedirectedFramesIsRefused(t *testing.T) {
	linktest.Namespace(t, func() {
		datapathtest.NewWire(t)
		// The far ends have no program: redirected frames would be lost without any counter.
		d, err := xdp.Open(xdp.Config{Ports: datapathtest.NearPorts(), CPU: 0})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		err = d.Check()
		for i := range datapathtest.Ports {
			if err == nil || !strings.Contains(err.Error(), datapathtest.Near(i)) {
				t.Errorf("error %v does not name %s", err, datapathtest.Near(i))
			}
		}
	})
}

func TestAPortThatWasDownIsPutBackOnItsCPU(t *testing.T) {
	linktest.Namespace(t, func() {
		d, _ := open(t, xdp.Config{CPU: 0})
		linktest.SetDown(t, datapathtest.Near(datapathtest.HostA))
		// A thread that the kernel ends is seen for a moment longer.
		within := func(right func() bool) bool {
			for deadline := time.Now().Add(time.Minute); !right() && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			return right()
		}
		if !within(func() bool { return d.Check() != nil }) {
			t.Error("the port is down, and its receive processing is said to be in place")
		}
		linktest.SetUp(t, datapathtest.Near(datapathtest.HostA))
		if !within(func() bool {
			if _, err := d.Losses(); err != nil {
				t.Fatal(err)
			}
			return d.Check() == nil
		}) {
			t.Error(d.Check())
		}
	})
}

func TestFramesThatADriverCannotTakeAreCounted(t *testing.T) {
	linktest.Namespace(t, func() {
		d, w := open(t, xdp.Config{CPU: -1})
		linktest.SetDown(t, datapathtest.Far(datapathtest.HostB))
		c := datapathtest.Cases()[0]
		if err := datapathtest.Program(d, c); err != nil {
			t.Fatal(err)
		}
		w.Send(t, c.In)
		want := uint64(len(c.In))
		var losses []uint64
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			var err error
			if losses, err = d.Losses(); err != nil {
				t.Fatal(err)
			}
			if losses[datapathtest.HostB] == want {
				return
			}
		}
		t.Errorf("losses %v, want %d on port %d", losses, want, datapathtest.HostB)
	})
}
