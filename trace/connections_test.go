package trace

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

var addrs = cmpopts.EquateComparable(netip.Addr{})

const goodConnections = `{
  "schema": "candela.connections/v1",
  "connections": [
    {"index": 2, "verbs": ["read", "write"], "mtu": 4096,
     "requester": {"ip": "fd00::2", "qpn": 18, "ipsn": 16777215},
     "responder": {"ip": "fd00::1", "qpn": 18, "ipsn": 0}},
    {"index": 1, "verb": "write", "mtu": 1024,
     "requester": {"ip": "10.0.0.2", "qpn": 17, "ipsn": 1001},
     "responder": {"ip": "::ffff:10.0.0.1", "qpn": 17, "ipsn": 7}}
  ]
}`

func TestReadConnectionsOrdersAndIndexes(t *testing.T) {
	c, err := ReadConnections(strings.NewReader(goodConnections))
	if err != nil {
		t.Fatal(err)
	}
	want := []Connection{
		{Index: 1, Verb: "write", MTU: 1024,
			Requester: Side{netip.MustParseAddr("10.0.0.2"), 17, 1001}, Responder: Side{netip.MustParseAddr("10.0.0.1"), 17, 7}},
		{Index: 2, Verbs: []string{"read", "write"}, MTU: 4096,
			Requester: Side{netip.MustParseAddr("fd00::2"), 18, 16777215},
			Responder: Side{netip.MustParseAddr("fd00::1"), 18, 0}},
	}
	if diff := cmp.Diff(want, c.All(), addrs); diff != "" {
		t.Error(diff)
	}
	v4a, v4b := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
	for _, tc := range []struct {
		src, dst netip.Addr
		qpn      packet.QPN
		want     FlowID
	}{
		{v4a, v4b, 17, 0}, {v4b, v4a, 17, 1}, {v4a, v4b, 18, NoFlow}, {v4a, v4a, 17, NoFlow},
		{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1"), 18, 2},
		{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), 18, 3},
	} {
		if got := c.Flow(tc.src, tc.dst, tc.qpn); got != tc.want {
			t.Errorf("Flow(%v, %v, %v) = %d, want %d", tc.src, tc.dst, tc.qpn, got, tc.want)
		}
	}
}

func TestRelativePSNsCountFromTheSideThatAsked(t *testing.T) {
	c, err := ReadConnections(strings.NewReader(goodConnections))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		flow  FlowID
		space packet.Space
		psn   packet.PSN
		want  int64
	}{
		{"requests start at the requester's IPSN", 0, packet.Requests, 1001, 1},
		{"ACKs answer the requester's numbers", 1, packet.Responses, 1005, 5},
		{"the responder's own requests have its IPSN", 1, packet.Requests, 8, 2},
		{"and are answered by the requester in them", 0, packet.Responses, 8, 2},
		{"before the start is zero or negative", 0, packet.Requests, 1000, 0},
		{"across the 24-bit wrap", 2, packet.Requests, 2, 4},
	} {
		if got := c.RelPSN(tc.flow, tc.space, tc.psn); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	if got := c.RelPSNNear(0, packet.Requests, 1001, 1<<24); got != 1<<24+1 {
		t.Errorf("a whole turn later: %d, want %d", got, 1<<24+1)
	}
}

func TestReadConnectionsNamesEveryProblem(t *testing.T) {
	side := `{"ip":"10.0.0.1","qpn":17,"ipsn":1}`
	other := `{"ip":"10.0.0.2","qpn":17,"ipsn":1}`
	conn := `{"index":1,"verb":"write","mtu":1024,"requester":` + side + `,"responder":` + other + `}`
	doc := func(conns string) string {
		return "{\"schema\":\"candela.connections/v1\",\n\"connections\":[" + conns + "]}"
	}
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"empty input", "", []string{"1:1: not JSON: the document ends too early"}},
		{"not an object", "[]", []string{"1:1: document: want an object, found an array"}},
		{"cut", doc(conn)[:70], []string{"the document ends too early"}},
		{"another schema", `{"schema":"x","connections":[]}`, []string{`1:11: schema: "x" is not "candela.connections/v1"`}},
		{"missing keys", `{}`, []string{`key "schema" is missing`, `key "connections" is missing`}},
		{"unknown key", doc(strings.Replace(conn, `"mtu"`, `"mtux"`, 1)),
			[]string{`2:42: connections[0]: unknown key "mtux" (allowed: index, verb, verbs, mtu, timeout, retry, rnr_retry, dscp, cnp_dscp, ecn, mig_req, requester, responder)`, `key "mtu" is missing`}},
		{"unknown key in a side", doc(strings.Replace(conn, `"qpn":17`, `"qpn":17,"psn":3`, 1)),
			[]string{`connections[0].requester: unknown key "psn" (allowed: ip, qpn, ipsn)`}},
		{"repeated key", doc(strings.Replace(conn, `"mtu":1024`, `"mtu":1024,"mtu":1024`, 1)),
			[]string{`key "mtu" appears twice`}},
		{"QPN beyond 24 bits", doc(strings.Replace(conn, `"qpn":17`, `"qpn":16777216`, 1)),
			[]string{"connections[0].requester.qpn: 16777216 is not a whole number from 0 to 16777215"}},
		{"negative IPSN", doc(strings.Replace(conn, `"ipsn":1`, `"ipsn":-1`, 1)), []string{"ipsn: -1 is not a whole number"}},
		{"fractional QPN", doc(strings.Replace(conn, `"qpn":17`, `"qpn":1.5`, 1)),
			[]string{"qpn: 1.5 is not a whole number"}},
		{"QPN as text", doc(strings.Replace(conn, `"qpn":17`, `"qpn":"0x11"`, 1)),
			[]string{`want a whole number, found the string "0x11"`}},
		{"impossible MTU", doc(strings.Replace(conn, "1024", "1500", 1)),
			[]string{"connections[0].mtu: 1500 is not a path MTU (256, 512, 1024, 2048, 4096)"}},
		{"unknown verb", doc(strings.Replace(conn, `"write"`, `"wirte"`, 1)),
			[]string{`.verb: "wirte" is not a verb (write, write-imm,`}},
		{"verb and verbs", doc(strings.Replace(conn, `"verb":"write"`, `"verb":"write","verbs":["read"]`, 1)),
			[]string{`"verb" and "verbs" exclude each other`}},
		{"no address", doc(strings.Replace(conn, "10.0.0.1", "10.0.0", 1)),
			[]string{`requester.ip: "10.0.0" is not an IPv4 or IPv6 address`}},
		{"mixed IP versions", doc(strings.Replace(conn, "10.0.0.1", "fd00::1", 1)), []string{"of different IP versions"}},
		{"null", doc("null"), []string{"connections[0]: want an object, found null"}},
		{"index beyond the list", doc(strings.Replace(conn, `"index":1`, `"index":2`, 1)),
			[]string{".index: 2 is out of range (1 to 1"}},
		{"index twice", doc(conn + "," + strings.Replace(conn, "17", "18", 2)), []string{"index 1 appears twice"}},
		{"flow twice", doc(conn + "," + strings.Replace(conn, `"index":1`, `"index":2`, 1)),
			[]string{"already belong to connection 1"}},
		{"something behind", doc(conn) + "{}", []string{"something follows the document"}},
		{"several at once", doc(strings.NewReplacer("1024", "1500", "write", "x").Replace(conn)),
			[]string{"mtu: 1500", `"x" is not a verb`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ReadConnections(strings.NewReader(tc.in))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

// drawConnections draws a valid set: distinct addresses keep the flows distinct.
func drawConnections(t *rapid.T) []Connection {
	n := rapid.IntRange(0, 6).Draw(t, "n")
	list := make([]Connection, n)
	qpn := rapid.Uint32Range(0, maxUint24)
	for i := range list {
		a, b := netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), netip.AddrFrom4([4]byte{10, 0, byte(i), 2})
		if rapid.Bool().Draw(t, "v6") {
			a, b = netip.AddrFrom16([16]byte{0xfd, 14: byte(i), 15: 1}), netip.AddrFrom16([16]byte{0xfd, 14: byte(i), 15: 2})
		}
		side := func(ip netip.Addr) Side {
			return Side{ip, packet.QPN(qpn.Draw(t, "qpn")), packet.PSN(qpn.Draw(t, "ipsn"))}
		}
		list[i] = Connection{Index: i + 1, MTU: rapid.SampledFrom(mtus[:]).Draw(t, "mtu"), Requester: side(a),
			Responder: side(b)}
		if verbs := rapid.SliceOfN(rapid.SampledFrom(verbNames[:]), 0, 3).Draw(t, "verbs"); len(verbs) == 1 {
			list[i].Verb = verbs[0]
		} else if len(verbs) > 1 {
			list[i].Verbs = verbs
		}
	}
	return list
}

func TestConnectionsComeBackFromTheirFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := NewConnections(drawConnections(t))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := c.Write(&b); err != nil {
			t.Fatal(err)
		}
		parsed, err := ReadConnections(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.All(), parsed.All(), addrs, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		for _, conn := range parsed.All() {
			want := NewFlowID(conn.Index, false)
			if conn.Responder.QPN == 0 {
				want = NoFlow
			}
			if got := parsed.Flow(conn.Requester.IP, conn.Responder.IP, conn.Responder.QPN); got != want {
				t.Errorf("connection %d has flow %d", conn.Index, got)
			}
		}
	})
}

func FuzzReadConnections(f *testing.F) {
	f.Add(goodConnections)
	f.Add(`{"schema":"candela.connections/v1","connections":[{"index":1,"mtu":{"a":[1,{}]},"mtu":3}]}`)
	f.Fuzz(func(t *testing.T, doc string) {
		c, err := ReadConnections(strings.NewReader(doc))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := c.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConnections(&b); err != nil {
			t.Errorf("what was read can't be read again: %v", err)
		}
	})
}

func TestFlowTableAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, model := newFlowTable(0), make(map[flowKey]FlowID)
		for i := range rapid.IntRange(1, 200).Draw(t, "inserts") {
			key := flowKey{a: rapid.Uint64Range(0, 15).Draw(t, "a"), qpn: rapid.Uint64Range(0, 15).Draw(t, "qpn")}
			want := NoFlow
			if old, ok := model[key]; ok {
				want = old
			} else {
				model[key] = FlowID(i)
			}
			if got := table.insert(key, FlowID(i)); got != want {
				t.Fatalf("insert %v: %d, want %d", key, got, want)
			}
		}
		for key, want := range model {
			if got := table.find(&key); got != want {
				t.Fatalf("find %v: %d, want %d", key, got, want)
			}
		}
	})
}
