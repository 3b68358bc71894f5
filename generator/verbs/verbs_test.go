package verbs_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"candela.dev/candela/generator/verbs"
)

var rxe0 = verbs.Port{Device: "rxe0", Number: 1}

// device returns the sysfs files of a soft-RoCE device.
func device() fstest.MapFS {
	const port = verbs.DeviceRoot + "/rxe0/ports/1/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	return fstest.MapFS{
		port + "gids/0":               file("fe80:0000:0000:0000:00ca:deff:fe1a:0001"),
		port + "gid_attrs/types/0":    file("RoCE v2"),
		port + "gids/1":               file("0000:0000:0000:0000:0000:ffff:0a00:0001"),
		port + "gid_attrs/types/1":    file("IB/RoCE v1"),
		port + "gids/2":               file("0000:0000:0000:0000:0000:ffff:0a00:0001"),
		port + "gid_attrs/types/2":    file("RoCE v2"),
		port + "hw_counters/sent":     file("7"),
		port + "hw_counters/lifespan": file("10"),
		port + "counters/broken":      file("N/A"),
	}
}

func TestAGIDIsFoundByAddressAndOnlyAsRoCEv2(t *testing.T) {
	for ip, want := range map[string]int{"10.0.0.1": 2, "fe80::ca:deff:fe1a:1": 0} {
		if got, err := rxe0.GIDIndex(device(), netip.MustParseAddr(ip)); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", ip, got, err, want)
		}
	}
	if _, err := rxe0.GIDIndex(device(), netip.MustParseAddr("10.0.0.9")); err == nil ||
		!strings.Contains(err.Error(), "10.0.0.9") {
		t.Errorf("an address without GID: %v", err)
	}
}

func TestCountersAreNumbersOnly(t *testing.T) {
	got, err := rxe0.Counters(device())
	if err != nil || len(got) != 1 || got[0] != (verbs.Counter{Name: "sent", Value: 7}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := (verbs.Port{Device: "mlx5_0", Number: 1}).Counters(device()); err == nil {
		t.Error("a device that is not there has counters")
	}
}

// agent returns a client whose agent answers one request with line.
func agent(t *testing.T, line string) *verbs.Client {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		buffer := make([]byte, 1<<16)
		if _, err := far.Read(buffer); err == nil && line != "" {
			_, _ = far.Write([]byte(line + "\n"))
		}
	}()
	t.Cleanup(func() { _ = far.Close() })
	return verbs.NewClient(near)
}

func TestACallGetsItsAnswer(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":9}` + "\n" + `{"id":1,"result":{"kernel":"6.1"}}`: "",
		`{"id":1,"error":"no device"}`:                           "no device",
		`{"id":`:                                                 "no JSON",
	} {
		var hello verbs.Hello
		err := agent(t, line).Call(t.Context(), verbs.OpHello, nil, &hello)
		if want == "" && (err != nil || hello.Kernel != "6.1") || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", line, hello, err)
		}
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := agent(t, "").Call(ctx, verbs.OpHello, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestStatisticsOfTheLinkAddWhatSysfsLacks(t *testing.T) {
	known := []verbs.Counter{{Name: "sent", Value: 7}}
	list, err := verbs.AddStatistic(known,
		[]byte(`[{"ifindex":0,"ifname":"rxe0","port":1,"sent":99,"duplicate_request":3,"acks":18446744073709551615}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []verbs.Counter{{Name: "acks", Value: 1<<64 - 1}, {Name: "duplicate_request", Value: 3},
		{Name: "sent", Value: 7}}
	if !slices.Equal(list, want) {
		t.Errorf("counters are %v, want %v: what sysfs said stays, and neither interface nor port is a counter", list, want)
	}
	for _, bad := range []string{"", "{}", "[1]", "null x"} {
		if list, err := verbs.AddStatistic(nil, []byte(bad)); err == nil {
			t.Errorf("%q gave %v, want an error", bad, list)
		}
	}
}

func TestAnAttributeThatAProgramIgnoresIsAnError(t *testing.T) {
	for name, c := range map[string]verbs.Connection{verbs.AttributeFlowLabel: {FlowLabel: 1},
		verbs.AttributeSourcePort: {SourcePort: 1}, verbs.AttributeMaxRDAtomic: {MaxRDAtomic: 1}, "": {}} {
		q := &verbs.OpenRequest{Connections: []verbs.Connection{{}, c}}
		old, now := verbs.OpenResponse{}, verbs.OpenResponse{Attributes: verbs.Attributes()}
		if err := old.Ignored(q); (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if err := now.Ignored(q); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
