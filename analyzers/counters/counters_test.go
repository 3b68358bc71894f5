package counters_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/trace"
)

// hosts returns a requester and a responder with the given counters, all others 0.
func hosts(requester, responder map[string]int64) counters.Input {
	return counters.Input{Hosts: []counters.Host{
		host("requester", "10.0.0.1", requester), host("responder", "10.0.0.2", responder),
	}}
}

func host(name, ip string, counted map[string]int64) counters.Host {
	h := counters.Host{
		Name: name, IPs: []netip.Addr{netip.MustParseAddr(ip)}, Naming: "candela",
		Start: map[string]int64{}, Finish: map[string]int64{},
	}
	for _, name := range []string{"tx_packets", "rx_packets", "packet_seq_err", "out_of_sequence", "implied_nak_seq_err",
		"duplicate_request", "local_ack_timeout_err", "rx_icrc_encapsulated", "np_cnp_sent", "rp_cnp_handled",
		"rp_cnp_ignored",
		"np_ecn_marked_roce_packets", "rnr_nak_retry_err", "out_of_buffer"} {
		h.Start[name] = 1000
		h.Finish[name] = 1000 + counted[name]
	}
	return h
}

func analyse(t *testing.T, meta trace.Meta, input counters.Input, text string) []string {
	t.Helper()
	records, err := tracetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	checked := trace.CheckedRecords(meta, records)
	doc, err := analyzers.Run(context.Background(), checked, counters.New(checked.Meta(), input))
	if err != nil {
		t.Fatal(err)
	}
	book.Add(t, doc.Findings)
	var list []string
	for _, f := range doc.Findings {
		list = append(list, string(f.Severity)+" "+f.Rule+": "+f.Expected+" != "+f.Actual)
	}
	return list
}

type counts = map[string]int64

const lossTrace = `
	0 > first 1 ar
	1 > mid 2 drop
	2 > mid 3 ecn
	3 > last 4 ar corrupt
	4 < cnp
	5 < nak 2
	9 > mid 2
	10 > mid 3
	11 > last 4 ar
	13 < ack 4`

// right is what conforming hosts count in lossTrace.
func right() (requester, responder counts) {
	return counts{"tx_packets": 7, "rx_packets": 3, "packet_seq_err": 1, "rp_cnp_handled": 1},
		counts{"tx_packets": 3, "rx_packets": 6, "out_of_sequence": 1, "rx_icrc_encapsulated": 1, "np_cnp_sent": 1,
			"np_ecn_marked_roce_packets": 1}
}

func TestCompares(t *testing.T) {
	meta := tracetest.Meta(tracetest.Connections(2, false))
	t.Run("right counters pass", func(t *testing.T) {
		if got := analyse(t, meta, hosts(right()), lossTrace); got != nil {
			t.Errorf("findings: %v", got)
		}
	})
	for _, test := range []struct {
		host, counter string
		value         int64
		want          string
	}{
		{"requester", "tx_packets", 6, "counters.tx-packets: 7 != 6"},
		{"requester", "rx_packets", 2, "counters.rx-packets: 3 != 2"},
		{"requester", "packet_seq_err", 0, "counters.packet-seq-err: 1 != 0"},
		{"requester", "packet_seq_err", 2, "counters.packet-seq-err: 1 != 2"},
		{"requester", "local_ack_timeout_err", 1, "counters.local-ack-timeout: 0 != 1"},
		{"requester", "rp_cnp_handled", 0, "counters.cnp-handled: 1 != 0"},
		{"requester", "implied_nak_seq_err", 1, "counters.implied-nak: 0 != 1"},
		{"requester", "rnr_nak_retry_err", 1, "counters.rnr-received: 0 != 1"},
		{"responder", "rx_packets", 7, "counters.rx-packets: 6 != 7"},
		{"responder", "out_of_sequence", 2, "counters.out-of-sequence: 1 != 2"},
		{"responder", "duplicate_request", 1, "counters.duplicate-request: 0 != 1"},
		{"responder", "rx_icrc_encapsulated", 0, "counters.icrc: 1 != 0"},
		{"responder", "np_cnp_sent", 0, "counters.cnp-sent: 1 != 0"},
		{"responder", "np_ecn_marked_roce_packets", 0, "counters.ecn-marked: 1 != 0"},
		{"responder", "out_of_buffer", 1, "counters.rnr-sent: 0 != 1"},
		{"responder", "rp_cnp_ignored", 1, "counters.cnp-ignored: 0 != 1"},
	} {
		t.Run(test.host+" miscounts "+test.counter, func(t *testing.T) {
			requester, responder := right()
			if test.host == "requester" {
				requester[test.counter] = test.value
			} else {
				responder[test.counter] = test.value
			}
			want := []string{"violation " + test.want}
			if diff := cmp.Diff(want, analyse(t, meta, hosts(requester, responder), lossTrace)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComparesOtherExchanges(t *testing.T) {
	meta := tracetest.Meta(tracetest.Connections(2, false))
	tests := []struct {
		name, text           string
		requester, responder counts
	}{
		{
			name: "a timeout and the duplicates that it sends",
			text: `
				0 > first 1
				1 > last 2 ar
				3 < ack 2 drop
				67000 > first 1
				67001 > last 2 ar
				67003 < ack 2`,
			requester: counts{"tx_packets": 4, "rx_packets": 1, "local_ack_timeout_err": 1},
			responder: counts{"tx_packets": 2, "rx_packets": 4, "duplicate_request": 2},
		},
		{
			name: "an implied NAK and the READ request that it repeats",
			text: `
				0 > read 1+3
				2 < resp 1
				3 < resp 2 drop
				4 < resp 3
				6 > read 2+2
				8 < resp 2
				9 < resp 3`,
			requester: counts{"tx_packets": 2, "rx_packets": 4, "implied_nak_seq_err": 1},
			responder: counts{"tx_packets": 5, "rx_packets": 2, "duplicate_request": 1},
		},
		{
			name: "an RNR NAK",
			text: `
				0 > send 1 ar
				2 < rnr 1 code=1
				15 > send 1 ar
				17 < ack 1`,
			requester: counts{"tx_packets": 2, "rx_packets": 2, "rnr_nak_retry_err": 1},
			responder: counts{"tx_packets": 2, "rx_packets": 2, "out_of_buffer": 1},
		},
		{
			name: "a CNP ignored by a reaction point that is off",
			text: `
				0 > only 1 ar ce
				1 < cnp
				2 < ack 1`,
			requester: counts{"tx_packets": 1, "rx_packets": 2, "rp_cnp_ignored": 1},
			responder: counts{"tx_packets": 2, "rx_packets": 1, "np_cnp_sent": 1, "np_ecn_marked_roce_packets": 1},
		},
		{
			name: "a requester that ignores a NAK after all that it sent may have run out of retries",
			text: `
				0 > only 1 ar
				1 < ack 1 drop
				70000 > only 1 ar
				70001 < nak 2`,
			requester: counts{"tx_packets": 2, "rx_packets": 1, "local_ack_timeout_err": 2},
			responder: counts{"tx_packets": 2, "rx_packets": 2, "duplicate_request": 1},
		},
		{
			name:      "the last expiry of a timer that finds no retry left leaves no packet",
			text:      "0 > only 1 ar drop\n 67000 > only 1 ar drop",
			requester: counts{"tx_packets": 2, "local_ack_timeout_err": 2},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := analyse(t, meta, hosts(test.requester, test.responder), test.text); got != nil {
				t.Errorf("findings: %v", got)
			}
		})
	}
}

func TestWhatIsNotCompared(t *testing.T) {
	connections := tracetest.Connections(1, false)
	requester, responder := right()
	t.Run("after a discard nothing is", func(t *testing.T) {
		input := hosts(counts{}, counts{})
		input.Hosts[1].Finish["rx_discards"] = 3
		want := []string{"warning counters.discards: 0 != 3"}
		if diff := cmp.Diff(want, analyse(t, tracetest.Meta(connections), input, lossTrace)); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
	t.Run("a plain capture shows too little", func(t *testing.T) {
		meta := trace.Meta{Kind: trace.KindPlain, Connections: connections}
		want := []string{"note counters.not-judged: a trace that shows which packets were delivered != plain trace"}
		if diff := cmp.Diff(want, analyse(t, meta, hosts(counts{}, counts{}), lossTrace)); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
	t.Run("a missing counter is noted", func(t *testing.T) {
		input := hosts(requester, responder)
		delete(input.Hosts[0].Finish, "packet_seq_err")
		want := []string{"note counters.missing: packet_seq_err != not offered"}
		if diff := cmp.Diff(want, analyse(t, tracetest.Meta(connections), input, lossTrace)); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
	t.Run("a counter that went back is a warning", func(t *testing.T) {
		input := hosts(requester, responder)
		input.Hosts[0].Finish["packet_seq_err"] = 0
		want := []string{"warning counters.went-back: at least 1000 != 0"}
		if diff := cmp.Diff(want, analyse(t, tracetest.Meta(connections), input, lossTrace)); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
	t.Run("with delayed packets only what does not depend on their order is compared", func(t *testing.T) {
		got := analyse(t, tracetest.Meta(connections), hosts(counts{"tx_packets": 1}, counts{}), "0 > only 1 ar delay")
		if len(got) != 2 || !strings.HasPrefix(got[0], "note counters.not-judged") {
			t.Errorf("findings: %v", got)
		}
	})
}

// vendorNames are the names of Lumina's text.
func TestVendorNames(t *testing.T) {
	meta := tracetest.Meta(tracetest.Connections(1, false))
	text := "0 > only 1 ar ce\n 1 < cnp\n 2 < ack 1"
	input := counters.Input{Hosts: []counters.Host{
		{
			Name: "requester", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Naming: "nvidia",
			Finish: counts{
				"tx_vport_rdma_unicast_packets": 1, "rx_vport_rdma_unicast_packets": 2, "packet_seq_err": 0, "out_of_sequence": 0,
				"implied_nak_seq_err": 0, "duplicate_request": 0, "local_ack_timeout_err": 0, "rx_icrc_encapsulated": 0,
				"np_cnp_sent": 0, "rp_cnp_handled": 1, "rp_cnp_ignored": 0, "np_ecn_marked_roce_packets": 0, "rnr_nak_retry_err": 0,
				"out_of_buffer": 0, "tx_discards_phy": 0, "rx_discards_phy": 0, "link_downed": 0,
			},
		},
		{
			Name: "responder", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}, Naming: "intel",
			Finish: counts{"TxUDP": 2, "RxUDP": 1, "cnpSent": 1, "cnpHandled": 0, "cnpIgnored": 0, "RxECNMrkd": 0},
		},
	}}
	want := []string{"violation counters.ecn-marked: 1 != 0"}
	if diff := cmp.Diff(want, analyse(t, meta, input, text)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// counted turns the truth of a simulation into counters.
func counted(c tracetest.Counts) counts {
	return counts{
		"tx_packets": c.Tx, "rx_packets": c.Rx, "packet_seq_err": c.PacketSeqErr, "out_of_sequence": c.OutOfSequence,
		"implied_nak_seq_err": c.ImpliedNak, "duplicate_request": c.Duplicates, "local_ack_timeout_err": c.Timeouts,
		"np_cnp_sent": c.CNPSent, "rp_cnp_handled": c.CNPHandled, "np_ecn_marked_roce_packets": c.Marked,
		"rnr_nak_retry_err": c.RNRReceived, "out_of_buffer": c.RNRSent,
	}
}

func TestTrueCountersAreNeverConvicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := tracetest.Scenario{
			Seed:        rapid.Uint64().Draw(t, "seed"),
			Connections: rapid.IntRange(1, 3).Draw(t, "connections"),
			Messages:    rapid.IntRange(1, 6).Draw(t, "messages"),
			Packets:     rapid.IntRange(1, 12).Draw(t, "packets"),
			Depth:       rapid.IntRange(1, 3).Draw(t, "depth"),
			Reads:       rapid.Bool().Draw(t, "reads"),
			DelayMin:    rapid.SampledFrom([]int64{0, 500, 100_000}).Draw(t, "delay"),
			Loss:        rapid.SampledFrom([]float64{0, 0.02, 0.1, 0.3}).Draw(t, "loss"),
			Mark:        rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "mark"),
			NotReady:    rapid.SampledFrom([]float64{0, 0, 0.1}).Draw(t, "not ready"),
			Timeout:     4096 << rapid.SampledFrom([]int{9, 14}).Draw(t, "exponent"),
			CNPInterval: rapid.SampledFrom([]int64{-1, 0, 4000}).Draw(t, "interval"),
		}
		sc.DelayMax = sc.DelayMin + rapid.SampledFrom([]int64{0, 300, 50_000}).Draw(t, "jitter")
		records, truth := tracetest.Simulate(sc)
		input := hosts(counted(truth.Requester), counted(truth.Responder))
		input.TimeoutNS = sc.Timeout
		a := counters.New(tracetest.Meta(tracetest.Connections(sc.Connections, false)), input)
		for i := range records {
			a.Packet(&records[i])
		}
		for _, f := range a.Finish().Findings {
			t.Fatalf("finding %+v in\n%s", f, tracetest.Format(records, f.Connection))
		}
	})
}

func TestValidateRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"an unknown naming", `{"hosts":[{"name":"a","naming":"acme"}]}`, `naming "acme" is unknown`},
		{"a start without a finish", `{"hosts":[{"name":"a","naming":"intel","start":{"x":1}}]}`,
			`counter "x" has a start but no finish`},
		{"an address of two hosts",
			`{"hosts":[{"name":"a","naming":"intel","ips":["::1"]},{"name":"b","naming":"intel","ips":["::1"]}]}`,
			`address ::1 belongs to "a" already`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var in counters.Input
			if err := json.Unmarshal([]byte(test.text), &in); err != nil {
				t.Fatal(err)
			}
			if err := in.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if err := hosts(right()).Validate(); err != nil {
		t.Errorf("valid counters are refused: %v", err)
	}
}
