package lldp_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/agent/lldp"
)

// tlv is one element: seven bits of type, nine of length.
func tlv(kind int, value string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(kind<<9|len(value)))) + value
}

const header = "\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x07"

// frame is one to the group, of TLVs.
func frame(tlvs ...string) []byte {
	return []byte(header + "\x88\xcc" + strings.Join(tlvs, ""))
}

var (
	mac  = tlv(1, "\x04\x02\x00\x00\x00\x00\x07")
	eth1 = tlv(2, "\x05Ethernet1/7")
	ttl  = tlv(3, "\x00\x78")
	end  = tlv(0, "")
)

func TestWhatNeighboursSayIsRead(t *testing.T) {
	for name, tt := range map[string]struct {
		frame []byte
		want  lldp.Neighbour
	}{
		"a switch": {frame(mac, eth1, ttl, tlv(4, "to requester"), tlv(5, "rack-7\x00"), tlv(7, "\x00\x14\x00\x04"),
			tlv(127, "\x00\x80\xc2\x01\x00\x01"), end),
			lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: "Ethernet1/7", System: "rack-7", PortDescription: "to requester",
				TTL: 2 * time.Minute}},
		"without the end": {frame(mac, eth1, ttl),
			lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: "Ethernet1/7", TTL: 2 * time.Minute}},
		"with padding after the end": {append(frame(mac, eth1, ttl, end), make([]byte, 40)...),
			lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: "Ethernet1/7", TTL: 2 * time.Minute}},
		"with a VLAN tag": {[]byte(header + "\x81\x00\x00\x00\x88\xcc" + mac + eth1 + ttl),
			lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: "Ethernet1/7", TTL: 2 * time.Minute}},
		"ids that are addresses": {frame(tlv(1, "\x05\x01\x0a\x01\x00\x04"), tlv(2, "\x03\x02\x00\x00\x00\x00\x09"),
			tlv(3, "\x00\x00")),
			lldp.Neighbour{Chassis: "10.1.0.4", Port: "02:00:00:00:00:09"}},
		"an id that is an IPv6 address": {frame(tlv(1,
			"\x05\x02\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"), eth1, ttl),
			lldp.Neighbour{Chassis: "2001:db8::1", Port: "Ethernet1/7", TTL: 2 * time.Minute}},
		"an address of an unknown family": {frame(tlv(1, "\x05\x07\x0a"), eth1, ttl),
			lldp.Neighbour{Chassis: "070a", Port: "Ethernet1/7", TTL: 2 * time.Minute}},
		"names that would harm a terminal": {frame(mac, tlv(2, "\x05p\x1b[2J"), ttl, tlv(5, "a\nproblem: b")),
			lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: `p\x1b[2J`, System: `a\nproblem: b`, TTL: 2 * time.Minute}},
		"an id that is not text": {frame(mac, tlv(2, "\x07\xff\xfe"), ttl),
			lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: "fffe", TTL: 2 * time.Minute}},
	} {
		got, err := lldp.Parse(tt.frame)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFramesThatBreakTheRulesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		frame []byte
		want  string
	}{
		"nothing":                  {nil, "no LLDP frame"},
		"another EtherType":        {[]byte(header + "\x08\x00" + mac + eth1 + ttl), "no LLDP frame"},
		"a tag and no more":        {[]byte(header + "\x81\x00\x00\x00"), "no LLDP frame"},
		"no TLV":                   {frame(), "0 bytes are not a header"},
		"no chassis":               {frame(eth1, ttl), "TLV 1 is of type 2"},
		"no port":                  {frame(mac, ttl), "TLV 2 is of type 3"},
		"an early end":             {frame(mac, end), "TLV 2 is of type 0"},
		"no TTL":                   {frame(mac, eth1), "0 bytes are not a header"},
		"two ports":                {frame(mac, eth1, ttl, eth1), "TLV 4 is of type 2"},
		"a TTL of one byte":        {frame(mac, eth1, tlv(3, "\x01")), "1 bytes"},
		"an id without characters": {frame(tlv(1, "\x04"), eth1, ttl), "an id of 1 bytes"},
		"an id that is too long":   {frame(tlv(1, "\x07"+strings.Repeat("x", 256)), eth1, ttl), "an id of 257 bytes"},
		"a TLV that is cut off":    {frame(mac, eth1, ttl, "\x0a\x10abc"), "16 bytes announced, 3 there"},
	} {
		if _, err := lldp.Parse(tt.frame); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if _, err := lldp.Parse(frame()[:13]); !errors.Is(err, lldp.ErrNotLLDP) {
		t.Errorf("half an EtherType: %v", err)
	}
}

func TestANeighbourGoesByItsNames(t *testing.T) {
	n := lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: "Ethernet1/7", System: "rack-7",
		PortDescription: "to requester"}
	for _, tt := range []struct {
		system, port string
		want         bool
	}{
		{"rack-7", "Ethernet1/7", true}, {"rack-7", "to requester", true}, {"02:00:00:00:00:07", "", true},
		{"", "Ethernet1/7", true},
		{"rack-8", "Ethernet1/7", false}, {"rack-7", "Ethernet1/8", false}, {"Rack-7", "", false},
	} {
		if got := n.Is(tt.system, tt.port); got != tt.want {
			t.Errorf("system %q port %q: %v", tt.system, tt.port, got)
		}
	}
	if got, want := n.String(), "rack-7 port Ethernet1/7 (to requester)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (lldp.Neighbour{Chassis: "c", Port: "p"}).String(), "chassis c port p"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzParse: a neighbour with all that it must say, in printable text, or an error.
func FuzzParse(f *testing.F) {
	f.Add(frame(mac, eth1, ttl, tlv(4, "to requester"), tlv(5, "rack-7"), end))
	f.Add(frame(tlv(1, "\x05\x01\x0a\x01\x00\x04"), tlv(2, "\x03\x02\x00\x00\x00\x00\x09"), ttl))
	f.Add(frame(tlv(1, "\x07\xff"), tlv(2, "\x07\x1b"), ttl, tlv(5, "\xe2\x80\xae")))
	f.Add([]byte(header + "\x81\x00\x00\x00\x88\xcc" + mac + eth1 + ttl))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := string(b)
		n, err := lldp.Parse(b)
		if string(b) != before {
			t.Error("the frame is changed")
		}
		if err != nil {
			return
		}
		if n.Chassis == "" || n.Port == "" || n.TTL < 0 {
			t.Errorf("%+v lacks what each must have", n)
		}
		for _, s := range []string{n.Chassis, n.Port, n.System, n.PortDescription} {
			if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
				t.Errorf("%q is not printable", s)
			}
		}
	})
}
