package tcp_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
)

// lossy returns what two hosts of Linux sent and received up to the first FIN; a forwarder between them lost some
// segments. Sequence numbers begin at 0, after the SYN.
func lossy(t *testing.T, path string) (list []tcp.Observation) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		number := func(i int) uint64 {
			n, err := strconv.ParseUint(row[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if row[10] == "true" {
			return list
		}
		host := uint32(number(2))
		list = append(list, tcp.Observation{
			Time: clock.Time(clock.Duration(number(0)) * clock.Nanosecond), Number: uint64(len(list) + 1),
			Sent: row[1] == "true", Src: host, Dst: 3 - host, Connection: 1, Seq: uint32(number(3)), Ack: uint32(number(4)),
			SACKStart: uint32(number(5)), SACKEnd: uint32(number(6)), Payload: int(number(7)), SYN: row[8] == "true",
			HasACK: row[9] == "true", Window: number(11),
		})
	}
	return list
}

// judgeLinux returns the findings about hosts of Linux, which are unknown or judged as if they were models. spoil may
// change a packet.
func judgeLinux(list []tcp.Observation, unknown bool, spoil func(o *tcp.Observation)) []analyzers.Finding {
	c := tcp.Config{MSS: 1448, InitialWindow: 10, MinRTO: 200 * clock.Millisecond, InitialRTO: clock.Second,
		Handshake: true, Hold: 2 * clock.Millisecond, UnknownStack: unknown, Detection: tcp.NewReno}
	for i := range list {
		if list[i].SACKStart != list[i].SACKEnd {
			c.Detection = tcp.SACK
		}
	}
	a := tcp.New(c)
	var end clock.Time
	for _, o := range list {
		spoil(&o)
		if o.Sent {
			a.Leaves(o.Src, o.Time, clock.Nanosecond)
		}
		a.Observe(&o)
		end = o.Time
	}
	return a.Finish(end).Findings
}

// Correct hosts of Linux 6.18 under loss break no rule that is applied to unknown stacks. Each capture is of 500 kB in
// one direction: CUBIC with SACK and RACK-TLP, 5 % bursts of losses; Reno with SACK, 10 %; CUBIC without SACK, 5 %.
// testdata/capture-linux.py makes more; CANDELA_TCP_CAPTURES is the directory of those.
func TestLinuxUnderLossIsNotBlamed(t *testing.T) {
	patterns := []string{"testdata/linux-*loss.csv"}
	if more := os.Getenv("CANDELA_TCP_CAPTURES"); more != "" {
		patterns = append(patterns, filepath.Join(more, "*.csv"))
	}
	exact := make(map[string]bool)
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			list := lossy(t, file)
			for _, f := range judgeLinux(list, true, func(*tcp.Observation) {}) {
				t.Errorf("%s: %s", file, f.Message)
			}
			for _, f := range judgeLinux(list, false, func(*tcp.Observation) {}) {
				if f.Severity == analyzers.Violation && pattern == patterns[0] {
					exact[f.Rule] = true
				}
			}
		}
	}
	if len(exact) == 0 {
		t.Error("as hosts of the declared algorithms they break no rule either: then these captures show nothing")
	}
	for rule := range exact {
		if !slices.Contains(tcp.Exact(), rule) {
			t.Errorf("Linux breaks %s, which presumes no algorithm", rule)
		}
	}
}

// The same packets with a fault are blamed, although the stack is unknown.
func TestFaultsOfUnknownStacksAreFound(t *testing.T) {
	list := lossy(t, "testdata/linux-cubic-sack-loss.csv")
	for rule, spoil := range map[string]func(o *tcp.Observation){
		"tcp.seq-skip": func(o *tcp.Observation) {
			if o.Payload > 0 && o.Seq > 100_000 {
				o.Seq++
			}
		},
		"tcp.ack-beyond": func(o *tcp.Observation) {
			if o.Src == 2 && o.Ack > 0 && !o.SYN {
				o.Ack += 1448
			}
		},
		"tcp.sack-false": func(o *tcp.Observation) {
			if o.SACKEnd > o.SACKStart {
				o.SACKEnd += 50_000
			}
		},
		"tcp.retransmit-spurious": func(o *tcp.Observation) {
			if o.Payload > 0 && o.Seq > 400_000 {
				o.Seq -= 300_000
			}
		},
		"tcp.receive-window": func(o *tcp.Observation) { o.Window /= 8 },
		"tcp.sack-missing":   func(o *tcp.Observation) { o.SACKStart, o.SACKEnd = 0, 0 },
	} {
		found := judgeLinux(list, true, spoil)
		if !slices.ContainsFunc(found, func(f analyzers.Finding) bool { return f.Rule == rule }) {
			t.Errorf("%s is not found", rule)
		}
	}
}
