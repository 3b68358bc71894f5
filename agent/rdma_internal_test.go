//go:build linux

package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/vishvananda/netlink"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds"
)

// fakeVariable makes this binary the program for RDMA devices: no machine of the tests has such a device. Its value
// says how the program behaves. The guests of make test-lab-guests run the real one.
const (
	fakeVariable = "CANDELA_FAKE_VERBS"
	fakeLog      = "CANDELA_FAKE_VERBS_LOG"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(fakeVariable); how != "" && len(os.Args) == 2 && os.Args[1] == "serve" {
		fakeVerbs(how)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeVerbs speaks the protocol and has no device.
func fakeVerbs(how string) {
	log, err := os.Create(os.Getenv(fakeLog))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	vendor, schema, attributes := uint32(0xffffff), verbs.Schema, verbs.Attributes()
	switch how {
	case "hardware":
		vendor = 0x15b3
	case "old":
		schema = "candela.verbs/v1"
	case "older attributes":
		attributes = []string{verbs.AttributeFlowLabel, verbs.AttributeMaxRDAtomic}
	}
	polls := 0
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		fmt.Fprintln(log, in.Text())
		var q verbs.Request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			os.Exit(1)
		}
		var result any = struct{}{}
		switch q.Op {
		case verbs.OpHello:
			result = verbs.Hello{Schema: schema}
		case verbs.OpOpen:
			if how == "dies" {
				fmt.Fprintln(os.Stderr, "the device caught fire")
				os.Exit(3)
			}
			result = verbs.OpenResponse{Attributes: attributes, Ends: []verbs.End{{IP: netip.MustParseAddr("10.0.0.2"), QPN: 17, IPSN: 5}},
				Device: verbs.Device{Name: "rxe0", VendorID: vendor, MaxReads: 16, Lacks: verbs.Lacking(vendor)}}
		case verbs.OpStatus:
			polls++
			result = verbs.StatusResponse{Done: how != "never" && polls > 2, Completed: min(polls, 3)}
		case verbs.OpCounters:
			result = verbs.CountersResponse{Counters: []verbs.Counter{{Name: "sent_pkts", Value: 9}}}
		case verbs.OpReport:
			result = verbs.ReportResponse{Report: generator.Report{Schema: generator.ReportSchema},
				Data: []verbs.Data{{Checked: 3}}}
		}
		text, err := json.Marshal(result)
		if err != nil {
			os.Exit(1)
		}
		line, err := json.Marshal(verbs.Response{ID: q.ID, Result: text})
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(string(line))
	}
}

// fakeDevice is rxe0 of interface b, with the GIDs of two addresses.
func fakeDevice() fstest.MapFS {
	const port = verbs.DeviceRoot + "/rxe0/ports/1/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	return fstest.MapFS{
		port + "link_layer":         file("Ethernet"),
		port + "state":              file("4: ACTIVE"),
		port + "gids/0":             file("fe80:0000:0000:0000:00ca:deff:fe1a:0001"),
		port + "gid_attrs/types/0":  file("RoCE v2"),
		port + "gid_attrs/ndevs/0":  file("b"),
		port + "gids/1":             file("0000:0000:0000:0000:0000:ffff:0a00:0002"),
		port + "gid_attrs/types/1":  file("IB/RoCE v1"),
		port + "gid_attrs/ndevs/1":  file("b"),
		port + "gids/3":             file("0000:0000:0000:0000:0000:ffff:0a00:0002"),
		port + "gid_attrs/types/3":  file("RoCE v2"),
		port + "gid_attrs/ndevs/3":  file("b"),
		port + "hw_counters/sent":   file("7"),
		port + "hw_counters/broken": file("N/A"),
	}
}

func deviceHost() *Host {
	traffic := generator.Traffic{Verbs: []generator.Verb{generator.Write}, Messages: 3, MessageSize: 1024, MTU: 1024,
		TxDepth: 2}
	return &Host{Side: generator.Requester,
		NIC:  testbeds.Host{Name: "requester", HopLimit: 64, DSCP: 26, ECN: packet.ECT0},
		RDMA: &RDMA{Device: "rxe0", Port: 1, Software: true}, Spec: &testbeds.Spec{Seed: 1,
			Connections: []testbeds.Connection{{IPs: [2]netip.Addr{netip.MustParseAddr("10.0.0.2"),
				netip.MustParseAddr("10.0.0.1")}, Traffic: [2]generator.Traffic{traffic, {}}, MTU: 1024, AckTimeout: 14,
				RetryCount: 7, RNRRetry: 6, MinRNRTimer: 12, FlowLabel: 0x123, SourcePort: 50000, MaxRDAtomic: 3}}}}
}

// withDevice calls f in a namespace where b is an interface and the program is the fake one; log reads its requests.
func withDevice(t *testing.T, how string, f func(program string, log func(op string) json.RawMessage)) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := t.TempDir() + "/log"
	t.Setenv(fakeVariable, how)
	t.Setenv(fakeLog, name)
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		for _, name := range []string{"a", "b"} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = errors.Join(netlink.LinkSetMTU(l, 1500), netlink.LinkSetUp(l))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		f(program, func(op string) json.RawMessage {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(string(text)) {
				var q verbs.Request
				if json.Unmarshal([]byte(line), &q) == nil && q.Op == op {
					return q.Params
				}
			}
			t.Errorf("the program was not asked to %s", op)
			return nil
		})
	})
}

// addresses lists those of b, and its neighbours that are permanent.
func addresses(t *testing.T) (ips, neighbours []string) {
	t.Helper()
	l, err := netlink.LinkByName("b")
	if err != nil {
		t.Fatal(err)
	}
	list, err := netlink.AddrList(l, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		ips = append(ips, a.IPNet.String())
	}
	near, err := netlink.NeighList(l.Attrs().Index, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range near {
		if n.State == permanent {
			neighbours = append(neighbours, n.IP.String()+" "+n.HardwareAddr.String())
		}
	}
	return ips, neighbours
}

func TestADeviceServesATestAndLeavesNothing(t *testing.T) {
	withDevice(t, "ok", func(program string, log func(string) json.RawMessage) {
		r, err := openRDMA(deviceHost(), fakeDevice(), program, []string{"b"}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		var q verbs.OpenRequest
		if err := json.Unmarshal(log(verbs.OpOpen), &q); err != nil {
			t.Error(err)
			return
		}
		c := q.Connections[0]
		if q.Device != "rxe0" || q.Port != 1 || q.Echo != "b" || c.GIDIndex != nil || c.HopLimit != 64 ||
			c.TrafficClass != 26<<2|uint8(packet.ECT0) || c.MTU != 1024 || c.AckTimeout != 14 || c.RetryCount != 7 ||
			c.FlowLabel != 0x123 || c.SourcePort != 50000 || c.MaxRDAtomic != 3 || c.RNRRetry != 6 ||
			c.MinRNRTimer != 12 || c.Traffic.Messages != 3 || c.PeerTraffic.Messages != 0 {
			t.Errorf("the program got %+v", q)
		}
		if ends := r.Local(); len(ends) != 1 || ends[0].QPN != 17 || ends[0].IPSN != 5 || ends[0].MAC == (packet.MAC{}) {
			t.Errorf("ends %+v", ends)
		}
		peer := live.End{IP: netip.MustParseAddr("10.0.0.1"), MAC: packet.MAC{2, 0, 0, 0, 0, 9}, QPN: 3}
		if err := errors.Join(r.Connect([]live.End{peer}), r.Start(), r.Wait(t.Context())); err != nil {
			t.Error(err)
		}
		ips, neighbours := addresses(t)
		if !slices.Equal(ips, []string{"10.0.0.2/32"}) || !slices.Equal(neighbours, []string{"10.0.0.1 02:00:00:00:00:09"}) {
			t.Errorf("during the test b has %v and the neighbours %v", ips, neighbours)
		}
		quiet := r.Quiet()
		if err := r.Wait(t.Context()); err != nil || r.Quiet() < quiet {
			t.Errorf("quiet for %v, later for %v, %v", quiet, r.Quiet(), err)
		}
		if list, err := r.counters(); err != nil || list.Vendor != "rxe" || len(list.Values) != 1 || len(list.Lacks) != 2 {
			t.Errorf("counters %+v, %v", list, err)
		}
		if report, err := r.report(); err != nil || report.Data[0].Checked != 3 {
			t.Errorf("report %+v, %v", report, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if ips, neighbours := addresses(t); len(ips) > 0 || len(neighbours) > 0 {
			t.Errorf("after the test b has %v and the neighbours %v", ips, neighbours)
		}
		select {
		case <-r.process.Ended():
		default:
			t.Error("the program has not ended")
		}
	})
}

func TestAnAddressOfTheAdministratorStays(t *testing.T) {
	withDevice(t, "ok", func(program string, _ func(string) json.RawMessage) {
		l, err := netlink.LinkByName("b")
		if err != nil {
			t.Error(err)
			return
		}
		a, err := netlink.ParseAddr("10.0.0.2/24")
		if err == nil {
			err = netlink.AddrAdd(l, a)
		}
		if err != nil {
			t.Error(err)
			return
		}
		r, err := openRDMA(deviceHost(), fakeDevice(), program, []string{"b"}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if ips, _ := addresses(t); !slices.Equal(ips, []string{"10.0.0.2/24"}) {
			t.Errorf("b has %v", ips)
		}
	})
}

func TestADeviceThatCannotServeTheTestIsRefusedByName(t *testing.T) {
	index := func(i int) *int { return &i }
	without := func(file string) func(fstest.MapFS) {
		return func(f fstest.MapFS) { delete(f, verbs.DeviceRoot+"/rxe0/ports/1/"+file) }
	}
	for name, tt := range map[string]struct {
		how     string
		host    func(*Host)
		device  func(fstest.MapFS)
		allowed string
		want    string
	}{
		"another device":      {host: func(h *Host) { h.RDMA.Device = "mlx5_0" }, want: "there are rxe0"},
		"another port":        {host: func(h *Host) { h.RDMA.Port = 2 }, want: "rxe0 has no port 2"},
		"another interface":   {host: func(h *Host) { h.Interface = "a" }, want: "belongs to interface b, not to a"},
		"not the agent's":     {allowed: "a", want: "none of this agent's"},
		"no Ethernet":         {device: func(f fstest.MapFS) { put(f, "link_layer", "InfiniBand") }, want: "link_layer"},
		"a port that is down": {device: func(f fstest.MapFS) { put(f, "state", "1: DOWN") }, want: `state is "1: DOWN"`},
		"a GID of RoCE v1": {device: without("gid_attrs/types/3"),
			host: func(h *Host) { h.RDMA.GIDIndex = index(1) }, want: "GID 1 is of type IB/RoCE v1"},
		"a GID of another address":            {host: func(h *Host) { h.RDMA.GIDIndex = index(0) }, want: "not of 10.0.0.2"},
		"an MTU that is too large":            {host: func(h *Host) { h.Spec.Connections[0].MTU = 4096 }, want: "MTU of 4096 needs"},
		"another MAC":                         {host: func(h *Host) { h.NIC.MAC = &packet.MAC{2} }, want: "the MAC"},
		"hardware said to be software":        {how: "hardware", want: "is hardware (vendor 0x15b3)"},
		"software said to be hardware":        {host: func(h *Host) { h.RDMA.Software = false }, want: "software: true"},
		"a program that dies":                 {how: "dies", want: "exit status 3: the device caught fire"},
		"a program that ignores an attribute": {how: "older attributes", want: "doesn't know source_port of a queue pair"},
		"an old program":                      {how: "old", want: "install candela and candela-verbs of one version"},
	} {
		how := tt.how
		if how == "" {
			how = "ok"
		}
		withDevice(t, how, func(program string, _ func(string) json.RawMessage) {
			h, device, allowed := deviceHost(), fakeDevice(), "b"
			if tt.host != nil {
				tt.host(h)
			}
			if tt.device != nil {
				tt.device(device)
			}
			if tt.allowed != "" {
				allowed = tt.allowed
			}
			quick, carrier := gidTime, carrierTime
			gidTime, carrierTime = 0, 0
			r, err := openRDMA(h, device, program, []string{allowed}, nil)
			gidTime, carrierTime = quick, carrier
			if err == nil {
				_ = r.Close()
			}
			if !errors.Is(err, errRDMA) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
			if ips, neighbours := addresses(t); len(ips) > 0 || len(neighbours) > 0 {
				t.Errorf("%s: afterwards b has %v and the neighbours %v", name, ips, neighbours)
			}
		})
	}
}

func put(f fstest.MapFS, file, text string) {
	f[verbs.DeviceRoot+"/rxe0/ports/1/"+file] = &fstest.MapFile{Data: []byte(text + "\n")}
}

func TestAWaitEndsWithItsCallAndWithTheHost(t *testing.T) {
	withDevice(t, "never", func(program string, _ func(string) json.RawMessage) {
		var sysfs fs.FS = fakeDevice()
		r, err := openRDMA(deviceHost(), sysfs, program, []string{"b"}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait of 30 ms: %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- r.Wait(t.Context()) }()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, live.ErrClosed) {
			t.Errorf("a wait for a host that is closed: %v", err)
		}
	})
}
