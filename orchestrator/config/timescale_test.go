package config

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"github.com/google/go-cmp/cmp"
)

const slowTest = `name: x
testbed: bed.yml
deadline-ms: %d
requester: {nic: {ip-list: [10.0.0.2/24]}, roce-parameters: {min-time-between-cnps: 9}}
traffic:
  num-msgs-per-qp: 2
  min-retransmit-timeout: %d
  min-rnr-timer: 5
  rx-repost-delay-us: %d
  data-pkt-events: [{qpn: 1, psn: 5, type: delay, delay-us: 3}, {qpn: 1, psn: 6, type: drop}]
  control-pkt-events: [{qpn: 1, packet: ack, type: delay, delay-us: 7}]
expect: {retrans: {timeout-us: {min: 100, max: 200}, nack-reaction-us: {max: 5}}}
`

// on returns options with a testbed description.
func on(bed string) Options {
	return Options{ReadFile: func(string) ([]byte, error) { return []byte(bed), nil }}
}

func TestATestbedScalesTimesTogetherOrRefuses(t *testing.T) {
	const netns = "name: bed\nkind: netns\nlive: {datapath: afpacket}\n"
	for _, tt := range []struct {
		name, bed string
		timeout   int
		scale     int    // 0: the test is unchanged
		refused   string // part of the message; empty: it is not refused
	}{
		{"a short timeout on network namespaces", netns, 8, 64, ""},
		{"one at the floor", netns, 14, 0, ""},
		{"one above it", netns, 16, 0, ""},
		{"no timer", netns, 0, 0, ""},
		{"another floor", netns + "timeout-floor: 10\n", 8, 4, ""},
		{"no floor", netns + "timeout-floor: 0\n", 8, 0, ""},
		{"the virtual testbed", "name: bed\nkind: virtual\n", 1, 0, ""},
		{"a floor on the virtual testbed", "name: bed\nkind: virtual\ntimeout-floor: 9\n", 8, 2, ""},
		{"a scale that is enough", netns + "timeout-scale: 128\n", 8, 128, ""},
		{"a scale for a test that needs none", netns + "timeout-scale: 2\n", 14, 2, ""},
		{"a scale that is too little", netns + "timeout-scale: 32\n", 8, 0, "8, 1.05 ms, is too short for the testbed"},
		{"a scale of 1 leaves short timeouts to be refused", netns + "timeout-scale: 1\n", 8, 0,
			"and a timeout-scale of 1; without the latter"},
		{"a scale of 1 leaves others alone", netns + "timeout-scale: 1\n", 14, 0, ""},
		{"a floor that is too far away", netns + "timeout-floor: 20\n", 2, 0, "is too short for the testbed"},
		{"a timeout that is too long then", netns + "timeout-scale: 4\n", 30, 0, "30 becomes 32"},
		{"a scale that is not a power of two", netns + "timeout-scale: 3\n", 8, 0, "3 is not a power of two"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("t.yml", fmt.Appendf(nil, slowTest, 1000, tt.timeout, 50), on(tt.bed))
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Fatalf("%v, want an error with %q", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			n := clock.Duration(max(1, tt.scale))
			us := func(n clock.Duration) *clock.Duration { n *= clock.Microsecond; return &n }
			delayed := func(us clock.Duration) Params { return Params{{"delay-us", int64(1000 * us)}} }
			timeout, scale := tt.timeout, 0
			for s := tt.scale; s > 1; s /= 2 {
				timeout++
			}
			if tt.scale > 1 {
				scale = tt.scale
			}
			tr, e := &got.Traffic, &got.Expect.Retrans
			for _, x := range []struct {
				name      string
				got, want any
			}{
				{"scale", got.TimeScale, scale}, {"timeout", tr.AckTimeout, timeout},
				{"receive delay", tr.RxRepostDelay, 50 * n * clock.Microsecond},
				{"delay of data", tr.DataEvents[0].Params, delayed(3 * n)},
				{"time between CNPs", got.Requester.RoCE.MinTimeBetween, 9 * n * clock.Microsecond},
				{"delay of an ACK", tr.ControlEvents[0].Params, delayed(7 * n)},
				{"bounds of timeouts", e.Timeout, &Bound{Min: us(100 * n), Max: us(200 * n)}},
				{"bounds of reactions", e.NackReaction, &Bound{Max: us(5 * n)}},
				{"deadline", got.Deadline, min(1000*n*clock.Millisecond, 60*clock.Second)},
			} {
				if diff := cmp.Diff(x.want, x.got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", x.name, diff)
				}
			}
		})
	}
}

// TestARunCanBeRepeated: config.yml and testbed.yml of a run directory give the same times, and are not slowed
// down twice.
func TestARunCanBeRepeated(t *testing.T) {
	for _, scale := range []string{"", "timeout-scale: 64\n"} {
		first, err := Parse("t.yml", fmt.Appendf(nil, slowTest, 1000, 8, 50),
			on("name: bed\nkind: netns\nlive: {datapath: afpacket}\n"+scale))
		if err != nil {
			t.Fatal(err)
		}
		reparsed, err := Parse("t.yml", first.YAML(), on(string(first.Testbed.YAML())))
		if err != nil {
			t.Fatal(err)
		}
		if string(reparsed.YAML()) != string(first.YAML()) || reparsed.Hash() != first.Hash() {
			t.Errorf("first\n%s\nagain\n%s", first.YAML(), reparsed.YAML())
		}
	}
}

func TestTimesThatBecomeTooLongAreRefused(t *testing.T) {
	_, err := Parse("t.yml", fmt.Appendf(nil, slowTest, 1000, 8, 1_000_000),
		on("name: bed\nkind: netns\nlive: {datapath: afpacket}\n"))
	if err == nil || !strings.Contains(err.Error(), "traffic.rx-repost-delay-us: 1 s times 64 is more than") {
		t.Errorf("%v", err)
	}
	text := strings.Replace(fmt.Sprintf(slowTest, 1000, 8, 50), "min-time-between-cnps: 9", "min-time-between-cnps: 20000",
		1)
	_, err = Parse("t.yml", []byte(text), on("name: bed\nkind: netns\nlive: {datapath: afpacket}\n"))
	if err == nil || !strings.Contains(err.Error(),
		"requester.roce-parameters.min-time-between-cnps: 20 ms times 64 is more than") {
		t.Errorf("%v", err)
	}
}

func TestRNRTimersGrowToTheNextCode(t *testing.T) {
	for _, tt := range []struct {
		ns   int64
		code int
	}{{10_000, 1}, {640_000, 12}, {640_001, 13}, {40_960_000, 24}, {491_520_000, 31}, {600_000_000, 0},
		{6_000_000_000, 0}} {
		if got := rnrTimerOf(tt.ns); got != tt.code {
			t.Errorf("%d ns: code %d, want %d", tt.ns, got, tt.code)
		}
	}
}

func TestATestIsRefusedWhereItIsNotMeantToRun(t *testing.T) {
	for _, tt := range []struct {
		testbeds, kind string
		refused        bool
	}{{"[virtual]", "netns", true}, {"[virtual, netns]", "netns", false}, {"[netns]", "virtual", true},
		{"[lab]", "vm", true}} {
		text := "name: x\ntestbed: bed.yml\ntestbeds: " + tt.testbeds + "\ntraffic: {}\n"
		_, err := Parse("t.yml", []byte(text), on("name: bed\nkind: "+tt.kind+"\n"))
		if (err != nil) != tt.refused || tt.refused &&
			!strings.Contains(err.Error(), "t.yml:3:11: testbeds: the test is for testbeds of kind ") {
			t.Errorf("%s on %s: %v", tt.testbeds, tt.kind, err)
		}
	}
	if _, err := Parse("t.yml", []byte("name: x\ntestbeds: [netsn]\ntraffic: {}\n"), Options{}); err == nil ||
		!strings.Contains(err.Error(), "netns") {
		t.Errorf("a kind that does not exist: %v", err)
	}
}

func TestAnAgentsLimitsAreThoseOfTheCheck(t *testing.T) {
	for text, want := range map[string]string{
		"traffic: {num-connections: 2, num-msgs-per-qp: 5000001}\n":                      "makes 10000002 messages",
		"traffic: {num-connections: 1, num-msgs-per-qp: 5000001, bidirectional: true}\n": "makes 10000002 messages",
		"traffic: {num-connections: 2, num-msgs-per-qp: 5000000}\n":                      "",
	} {
		_, err := Parse("t.yml", []byte("name: x\ntestbed: bed.yml\n"+text), on("name: bed\nkind: netns\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s%v, want %q", text, err, want)
		}
	}
	if _, err := ParseTestbed("bed.yml", []byte("name: bed\nkind: netns\ndumpers: [{name: d, cores: 65}]\n")); err == nil {
		t.Error("65 cores are accepted")
	}
}
