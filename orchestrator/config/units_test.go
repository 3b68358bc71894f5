package config

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds"
)

func parseTraffic(t *testing.T, traffic string) (*Test, error) {
	t.Helper()
	return Parse("f.yml", []byte("name: x\ntraffic:\n  "+traffic+"\n"), Options{})
}

func TestNumbersWithUnitsAreTheNumbersOfTheSchemasUnit(t *testing.T) {
	sizes := map[string]int{
		"64KB": 65536, "64K": 65536, "64k": 65536, "64kB": 65536, "64KiB": 65536, "64 KB": 65536, "1MB": 1 << 20,
		"1.5MiB": 3 << 19, "2GB": 1 << 31, "100B": 100, "100 bytes": 100, "0KB": 0, "'64KB'": 65536, "65536": 65536,
	}
	for text, want := range sizes {
		test, err := parseTraffic(t, "message-size: "+text)
		if err != nil || test.Traffic.MessageSize != want {
			t.Errorf("message-size: %s: got %v, want %d", text, err, want)
		}
	}
	times := map[string]clock.Duration{
		"100us": 100 * clock.Microsecond, "100µs": 100 * clock.Microsecond, "100μs": 100 * clock.Microsecond,
		"67ms": 67 * clock.Millisecond, "1500ns": 1500 * clock.Nanosecond, "0.5s": 500 * clock.Millisecond,
		"2.5": 2500 * clock.Nanosecond,
	}
	for text, want := range times {
		test, err := parseTraffic(t, "rx-repost-delay-us: "+text)
		if err != nil || test.Traffic.RxRepostDelay != want {
			t.Errorf("rx-repost-delay-us: %s: got %v, want %v", text, err, want)
		}
	}
	for text, want := range map[string]clock.BitRate{"40Gbps": 40 * clock.Gbps, "40 Gb/s": 40 * clock.Gbps,
		"40Gbit/s": 40 * clock.Gbps, "40G": 40 * clock.Gbps, "400000Mbps": 400 * clock.Gbps, "25": 25 * clock.Gbps} {
		bed, err := ParseTestbed("b.yml", []byte(strings.Replace(string(testbeds.Virtual), "rate-gbps: 100",
			"rate-gbps: "+text, 1)))
		if err != nil || bed.Requester.Rate != want {
			t.Errorf("rate-gbps: %s: %v, want %v", text, err, want)
		}
	}
}

func TestAFormOfANumberThatIsRefusedNamesTheNumberMeant(t *testing.T) {
	for _, tt := range []struct{ traffic, want string }{
		{"message-size: 64kb", "for 64KB write 65536"},
		{"message-size: 64Kb", "for 64KB write 65536"},
		{"message-size: 65_536", "write it as 65536"},
		{"message-size: 65,536", "write it as 65536"},
		{"message-size: 1e6", "write it as 1000000"},
		{"message-size: '65536'", "write it as 65536 without quotes"},
		{"message-size: 64us", "us is a time and this is a size in bytes"},
		{"message-size: 64 parsecs", "parsecs is not a unit that is known here"},
		{"message-size: 0.3KB", "307.2"},
		{"message-size: 5GB", "5368709120 is out of range"},
		{"num-connections: 4KB", "KB is a size and this is not"},
		{"mtu: 3KB", "3072 is not one of 256"},
		{"rx-repost-delay-us: 5usec", "for 5us write 5"},
		{"rx-repost-delay-us: 2m", "for 2ms write 2000, for 2min write 120000000"},
		{"rx-repost-delay-us: 64KB", "KB is a size and this is a time in us"},
		{"rx-repost-delay-us: 1.2e3", "write it as 1200"},
		{"min-retransmit-timeout: 67ms", "write 14, which is 67.1 ms"},
		{"min-retransmit-timeout: 100ms", "write 15, which is 134 ms, or 14, which is 67.1 ms"},
		{"min-retransmit-timeout: 8us", "write 1, which is 0.00819 ms"},
		{"min-retransmit-timeout: 9000s", "write 31"},
		{"min-rnr-timer: 640us", "write 12, which is 0.64 ms"},
	} {
		_, err := parseTraffic(t, tt.traffic)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "\n  ", " "), tt.want) ||
			!strings.HasPrefix(err.Error(), "f.yml:3:") {
			t.Errorf("%s: got %v, want it to contain %q and to begin with its place", tt.traffic, err, tt.want)
		}
	}
	u := unitOf("Gb/s")
	for suffix, want := range map[string]string{"GBps": "for 40Gbps write 40, for 40 GBps, of bytes, write 320",
		"KB": "KB is a size and this is a bit rate in Gb/s"} {
		if got := unitRemedy(timeOf(stringNode("40ps")).Mul(timeOf(stringNode("40ps")), timeOf(stringNode("1ps"))), suffix,
			"Gb/s", u); !strings.Contains(got, want) {
			t.Errorf("40%s: got %q, want %q", suffix, got, want)
		}
	}
}

// Every number with a unit accepts suffixes, and the unit of a metric is the end of its name.
func TestMetricsTakeTheUnitOfTheirName(t *testing.T) {
	for name, text := range map[string]string{"fct-us": "2ms", "goodput-gbps": "40Gbps", "queue-bytes": "64KB"} {
		want := map[string]int64{"fct-us": 2000, "goodput-gbps": 40, "queue-bytes": 65536}[name] * MetricUnit
		d := newDecoder("f.yml", Options{})
		var got int64
		decimal(name).decode(d, mustParse(text), "x", &got)
		if d.err() != nil || got != want {
			t.Errorf("%s: %s is %d (%v), want %d", name, text, got, d.err(), want)
		}
	}
	d := newDecoder("f.yml", Options{})
	var got int64
	decimal("flow-trims").decode(d, mustParse("5KB"), "x", &got)
	if d.err() == nil {
		t.Error("a count took a size: " + fmt.Sprint(got))
	}
}
