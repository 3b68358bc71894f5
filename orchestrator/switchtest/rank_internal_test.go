package switchtest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Three flows of 40,000 bytes to host 0, which lose packets, and pings.
const rankTest = `
name: ranks
topology: {kind: single-switch, hosts: 4}
switch-under-test: {model: MODEL}
hosts: {transport: TRANSPORT}
taps: {capture: true}
deadline-us: 2000000
workload:
  - incast: {senders: 3, bytes: 40000, RANK}
  - ping: {src: 1, dst: 2, count: 2, interval-us: 10, rank: 77}
`

func rankPlan(t *testing.T, transport, rank string) (*Plan, error) {
	t.Helper()
	model := "droptail, data-queue-bytes: 15000"
	if transport == "ndp" {
		model = "ndp-ideal" // NDP expects trimming
	}
	tests, err := config.ParseSwitchTests("f.yml",
		[]byte(strings.NewReplacer("TRANSPORT", transport, "RANK", rank, "MODEL", model).Replace(rankTest)), Options())
	if err != nil {
		return nil, err
	}
	return New(tests[0])
}

// Every packet has the rank that its flow says when it leaves its host, and frames of captures carry it.
func TestSendersRankTheirPackets(t *testing.T) {
	for _, transport := range []string{"raw", "ndp", "tcp"} {
		for _, c := range []struct {
			rank string
			want func(remaining uint64) uint64
		}{
			{"rank: remaining", func(remaining uint64) uint64 { return remaining }},
			{"rank: 5", func(uint64) uint64 { return 5 }},
			{"rank: deadline, deadline-us: 300, start-us: 10, stagger-us: 1", nil},
		} {
			t.Run(transport+" "+c.rank, func(t *testing.T) {
				p, err := rankPlan(t, transport, c.rank)
				if err != nil {
					t.Fatal(err)
				}
				body := uint64(1500 - transports()[indexOf(transport)].HeaderSize(false))
				seen, sent := 0, []uint64{}
				p.Watch = func(n *fabric.Network) {
					n.SetTap(func(at fabric.Point, _ clock.Time, q *fabric.Packet) {
						if at.Host || at.Stage != fabric.Ingress {
							return
						}
						sent = append(sent, q.Rank)
						want, number := uint64(0), dataNumber(transport, q)
						switch {
						case q.Protocol == fabric.Echo && q.Src == 1:
							want = 77
						case number < 0:
						case c.want == nil: // flow 1 starts at 10 us
							want = 309_000 + uint64(p.Flows[q.Src-1].Number)*1000
						default:
							want = c.want(40000 - uint64(number)*body)
						}
						if seen++; q.Flags&fabric.Ranked == 0 || q.Rank != want {
							t.Errorf("%v from host %d, number %d: rank %d, want %d", q.Kind(), q.Src, number, q.Rank, want)
						}
					})
				}
				o := execute(t, p)
				if o.Verdict.Exit != orchestrator.ExitPass || seen < 80 {
					t.Errorf("%d packets: %v", seen, o.Verdict)
				}
				checkRanks(t, filepath.Join(o.Dir, "taps/before.pcap"), transport, sent)
			})
		}
	}
}

func indexOf(name string) int {
	for i, t := range transports() {
		if t.Name == name {
			return i
		}
	}
	return -1
}

// dataNumber returns the number of a data packet in its flow from 0, -1 of others.
func dataNumber(transport string, p *fabric.Packet) int {
	t := transports()[indexOf(transport)]
	if p.Protocol != t.Protocol || !t.Carries(&p.Header) {
		return -1
	}
	n := int(t.SequenceOf(&p.Header))
	if transport == "raw" {
		n-- // from 1
	}
	return n
}

// What the sender of a flow sends of it weighs what the flow does, also if hosts are simulated in parallel and flows
// are made as they start; answers weigh 1.
func TestPacketsWeighWhatTheirFlowsDo(t *testing.T) {
	for _, transport := range []string{"raw", "ndp", "tcp", "pfabric"} {
		for _, judged := range []string{"full", "off"} {
			rank := ""
			if transport == "pfabric" { // its flows have ranks
				rank = ", rank: 1"
			}
			text := fmt.Sprintf(`
name: weights
topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts-per-leaf: 3}
switch-under-test: {model: stfq-pifo}
hosts: {transport: %s}
judge: %s
expect: {completed-flows: {min: 0}}
workload:
  - flow: {src: 0, dst: 4, bytes: 40000, weight: 0.5}
  - flow: {src: 0, dst: 4, bytes: 40000, weight: 3}
  - flow: {src: 4, dst: 0, bytes: 40000}
  - ping: {src: 5, dst: 0, count: 2, interval-us: 10, weight: 7%s}
`, transport, judged, rank)
			tests, err := config.ParseSwitchTests("f.yml", []byte(text), Options())
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(tests[0])
			if err != nil {
				t.Fatal(err)
			}
			bytes := make(map[string]int32)
			p.Watch = func(n *fabric.Network) {
				var tap trace.SwitchTap
				n.SetTap(func(at fabric.Point, now clock.Time, q *fabric.Packet) {
					if !at.Host && at.Stage == fabric.Ingress && n.AtSwitch(at, now, q, &tap) {
						data := q.Protocol != fabric.Echo && dataNumber(transport, q) >= 0
						bytes[fmt.Sprintf("%d %v %d", q.Src, data, tap.Weight)] += q.Size
					}
				})
			}
			execute(t, p)
			for key, some := range map[string]bool{"0 true 500000": true, "0 true 3000000": true, "0 true 1000000": false,
				"4 true 1000000": true, "4 true 500000": false, "4 true 3000000": false, "5 false 7000000": true,
				"0 false 1000000": true, "0 false 7000000": false} {
				if (bytes[key] > 0) != some {
					t.Errorf("%s, judge: %s: host, data, weight: %v", transport, judged, bytes)
					break
				}
			}
		}
	}
}

// checkRanks compares the ranks in the payload of captured frames with those of the packets, in order.
func checkRanks(t *testing.T, file, transport string, sent []uint64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := trace.NewPcapReader(f, file)
	if err != nil {
		t.Fatal(err)
	}
	header, frames, carried := transports()[indexOf(transport)].HeaderSize(false), 0, 0
	for {
		var frame trace.Frame
		if err := r.Next(&frame); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		var h wire.Header
		if len(frame.Data) >= header && h.ParseRank(frame.Data[header:]) {
			if carried++; frames < len(sent) && h.Rank != sent[frames] {
				t.Errorf("frame %d carries rank %d, the packet has %d", frames+1, h.Rank, sent[frames])
			}
		}
		frames++
	}
	if frames != len(sent) || carried < 80 {
		t.Errorf("%d of %d frames carry a rank; %d packets were sent", carried, frames, len(sent))
	}
}

func TestRanksThatNobodyCanGiveAreRefused(t *testing.T) {
	for _, c := range []struct{ transport, rank, want string }{
		{"tcp", "packet-size: 1500", "workload[0].incast.rank"},
		{"raw", "rank: soon", "remaining, deadline, or a whole number"},
		{"raw", "rank: -1", "out of range"},
		{"raw", "rank: deadline", "needs it"},
		{"raw", "rank: 1, deadline-us: 5", "without rank: deadline"},
		{"kernel-tcp", "rank: remaining", "does not know how much of a flow remains"},
	} {
		if _, err := rankPlan(t, c.transport, c.rank); err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", c.rank, err, c.want)
		}
	}
	_, err := config.ParseSwitchTests("f.yml", []byte(`
name: x
topology: {kind: single-switch, hosts: 4}
switch-under-test: {model: droptail}
hosts: {transport: tcp}
workload: [ping: {src: 1, dst: 2, count: 2, interval-us: 10, rank: remaining}]
`), Options())
	if err == nil || !strings.Contains(err.Error(), "is for transfers of data") {
		t.Errorf("a ping with remaining bytes: %v", err)
	}
}

// On real links a datagram carries flow, number and rank.
func TestATaggedFrameTellsItsRank(t *testing.T) {
	all, sent := codecs(), wire.Header{Protocol: fabric.Raw, Src: 1, Dst: 2, Flow: 7, Number: 9, Size: 100, Original: 100}
	sent.SetRank(1 << 40)
	var d wire.Datagram
	if !d.Parse(all.AppendTagged(nil, &sent)) || !d.Intact() {
		t.Fatalf("%+v", d)
	}
	var got wire.Header
	if !all.ParseUDP(d.Body, &got) || got.Flow != 7 || got.Number != 9 ||
		got.Flags&fabric.Ranked == 0 || got.Rank != 1<<40 {
		t.Errorf("%+v", got)
	}
}

// A SYN has the rank of all bytes of its flow, and takes one: so the ACK after it and the first data have one less.
// Answers have 0 (SYN-ACK, ACKs).
func TestHandshakesHaveRanks(t *testing.T) {
	tests, err := config.ParseSwitchTests("f.yml", []byte(`
name: x
topology: {kind: single-switch, hosts: 2}
switch-under-test: {model: pifo}
hosts: {transport: tcp, handshake: true}
workload: [flow: {src: 1, dst: 0, bytes: 5000, rank: remaining}]
`), Options())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(tests[0])
	if err != nil {
		t.Fatal(err)
	}
	var ranks []uint64
	p.Watch = func(n *fabric.Network) {
		n.SetTap(func(at fabric.Point, _ clock.Time, q *fabric.Packet) {
			if at.Host && at.Stage == fabric.Egress {
				ranks = append(ranks, q.Rank)
			}
		})
	}
	o := execute(t, p)
	want := []uint64{5000, 0, 4999, 4999, 3565}
	if o.Verdict.Exit != orchestrator.ExitPass || !slices.Equal(ranks[:5], want) {
		t.Errorf("%+v: ranks %v, want %v first", o.Verdict, ranks, want)
	}
}

// inversionsOf runs a test and counts by the taps of queues, apart from the judge: for each packet that leaves, how
// many of smaller ranks wait, in all, by the rank of what leaves.
func inversionsOf(t *testing.T, text string) (byRank map[uint64]int64, o *orchestrator.Outcome) {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte(text), Options())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(tests[0])
	if err != nil {
		t.Fatal(err)
	}
	byRank = make(map[uint64]int64)
	p.Watch = func(n *fabric.Network) {
		for i := range n.Switches() {
			waiting := make([]map[uint64]int64, n.Switch(i).Ports()) // by port, then by rank
			n.Switch(i).WatchQueues(func(at fabric.Point, _ clock.Time, q *fabric.Packet) {
				if waiting[at.Port] == nil {
					waiting[at.Port] = make(map[uint64]int64)
				}
				port := waiting[at.Port]
				switch at.Stage {
				case fabric.Queued:
					port[q.Rank]++
				case fabric.Served:
					port[q.Rank]--
					for rank, n := range port {
						if rank < q.Rank {
							byRank[q.Rank] += n
						}
					}
				case fabric.Withdrawn:
					port[q.Rank]--
				}
			})
		}
	}
	return byRank, execute(t, p)
}

// Property A10: PIFO inverts nothing, SP-PIFO less than FIFO, and FIFO and AIFO something. The judge counts what queues
// do, by rank.
func TestInversionsAreThoseOfTheScheme(t *testing.T) {
	const fifo = "aifo, headroom: 0.9999, target-packets: 40"
	total := func(byRank map[uint64]int64) (n int64) {
		for _, m := range byRank {
			n += m
		}
		return n
	}
	for _, work := range []struct{ name, text string }{
		{"raw", `
name: x
topology: {kind: single-switch, hosts: 5, link: {gbps: 10, delay-ns: 500}}
switch-under-test: {model: MODEL}
hosts: {transport: raw}
duration-us: 2000
expect: {unfinished: {min: 0}}
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 5, jitter: 1, rank: 40}
  - cbr: {src: 1, dst: 4, rate-gbps: 5, jitter: 1, rank: 30}
  - cbr: {src: 2, dst: 4, rate-gbps: 5, jitter: 1, rank: 20}
  - cbr: {src: 3, dst: 4, rate-gbps: 5, jitter: 1, rank: 10}
`},
		{"TCP over a trunk", `
name: x
topology: {kind: dumbbell, hosts: 8, link: {gbps: 10, delay-ns: 500}}
switch-under-test: {model: MODEL}
hosts: {transport: tcp}
deadline-us: 100000
workload:
  - flow: {src: 0, dst: 4, bytes: 900000, rank: remaining}
  - flow: {src: 1, dst: 5, bytes: 500000, rank: remaining}
  - flow: {src: 2, dst: 6, count: 20, bytes: 20000, stagger-us: 40, rank: remaining}
  - flow: {src: 3, dst: 7, count: 9, bytes: 70000, stagger-us: 90, rank: remaining}
`},
	} {
		t.Run(work.name, func(t *testing.T) {
			sums := make(map[string]int64)
			for _, model := range []string{"pifo, queue-packets: 40", "pieo, queue-packets: 40",
				"sp-pifo, priorities: 8, packets-per-queue: 5", "aifo, target-packets: 40", fifo,
				"droptail, data-queue-bytes: 60000"} {
				byRank, o := inversionsOf(t, strings.Replace(work.text, "MODEL", model, 1))
				scheme := strings.Split(model, ",")[0]
				if model == fifo {
					scheme = "fifo"
				}
				sums[scheme] = total(byRank)
				if scheme == "droptail" { // of a family whose judge counts no inversions
					continue
				}
				metrics := make(map[string]int64)
				for _, m := range o.Analysis.Metrics {
					metrics[m.Name] = m.Sum
				}
				if a, b := metrics["rank.inversions"], metrics["rank.inversions-by-rank"]; a != sums[scheme] || b != a {
					t.Errorf("%s: the judge counts %d, and %d by rank, the queues show %d", scheme, a, b, sums[scheme])
				}
				checkRanksFile(t, filepath.Join(o.Dir, "ranks.csv"), byRank)
			}
			t.Logf("%v", sums)
			if sums["pifo"] != 0 || sums["pieo"] != 0 || sums["aifo"] <= 0 || sums["fifo"] <= 0 || sums["droptail"] <= 0 ||
				sums["sp-pifo"] >= min(sums["fifo"], sums["droptail"]) {
				t.Errorf("%v", sums)
			}
		})
	}
}

// checkRanksFile compares the inversions in ranks.csv with those of ranks, of which the file takes some together.
func checkRanksFile(t *testing.T, file string, byRank map[uint64]int64) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rest := maps.Clone(byRank)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, line := range lines[1:] {
		var from, to uint64
		var tenth, arrived, dropped, left, inversions, want int64
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, ",", " "), "%d %d %d %d %d %d %d", &from, &to, &tenth, &arrived,
			&dropped, &left, &inversions); err != nil || arrived < dropped+left || tenth < 1 || tenth > 10 {
			t.Errorf("%q: %v", line, err)
		}
		for rank, n := range byRank {
			if rank >= from && rank <= to {
				want += n
				delete(rest, rank)
			}
		}
		if inversions != want {
			t.Errorf("ranks %d to %d: %d inversions, the queues show %d", from, to, inversions, want)
		}
	}
	if len(rest) > 0 || len(lines) < 3 {
		t.Errorf("%d lines; ranks %v are not there", len(lines), rest)
	}
}
