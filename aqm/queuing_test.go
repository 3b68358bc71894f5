package aqm_test

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/aqm"
)

// fixture is the white paper's sample in the layout of NX-OS.
const fixture = "testdata/show-queuing-interface.txt"

func sample(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parsed(t testing.TB, text string) *aqm.Queuing {
	t.Helper()
	q, err := aqm.ParseQueuing("f.txt", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// The numbers are those that the white paper prints, and that follow from them: a stream of 256-byte packets of which
// 5.60 % were dropped.
func TestTheSampleOfTheWhitePaperIsRead(t *testing.T) {
	text := sample(t)
	flat := strings.Join(strings.Fields(text), " ") + " |" // as the text of the white paper has it
	for _, text := range []string{text, flat, strings.ReplaceAll(text, "\n", "\r\n"), "\ufeff" + text} {
		q := parsed(t, text)
		f := q.Interface("Ethernet1/1")
		if len(q.Interfaces) != 1 || f == nil || f.Policy != "Interface" || len(f.Queues) != 8 || len(f.Groups) != 1 {
			t.Fatalf("%+v", q)
		}
		if f.Queues[0] != (aqm.QueueShape{Group: 7, Bandwidth: "-", Priority: "1", Min: "-", Max: "-", Units: "-",
			Limit: "9(D)"}) || f.Queues[7].Bandwidth != "100" {
			t.Errorf("%+v", f.Queues)
		}
		g := f.Group("QOS GROUP 0")
		if g == nil || g.Number != 0 || !slices.Equal(g.Columns, []string{"Unicast", "Multicast"}) {
			t.Fatalf("%+v", g)
		}
		for name, want := range map[string]uint64{"Tx Pkts": 2523844, "Tx Byts": 645096506, "WRED/AFD Drop Pkts": 149786,
			"WRED/AFD Drop Byts": 38345468, "Q Depth Byts": 247504, "WD & Tail Drop Pkts": 149786} {
			if got, ok := g.Sum(name); !ok || got != want {
				t.Errorf("%s: %d", name, got)
			}
		}
		if broken := q.Check(aqm.Bounds{MTU: 1518}); len(broken) > 0 {
			t.Errorf("%+v", broken)
		}
	}
}

// Outputs of other releases and models: prompts, ingress tables, a third column, groups without a number, tables
// without columns' names.
const others = `
switch# show queuing interface
slot  1
=======
Egress Queuing for Ethernet2/1 [System]
+-------------------------------------------------------------------+
|                              QOS GROUP 0                          |
+-------------------------------------------------------------------+
|                |  Unicast       | OOBFC Unicast  |  Multicast     |
+-------------------------------------------------------------------+
|        Tx Pkts |              12|              22|              34|
|   Dropped Pkts |               1|               0|               2|
+-------------------------------------------------------------------+
|                      CONTROL QOS GROUP                            |
+-------------------------------------------------------------------+
|        Tx Pkts |              50|   Dropped Pkts |               6|
+-------------------------------------------------------------------+
Port Egress Statistics
--------------------------------------------------------
WRED Drop Pkts                             0
Ingress Queuing for Ethernet2/1
| QoS-Group# |   Pause |
Egress Queuing for Ethernet2/2 [System]
|  QOS GROUP 3 |
+---+
| | Unicast |
+---+
| Tx Pkts | 5 |
+---+
`

func TestTextsOfOtherReleasesAreRead(t *testing.T) {
	q := parsed(t, others)
	if len(q.Interfaces) != 2 || len(q.Interfaces[0].Groups) != 2 || len(q.Interfaces[1].Groups) != 1 {
		t.Fatalf("%+v", q)
	}
	data, control := &q.Interfaces[0].Groups[0], &q.Interfaces[0].Groups[1]
	if n, _ := data.Sum("Tx Pkts"); n != 68 || len(data.Columns) != 3 || control.Number != -1 {
		t.Errorf("%+v, %+v", data, control)
	}
	if n, ok := control.Sum("Dropped Pkts"); n != 6 || !ok {
		t.Errorf("%+v", control)
	}
}

func TestWhatIsWrongWithATextIsSaidWhereItIs(t *testing.T) {
	text := sample(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"nothing":              {text, "", `f.txt:1:1: no interface, want "Egress Queuing for NAME"`},
		"another command":      {"Egress Queuing", "Ingress Queuing", "f.txt:1:1: no interface"},
		"a number":             {"2523844|", "252x844|", `f.txt:24:39: "252x844" as value 1 of Tx Pkts, want a whole number`},
		"negative":             {"2523844|", "-523844|", `"-523844" as value 1 of Tx Pkts, want a whole number from 0`},
		"more than 64 bits":    {"2523844|", "99999999999999999999|", "want a number of at most 64 bits"},
		"a missing value":      {"2523844|", "       |", `f.txt:25:21: "Tx Byts" as value 2 of Tx Pkts`},
		"a missing bar":        {"         149786|               0|\n+", "         149786|               0 \n+", "is not between bars"},
		"cut off":              {"247504", "2475", ""},
		"a counter twice":      {"Tx Byts", "Tx Pkts", "f.txt:25:21: Tx Pkts is in the table twice"},
		"no title":             {"QOS GROUP 0", "GROUP 0", `f.txt:20:32: "GROUP 0", want QOS GROUP and its number`},
		"no number of a title": {"QOS GROUP 0", "QOS GROUP x", `"QOS GROUP x", want a number from 0`},
		"a group twice": {"      6             0", "      7             0",
			"f.txt:12:7: QoS group 7, want each group once"},
		"a short line": {"      0           100         -           -            -     -            9(D)",
			"      0           100         -           -", "want Max of QoS group 0"},
		"an interface twice": {"n9k#", text + "n9k#", "Ethernet1/1 is already on line 6"},
		"no name":            {"for Ethernet1/1", "for", `f.txt:6:20: "[Interface]", want the name of an interface`},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := strings.Replace(text, c.old, c.new, 1)
			if c.want == "" {
				wrong = text[:strings.Index(text, c.old)+4]
				c.want = "f.txt:28:44: the text ends within a table"
			}
			q, err := aqm.ParseQueuing("f.txt", []byte(wrong))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %+v", err, q)
			}
		})
	}
}

func TestWrongCountersAreFound(t *testing.T) {
	text := sample(t)
	for name, c := range map[string]struct {
		old, new, want string
		bounds         aqm.Bounds
	}{
		"fewer drops than early ones": {"WD & Tail Drop Pkts |          149786", "WD & Tail Drop Pkts |          149785",
			"149785, fewer than the 149786 early drops", aqm.Bounds{MTU: 1518}},
		"frames too short": {"645096506", "125096506", "bytes of 2523844 packets, want 60 to", aqm.Bounds{MTU: 1518}},
		"frames too long":  {"38345468", "9938345468", "want 60 to 1518 bytes", aqm.Bounds{MTU: 1518}},
		"bytes of nothing": {"149786|               0|\n|        WRED/AFD Drop Byts", "0|               0|\n|        WRED/AFD Drop Byts",
			"38345468 bytes of 0 packets", aqm.Bounds{MTU: 1518}},
		"early drops with ECN": {"n9k", "n9k", "although ECN-capable packets are marked", aqm.Bounds{MTU: 1518, AllECN: true}},
	} {
		t.Run(name, func(t *testing.T) {
			broken := parsed(t, strings.Replace(text, c.old, c.new, 1)).Check(c.bounds)
			if len(broken) != 1 || !strings.Contains(broken[0].What, c.want) || broken[0].Line < 22 {
				t.Errorf("%+v", broken)
			}
		})
	}
}

func TestCountersAreComparedWithTaps(t *testing.T) {
	q := parsed(t, sample(t))
	// 247,504 bytes wait: 967 frames of 256 bytes
	arrived := &aqm.Observed{Packets: 2523844 + 149786 + 967}
	for _, c := range []struct {
		taps aqm.Taps
		want string
	}{
		{aqm.Taps{Sent: &aqm.Observed{Packets: 2523844, Bytes: 645096506}, Arrived: arrived}, ""},
		{aqm.Taps{Sent: &aqm.Observed{Packets: 2523844, Bytes: 645096506 - 4*2523844}}, ""}, // it counts FCS
		{aqm.Taps{Sent: &aqm.Observed{Packets: 2523843, Bytes: 645096506}}, "the tap saw 2523843 frames leave"},
		{aqm.Taps{Sent: &aqm.Observed{Packets: 2523844, Bytes: 645096505}}, "the frames that left have 645096505 bytes"},
		{aqm.Taps{Arrived: &aqm.Observed{Packets: 2523844 + 149786}}, "the other 0 cannot be the 247504 bytes that wait"},
		{aqm.Taps{Arrived: &aqm.Observed{Packets: 2523844}}, "fewer than 2523844 sent and 149786 dropped"},
	} {
		broken, err := q.CheckTaps("Ethernet1/1", c.taps, aqm.Bounds{MTU: 1518})
		if err != nil || (len(broken) == 0) != (c.want == "") || len(broken) > 0 && !strings.Contains(broken[0].What, c.want) {
			t.Errorf("%+v: %v, %+v", c.taps, err, broken)
		}
	}
	if _, err := q.CheckTaps("Ethernet1/2", aqm.Taps{}, aqm.Bounds{}); err == nil ||
		!strings.Contains(err.Error(), "want one of its interfaces: Ethernet1/1") {
		t.Error(err)
	}
	if _, err := parsed(t, others).CheckTaps("Ethernet2/2", aqm.Taps{}, aqm.Bounds{}); err == nil ||
		!strings.Contains(err.Error(), "has no counter Tx Byts") {
		t.Error(err)
	}
}

func TestCountersGrow(t *testing.T) {
	text := sample(t)
	later := strings.Replace(strings.Replace(text, "2523844", "2523850", 1), "38345468", "38345460", 1)
	grown, broken, err := parsed(t, later).Since(parsed(t, text))
	if err != nil || len(broken) != 1 || !strings.Contains(broken[0].What, "fell from 38345468 to 38345460") {
		t.Fatalf("%v, %+v", err, broken)
	}
	g := &grown.Interfaces[0].Groups[0]
	packets, _ := g.Sum(aqm.RowTxPackets)
	if depth, _ := g.Sum(aqm.RowDepth); packets != 6 || depth != 247504 {
		t.Errorf("%+v", g)
	}
	for _, other := range []string{strings.ReplaceAll(text, "Ethernet1/1", "Ethernet1/2"),
		strings.Replace(text, "GROUP 0", "GROUP 1", 1), strings.Replace(text, "Tx Byts", "Tx Bytes", 1)} {
		if _, _, err := parsed(t, text).Since(parsed(t, other)); err == nil {
			t.Error("texts of other counters were subtracted")
		}
	}
}

func written(t testing.TB, q *aqm.Queuing) string {
	t.Helper()
	var b bytes.Buffer
	if n, err := q.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatal(n, err)
	}
	return b.String()
}

// same reports whether two texts show the same.
func same(a, b *aqm.Queuing) bool {
	for _, q := range []*aqm.Queuing{a, b} {
		for i := range q.Interfaces {
			q.Interfaces[i].Line = 0
			for j := range q.Interfaces[i].Groups {
				g := &q.Interfaces[i].Groups[j]
				g.Line = 0
				for k := range g.Rows {
					g.Rows[k].Line = 0
				}
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

func TestAWrittenTextIsTheSample(t *testing.T) {
	text := sample(t)
	want := text[strings.Index(text, "\nEgress"):]
	if got := written(t, parsed(t, text)); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func FuzzParseQueuing(f *testing.F) {
	f.Add(sample(f))
	f.Add(others)
	f.Add("Egress Queuing for x\n|QOS GROUP 0|\n+-+\n|a|1|b|2|\n+-+")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := aqm.ParseQueuing("f.txt", []byte(text))
		if err != nil {
			if !regexp.MustCompile(`^f\.txt:[1-9][0-9]*:[1-9][0-9]*: .`).MatchString(err.Error()) {
				t.Fatalf("the error names no place: %v", err)
			}
			return
		}
		q.Check(aqm.Bounds{MTU: 1518})
		again := parsed(t, written(t, q))
		if !same(q, again) {
			t.Fatalf("%+v was written and read as %+v", q, again)
		}
	})
}
