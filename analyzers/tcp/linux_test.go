package tcp_test

import (
	"encoding/csv"
	"os"
	"slices"
	"strconv"
	"testing"

	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// linux returns what two hosts of Linux 6.18 (CUBIC, tcp_ecn=1) sent and received; a forwarder between them marked some
// segments. Sequence numbers begin at 0.
func linux(t *testing.T) (list []tcp.Observation) {
	t.Helper()
	f, err := os.Open("testdata/linux-ecn.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		number := func(i int) uint32 {
			n, err := strconv.ParseUint(row[i], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			return uint32(n)
		}
		host := number(2)
		list = append(list, tcp.Observation{
			Time: clock.Time(clock.Duration(number(0)) * clock.Nanosecond), Number: uint64(len(list) + 1),
			Sent: row[1] == "true", HasACK: true, Src: host, Dst: 3 - host, Connection: 1, Seq: number(3), Ack: number(4),
			SACKStart: number(5), SACKEnd: number(6), Window: 1 << 24, Payload: int(number(7)), ECE: row[8] == "true",
			CWR: row[9] == "true", ECN: packet.ECN(number(10)),
		})
	}
	return list
}

// Linux's echoes, CWR and codepoints break no rule, and the same packets without them, or with more of them, do. Its
// windows are not judged: it spreads a reduction over a round trip (RFC 6937).
func TestTheECNOfLinuxIsExplained(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		spoil func(o *tcp.Observation)
	}{
		{"", func(*tcp.Observation) {}},
		{"tcp.ece-missing", func(o *tcp.Observation) { o.ECE = false }},
		{"tcp.ece-unfounded", func(o *tcp.Observation) { o.ECE = o.Src == 2 }},
		{"tcp.cwr-missing", func(o *tcp.Observation) { o.CWR = false }},
		{"tcp.cwr-unfounded", func(o *tcp.Observation) { o.CWR = o.Payload > 0 }},
		{"tcp.ect", func(o *tcp.Observation) { o.ECN = packet.ECT0 }},
	} {
		a := tcp.New(tcp.Config{MSS: 1448, InitialWindow: 10, MinRTO: 200 * clock.Millisecond, Hold: clock.Millisecond,
			ECN: tcp.ECN{On: true}})
		var end clock.Time
		for _, o := range linux(t) {
			tt.spoil(&o)
			if o.Sent {
				a.Leaves(o.Src, o.Time, clock.Nanosecond)
			}
			a.Observe(&o)
			end = o.Time
		}
		var found []string
		for _, f := range a.Finish(end).Findings {
			switch f.Rule {
			case "tcp.ece-missing", "tcp.ece-unfounded", "tcp.cwr-missing", "tcp.cwr-unfounded", "tcp.ect":
				found = append(found, f.Rule)
			}
		}
		if tt.rule == "" && len(found) > 0 || tt.rule != "" && !slices.Contains(found, tt.rule) {
			t.Errorf("want %q, got %v", tt.rule, found)
		}
	}
}
