//go:build linux

package xdp_test

import (
	"testing"

	"candela.dev/candela/injector/datapathtest"
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

func TestTheProgramDecidesAsThePipelineDoes(t *testing.T) {
	linktest.Namespace(t, func() {
		d, w := open(t, xdp.Config{Seed: datapathtest.Seed, CPU: 0})
		if err := d.Check(); err != nil {
			t.Error(err)
		}
		w.Check(t, func(c datapathtest.Case) error {
			d.Reset()
			return datapathtest.Program(d, c)
		})
		if err := d.Fault(); err != nil {
			t.Error(err)
		}
	})
}
