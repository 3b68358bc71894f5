package plan_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// intents describes the intents of p without their places, one per line.
func intents(p *plan.Plan) []string {
	var lines []string
	for _, in := range p.Intents {
		s := fmt.Sprintf("flow %d %v %v psn %d nth %d %v %v", in.Flow, in.Space, in.Class, in.RelPSN, in.Nth, in.Scope,
			in.Action.Type)
		if in.Action.Type == trace.EventTrim {
			s += fmt.Sprintf(" %d %d %03b", in.Action.Params[0], in.Action.Params[1], in.Action.Params[2])
		}
		lines = append(lines, s)
	}
	return lines
}

func TestEventsNameTheFlowAndSpaceInWhichTheirPacketTravels(t *testing.T) {
	for _, tt := range []struct {
		name, traffic string
		want          []string
	}{
		{"a WRITE packet is a request of flow 0",
			"{data-pkt-events: [{qpn: 1, psn: 5, type: drop}]}",
			[]string{"flow 0 requests data psn 5 nth 1 connection drop"}},
		{"connection 3 has flows 4 and 5",
			"{num-connections: 3, rdma-verb: read, data-pkt-events: [{qpn: 3, psn: 2, type: ecn, iter: 2}]}",
			[]string{"flow 5 responses data psn 2 nth 2 connection ecn"}},
		{"of mixed verbs each PSN goes its own way",
			"{rdma-verb: [send, read, fetch-add], message-size: 2048, num-msgs-per-qp: 3, data-pkt-events: [{qpn: 1, psn: 2, " +
				"type: drop}, " +
				"{qpn: 1, psn: 3, type: drop}, {qpn: 1, psn: 5, type: corrupt, iter: any}]}",
			[]string{
				"flow 0 requests data psn 2 nth 1 connection drop", "flow 1 responses data psn 3 nth 1 connection drop",
				"flow 0 requests data psn 5 nth 0 connection corrupt"}},
		{"verbs dealt out to the connections",
			"{rdma-verb: [send, read], verbs-by: connection, num-connections: 2, data-pkt-events: [{qpn: 1, psn: 1, type: " +
				"drop}, {qpn: 2, psn: 1, type: drop}]}",
			[]string{"flow 0 requests data psn 1 nth 1 connection drop", "flow 3 responses data psn 1 nth 1 connection drop"}},
		{"the responder's requests and the responses to them are the other way round",
			"{bidirectional: true, rdma-verb: [write, read], num-msgs-per-qp: 2, data-pkt-events: [{qpn: 1, from: responder, " +
				"psn: 1, type: drop}, " +
				"{qpn: 1, from: responder, psn: 11, type: drop}]}",
			[]string{"flow 1 requests data psn 1 nth 1 connection drop", "flow 0 responses data psn 11 nth 1 connection drop"}},
		{"scope and trim parameters are carried",
			"{iter-scope: packet, data-pkt-events: [{qpn: 1, psn: 1, type: trim}, " +
				"{qpn: 1, psn: 2, type: trim, trim: {size: 128, dscp: 46, update-udp-length: true}}]}",
			[]string{"flow 0 requests data psn 1 nth 1 packet trim 128 0 010",
				"flow 0 requests data psn 2 nth 1 packet trim 128 46 111"}},
		{"control packets travel where their sender sends",
			"{rdma-verb: [send, read, fetch-add], num-msgs-per-qp: 3, rx-depth: 1, tx-depth: 2, control-pkt-events: [" +
				"{qpn: 1, packet: ack, type: drop}, {qpn: 1, packet: nak, nth: any, type: drop}, {qpn: 1, packet: rnr, nth: 3, " +
				"type: ecn}, " +
				"{qpn: 1, packet: read-request, psn: 11, type: corrupt}, {qpn: 1, packet: atomic-ack, psn: 21, nth: 2, type: " +
				"drop}, " +
				"{qpn: 1, packet: cnp, type: drop}, {qpn: 1, packet: cnp, sent-by: requester, type: drop}]}",
			[]string{
				"flow 1 responses ack psn 0 nth 1 connection drop", "flow 1 responses nak psn 0 nth 0 connection drop",
				"flow 1 responses rnr psn 0 nth 3 connection ecn", "flow 0 requests read-request psn 11 nth 1 connection corrupt",
				"flow 1 responses atomic-ack psn 21 nth 2 connection drop", "flow 1 requests cnp psn 0 nth 1 connection drop",
				"flow 0 requests cnp psn 0 nth 1 connection drop"}},
		{"the receiver of READ data is the requester, and so it sends the CNP",
			"{rdma-verb: read, control-pkt-events: [{qpn: 1, packet: cnp, type: drop}]}",
			[]string{"flow 0 requests cnp psn 0 nth 1 connection drop"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustPlan(t, "f.yml", "name: x\ntraffic: "+tt.traffic)
			if diff := cmp.Diff(tt.want, intents(p)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestIntentsKnowTheirPlace(t *testing.T) {
	p := mustPlan(t, "drop.yml", "name: x\ntraffic:\n  data-pkt-events:\n    - qpn: 1\n      psn: 4\n      type: ecn\n  "+
		"  - {qpn: 1, psn: 5, type: drop}\n")
	for i, want := range []string{"drop.yml:4:7: traffic.data-pkt-events[0]", "drop.yml:7:7: traffic.data-pkt-events[1]"} {
		if got := p.Intents[i]; got.Where != want || got.Index != i {
			t.Errorf("intent %d: %q, index %d; want %q", i, got.Where, got.Index, want)
		}
	}
}

func TestConnectionsTakeAddressesInTurnOnlyWithMultiGID(t *testing.T) {
	const hosts = "name: x\nrequester: {nic: {ip-list: [10.0.0.1/24, 10.0.0.2/24, 10.0.0.3/24]}}\nresponder: {nic: " +
		"{ip-list: [10.0.0.4/24, 10.0.0.5/24]}}\n"
	for _, tt := range []struct {
		traffic string
		want    []string
	}{
		{"{num-connections: 2}", []string{"10.0.0.1 10.0.0.4", "10.0.0.1 10.0.0.4"}},
		{"{num-connections: 4, multi-gid: true}",
			[]string{"10.0.0.1 10.0.0.4", "10.0.0.2 10.0.0.5", "10.0.0.3 10.0.0.4", "10.0.0.1 10.0.0.5"}},
	} {
		var got []string
		for _, c := range mustPlan(t, "f.yml", hosts+"traffic: "+tt.traffic).Connections {
			got = append(got, fmt.Sprint(c.IPs[config.Requester], " ", c.IPs[config.Responder]))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.traffic, diff)
		}
	}
}

func TestTimesFollowFromTheTimeoutExponent(t *testing.T) {
	for _, tt := range []struct {
		traffic, deadline string
		timeout, quiesce  clock.Duration
	}{
		{"{min-retransmit-timeout: 0}", "60000", 0, 10 * clock.Millisecond},
		{"{min-retransmit-timeout: 1}", "60000", 8192 * clock.Nanosecond, 10 * clock.Millisecond},
		{"{min-retransmit-timeout: 14}", "60000", 67108864 * clock.Nanosecond, 134217728 * clock.Nanosecond},
		{"{min-retransmit-timeout: 31}", "60000", 8796093022208 * clock.Nanosecond, 60 * clock.Second},
		{"{}", "5", 67108864 * clock.Nanosecond, 5 * clock.Millisecond},
		// A packet held by the switch must arrive before the quiet time ends.
		{"{min-retransmit-timeout: 0, data-pkt-events: [{qpn: 1, psn: 1, type: delay, delay-us: 300000}, {qpn: 1, psn: 2, " +
			"type: delay, delay-us: 7}]}", "60000",
			0, 310 * clock.Millisecond},
		{"{min-retransmit-timeout: 0, control-pkt-events: [{qpn: 1, packet: ack, type: delay, delay-us: 20000}]}", "60000", 0,
			30 * clock.Millisecond},
		{"{min-retransmit-timeout: 0, control-pkt-events: [{qpn: 1, packet: ack, type: delay, delay-us: 9000000}]}", "1000",
			0, clock.Second},
	} {
		p := mustPlan(t, "f.yml", "name: x\ndeadline-ms: "+tt.deadline+"\ntraffic: "+tt.traffic)
		if p.AckTimeout != tt.timeout || p.Quiesce != tt.quiesce {
			t.Errorf("%s: timeout %v, quiesce %v; want %v and %v", tt.traffic, p.AckTimeout, p.Quiesce, tt.timeout, tt.quiesce)
		}
	}
}

func TestInitialPSNsAndSnapAreResolved(t *testing.T) {
	p := mustPlan(t, "f.yml", "name: x\ninjector: {snap-bytes: 128}\ntraffic: {initial-psn: {requester: 7}}")
	c := p.Connections[0]
	if psn := c.InitialPSN[config.Requester]; psn == nil || *psn != 7 || c.InitialPSN[config.Responder] != nil {
		t.Errorf("initial PSNs are %v", c.InitialPSN)
	}
	if p.Snap != 128 {
		t.Errorf("snap is %d, want 128", p.Snap)
	}
	if both := mustPlan(t, "f.yml", "name: x\ntraffic: {initial-psn: 9}").Connections[0].InitialPSN; *both[0] != 9 ||
		*both[1] != 9 {
		t.Errorf("one initial PSN for both sides gave %v and %v", both[0], both[1])
	}
}

func TestWarningsNameWhatTimingDecidesAndWhatNeverComes(t *testing.T) {
	const shortTimer = "min-retransmit-timeout: 8, "
	for _, tt := range []struct {
		name, traffic string
		more          string   // other top-level keys
		want          []string // parts of the warnings, in order
	}{
		{"a lost packet and its lost retransmission are certain",
			shortTimer + "data-pkt-events: [{qpn: 1, psn: 5, type: drop}, {qpn: 1, psn: 5, iter: 2, type: drop}]", "", nil},
		{"two losses in one message depend on timing",
			shortTimer + "data-pkt-events: [{qpn: 1, psn: 5, type: drop}, {qpn: 1, psn: 8, type: drop}]", "",
			[]string{"data-pkt-events[1]: packet 8 may first be sent in round 2"}},
		{"a loss before is none of an earlier packet's business",
			shortTimer + "data-pkt-events: [{qpn: 1, psn: 8, type: drop}, {qpn: 1, psn: 5, type: ecn}]", "", nil},
		{"after a loss the next message never has iter 1", shortTimer + "num-msgs-per-qp: 2, data-pkt-events: [{qpn: 1, " +
			"psn: 5, type: drop}, {qpn: 1, psn: 15, type: drop}]", "",
			[]string{"packet 15 is first sent in round 2; iter 1 never names it"}},
		{"but iter 2 it has for certain", shortTimer + "num-msgs-per-qp: 2, data-pkt-events: [{qpn: 1, psn: 5, type: " +
			"drop}, {qpn: 1, psn: 15, iter: 2, type: drop}]", "", nil},
		{"with more requests under way it is timing again", shortTimer + "tx-depth: 2, num-msgs-per-qp: 2, " +
			"data-pkt-events: [{qpn: 1, psn: 5, type: drop}, {qpn: 1, psn: 15, type: drop}]", "",
			[]string{"packet 15 may first be sent in round 2"}},
		{"in message scope only the own message counts", shortTimer + "iter-scope: message, num-msgs-per-qp: 2, " +
			"data-pkt-events: [{qpn: 1, psn: 5, type: drop}, {qpn: 1, psn: 9, type: drop}, {qpn: 1, psn: 15, type: drop}]", "",
			[]string{"data-pkt-events[1]: packet 9 may first be sent in round 2 of its message"}},
		{"in packet scope nothing depends on timing", shortTimer + "iter-scope: packet, data-pkt-events: [{qpn: 1, psn: 5, " +
			"type: drop}, {qpn: 1, psn: 8, type: drop}]", "", nil},
		{"connections don't disturb each other", shortTimer + "num-connections: 2, data-pkt-events: [{qpn: 1, psn: 5, " +
			"type: drop}, {qpn: 2, psn: 8, type: drop}]", "", nil},
		{"lost responses don't raise the ITER of requests", shortTimer + "rdma-verb: [read, write], num-msgs-per-qp: 2, " +
			"data-pkt-events: [{qpn: 1, psn: 5, type: drop}, {qpn: 1, psn: 15, type: drop}]", "", nil},
		{"nothing repeats the packet",
			shortTimer + "data-pkt-events: [{qpn: 1, psn: 5, iter: 2, type: ecn}, {qpn: 1, psn: 7, type: drop}]", "",
			[]string{"nothing in this test makes packet 5 be sent 2 times"}},
		{"a lost ACK does", shortTimer + "data-pkt-events: [{qpn: 1, psn: 5, iter: 2, type: ecn}], control-pkt-events: " +
			"[{qpn: 1, packet: ack, type: drop}]", "", nil},
		{"marks on packets that are not ECN-capable", "ecn: not-ect, data-pkt-events: [{qpn: 1, psn: 5, type: ecn}]", "",
			[]string{"not ECN-capable"}},
		{"a packet too short to trim", "message-size: 20, data-pkt-events: [{qpn: 1, psn: 1, type: trim, trim: {size: 100}}]",
			"",
			[]string{"the packet has only 80 bytes and passes whole"}},
		{"more losses than retries", shortTimer + "max-retransmit-retry: 1, data-pkt-events: [{qpn: 1, psn: 5, type: " +
			"drop}, {qpn: 1, psn: 5, iter: 2, type: drop}]", "",
			[]string{"data-pkt-events[1]: packet 5 is lost more often than it is retried"}},
		{"unless the test expects it",
			shortTimer + "max-retransmit-retry: 1, data-pkt-events: [{qpn: 1, psn: 5, iter: any, type: drop}]",
			"expect: {completion: {qpn 1: {status: IBV_WC_RETRY_EXC_ERR}}}", nil},
		{"no timer", "min-retransmit-timeout: 0, data-pkt-events: [{qpn: 1, psn: 10, type: drop}]", "",
			[]string{"there is no timer"}},
		{"no time for a timeout", "min-retransmit-timeout: 20, data-pkt-events: [{qpn: 1, psn: 10, type: drop}]",
			"deadline-ms: 1000",
			[]string{"1 s may be too short for one timeout"}},
		{"addresses without use", "", "requester: {nic: {ip-list: [10.0.0.2/24, 10.0.0.3/24]}}",
			[]string{"only the first of 2 addresses is used"}},
		{"an ACK in the middle of a message", shortTimer + "control-pkt-events: [{qpn: 1, packet: ack, psn: 5, type: drop}]",
			"", []string{"there may be no ACK with psn 5"}},
		{"an ACK at its end", shortTimer + "control-pkt-events: [{qpn: 1, packet: ack, psn: 10, type: drop}]", "", nil},
		{"one ACK too many", shortTimer + "control-pkt-events: [{qpn: 1, packet: ack, nth: 2, type: drop}]", "",
			[]string{"there may be no ACK number 2"}},
		{"ACKs that may be coalesced",
			shortTimer + "tx-depth: 4, num-msgs-per-qp: 4, control-pkt-events: [{qpn: 1, packet: ack, nth: 2, type: drop}]", "",
			[]string{"which ACKs there are depends on timing"}},
		{"a NAK without a gap", shortTimer + "control-pkt-events: [{qpn: 1, packet: nak, type: drop}]", "",
			[]string{"nothing in this test provokes a NAK"}},
		{"READs are not NAKed for lost responses", shortTimer + "rdma-verb: read, data-pkt-events: [{qpn: 1, psn: 5, type: " +
			"drop}], control-pkt-events: [{qpn: 1, packet: nak, type: drop}]", "",
			[]string{"nothing in this test provokes a NAK"}},
		{"NAKs of rewritten requests",
			shortTimer + "data-pkt-events: [{qpn: 1, psn: 1, type: rewrite, field: rkey, value: 1}], " +
				"control-pkt-events: [{qpn: 1, packet: nak-acc, type: drop}]", "", nil},
		{"other NAKs", shortTimer + "control-pkt-events: [{qpn: 1, packet: nak-inv, type: drop}]", "",
			[]string{"correct endpoints never send a nak-inv here"}},
		{"RNR NAKs with receives to spare", shortTimer + "rdma-verb: send, control-pkt-events: [{qpn: 1, packet: rnr, " +
			"type: drop}]", "", []string{"a receive is always posted"}},
		{"RNR NAKs with slow reposting", shortTimer + "rdma-verb: send, rx-repost-delay-us: 50, control-pkt-events: [{qpn: " +
			"1, packet: rnr, type: drop}]", "", nil},
		{"a CNP without a mark", shortTimer + "control-pkt-events: [{qpn: 1, packet: cnp, type: drop}]", "",
			[]string{"no packet to the responder is marked"}},
		{"a CNP from a host that sends none", shortTimer + "data-pkt-events: [{qpn: 1, psn: 5, type: ecn}], " +
			"control-pkt-events: [{qpn: 1, packet: cnp, type: drop}]",
			"responder: {roce-parameters: {dcqcn-np-enable: false}}",
			[]string{"responder.roce-parameters.dcqcn-np-enable is false"}},
		{"a CNP for a mark", shortTimer +
			"data-pkt-events: [{qpn: 1, psn: 5, type: ecn}], control-pkt-events: [{qpn: 1, packet: cnp, type: drop}]", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustPlan(t, "f.yml", "name: x\n"+tt.more+"\ntraffic: {"+tt.traffic+"}\n")
			var got []string
			for _, w := range p.Warnings {
				got = append(got, w.String())
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %d warnings, want %d:\n%s", len(got), len(tt.want), strings.Join(got, "\n"))
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("warning %d is\n%s\nwant it to contain %q", i, got[i], want)
				}
			}
		})
	}
}

// Every data packet of every plan has exactly one name, and its intent is in the PSN space of the packet.
func TestEveryDataPacketHasExactlyOneName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		verbs := rapid.SliceOfN(rapid.SampledFrom([]string{"write", "send-imm", "read", "fetch-add"}), 1, 4).Draw(t, "verbs")
		bidirectional := rapid.Bool().Draw(t, "bidirectional")
		text := fmt.Sprintf("name: x\ntraffic: {rdma-verb: [%s], num-msgs-per-qp: %d, message-size: %d, mtu: 256, "+
			"bidirectional: %v, num-connections: 2, data-pkt-events: [%%s]}",
			strings.Join(verbs, ", "), rapid.IntRange(1, 6).Draw(t, "messages"), rapid.IntRange(0, 1500).Draw(t, "size"),
			bidirectional)
		base := parse(t, fmt.Sprintf(text, ""))
		var events []string
		for qpn := 1; qpn <= 2; qpn++ {
			for _, s := range []config.Side{config.Requester, config.Responder} {
				for psn := range base.TrafficFrom(s, qpn).PSNs() {
					events = append(events, fmt.Sprintf("{qpn: %d, from: %v, psn: %d, type: drop}", qpn, s, psn+1))
				}
			}
		}
		p, err := plan.New(parse(t, fmt.Sprintf(text, strings.Join(events, ", "))))
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(p.Intents)) != p.DataPackets {
			t.Fatalf("%d intents for %d data packets", len(p.Intents), p.DataPackets)
		}
		type name struct {
			flow  trace.FlowID
			space packet.Space
			psn   int64
		}
		seen := make(map[name]injector.Intent)
		for _, in := range p.Intents {
			n := name{in.Flow, in.Space, in.RelPSN}
			if other, ok := seen[n]; ok {
				t.Fatalf("%s and %s name the same packet", in.Where, other.Where)
			}
			seen[n] = in
		}
	})
}

func parse(t *rapid.T, text string) *config.Test {
	test, err := config.Parse("f.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return test
}

func TestAddressesKeepTheirFamily(t *testing.T) {
	p := mustPlan(t, "f.yml",
		"name: x\nrequester: {nic: {ip-list: ['fd00::2/64']}}\nresponder: {nic: {ip-list: ['fd00::1/64']}}\ntraffic: {}")
	if got := p.Connections[0].IPs; got != [2]netip.Addr{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1")} {
		t.Errorf("got %v", got)
	}
}

func BenchmarkPlan(b *testing.B) {
	var events []string
	for psn := 1; psn <= 1000; psn++ {
		events = append(events, fmt.Sprintf("    - {qpn: %d, psn: %d, type: drop}\n", psn%64+1, psn))
	}
	data := []byte("name: x\ntraffic:\n  num-connections: 64\n  num-msgs-per-qp: 100\n  data-pkt-events:\n" +
		strings.Join(events, ""))
	b.ReportAllocs()
	for b.Loop() {
		test, err := config.Parse("f.yml", data, config.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := plan.New(test); err != nil {
			b.Fatal(err)
		}
	}
}
