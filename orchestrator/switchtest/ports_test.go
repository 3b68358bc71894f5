package switchtest

import (
	"strings"
	"testing"

	"candela.dev/candela/testbeds/virtual/fabric"
)

func leafSpineNetwork(t testing.TB) *fabric.Network {
	t.Helper()
	spec := fabric.Spec{Topology: fabric.TopologySpec{
		Kind: fabric.LeafSpine, Hosts: 4, Leaves: 2, Spines: 2, Link: fabric.LinkSpec{Rate: 100e9},
		Uplink: fabric.LinkSpec{Rate: 100e9},
	}}
	n, err := fabric.New(&spec, func(*fabric.Switch) fabric.Mechanism { return fabric.TailDrop{} })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPortsTellTheHostsAtTheEdgeOfTheNetwork(t *testing.T) {
	const text = portsHead + "1,leaf-1,0\n2,leaf-1,2\n3,spine-0,1\n4,leaf-0,1\n"
	e, err := newEdges(leafSpineNetwork(t), strings.NewReader(text), "list")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		host fabric.HostID
		edge bool
	}{{2, true}, {0, false}, {0, false}, {1, true}} {
		if host, edge, err := e.next(); err != nil || edge != want.edge || host != want.host {
			t.Errorf("frame %d: host %d, %v, %v; want %v", i+1, host, edge, err, want)
		}
	}
	if _, _, err := e.next(); err == nil || !strings.Contains(err.Error(), "ends after 4 frames") {
		t.Errorf("behind the end: %v", err)
	}
}

// FuzzPorts reads arbitrary port lists: next returns a host or an error, and no more frames than lines.
func FuzzPorts(f *testing.F) {
	for _, s := range []string{
		portsHead, portsHead + "1,leaf-1,0\n2,leaf-1,2\n", portsHead + "1,leaf-9,0\n", portsHead + "2,leaf-0,0\n",
		portsHead + "1,leaf-0,-1\n", "frame,port\n",
		portsHead + "1,leaf-0\n", portsHead + strings.Repeat("9", 1000),
	} {
		f.Add([]byte(s))
	}
	n := leafSpineNetwork(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := newEdges(n, strings.NewReader(string(data)), "list")
		if err != nil {
			return
		}
		for frames := 0; ; frames++ {
			host, edge, err := e.next()
			if err != nil {
				return
			}
			if edge && int(host) >= n.Hosts() || frames > len(data) {
				t.Fatalf("frame %d at host %d of %d", frames+1, host, n.Hosts())
			}
		}
	})
}
