package packet_test

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

var cmMessages = []packet.CM{
	{Attribute: packet.CMConnectRequest, LocalID: 0x11223344, QPN: 0xabcdef, StartingPSN: 0x123456, MTU: 2048, Timeout: 18,
		Retry: 5, RNRRetry: 6, Service: 1},
	{Attribute: packet.CMConnectRequest, LocalID: 1, QPN: 17, StartingPSN: 0xffffff, MTU: 256, Timeout: 31, Retry: 7},
	{Attribute: packet.CMConnectReply, LocalID: 0x55667788, RemoteID: 0x11223344, QPN: 0xfedcba, StartingPSN: 0x654321,
		RNRRetry: 3},
	{Attribute: packet.CMReadyToUse, LocalID: 0x11223344, RemoteID: 0x55667788},
	{Attribute: packet.CMDisconnectRequest, LocalID: 0x11223344, RemoteID: 0x55667788, QPN: 0xfedcba},
	{Attribute: packet.CMDisconnectReply, LocalID: 0x55667788, RemoteID: 0x11223344},
	{Attribute: packet.CMReject, LocalID: 0x55667788, RemoteID: 0x11223344, Reason: 28},
	{Attribute: packet.CMMessageReceipt, LocalID: 0x55667788, RemoteID: 0x11223344},
	{Attribute: packet.CMResolveRequest, LocalID: 0x99},
	{Attribute: packet.CMResolveReply, LocalID: 0x99, QPN: 0x4711, Reason: 1},
}

func TestCMMessagesSurviveEncoding(t *testing.T) {
	for _, c := range cmMessages {
		b := c.AppendCM(nil)
		got, ok := packet.ParseCM(b)
		if diff := cmp.Diff(c, got); !ok || diff != "" || len(b) != packet.MADLen {
			t.Errorf("%v: found %v, %d bytes\n%s", &c, ok, len(b), diff)
		}
		for n := range b {
			packet.ParseCM(b[:n]) // whatever was captured
		}
	}
}

// cmByTable is a REQ composed by hand from the tables of IBTA volume 1, 12.6.5, without our encoder: each line is one
// or more fields.
const cmByTable = `
	80010000 00000001                   DETH: queue key, source queue pair
	01 07 02 03 0000 0000               MAD: base version, class CM, class version, method Send, status, class specific
	0000000100000002 0010 0000 00000000 transaction, attribute ConnectRequest, reserved, modifier
	0a0b0c0d 00000000                   local communication id, reserved
	0000000001061234                    service id
	0002c90300a1b2c3                    local CA GUID
	00000000 80010042                   reserved, local queue key
	00abcd 10                           local QPN, responder resources
	000000 11                           local EECN, initiator depth
	000000 a0                           remote EECN; remote CM response timeout 20, service type 0 (RC), flow control 0
	7b2d01 a6                           starting PSN; local CM response timeout 20, retry count 6
	ffff 37 f0                          P_Key; path MTU 3 (1024), RDC exists 0, RNR retry 7; max CM retries 15, SRQ 0, extended type 0
	ffff ffff                           primary local and remote LID
	00000000000000000000ffff0a000001    primary local GID
	00000000000000000000ffff0a000002    primary remote GID
	00000007 00 40 00 90                flow label 0, packet rate 7; traffic class, hop limit, SL; local ACK timeout 18
`

func byTable(t *testing.T) []byte {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(cmByTable) {
		for i, word := range strings.Fields(line) {
			if _, err := hex.DecodeString(word); err != nil || i > 7 {
				break
			}
			text.WriteString(word)
		}
	}
	b, err := hex.DecodeString(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, packet.MADLen-len(b))...)
}

func TestAConnectRequestComposedFromTheTables(t *testing.T) {
	b := byTable(t)
	if len(b) != packet.MADLen {
		t.Fatalf("%d bytes", len(b))
	}
	want := packet.CM{Attribute: packet.CMConnectRequest, LocalID: 0x0a0b0c0d, QPN: 0xabcd, StartingPSN: 0x7b2d01,
		MTU: 1024, Timeout: 18, Retry: 6, RNRRetry: 7}
	got, ok := packet.ParseCM(b)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("found %v\n%s", ok, diff)
	}
}

// tshark is the independent witness of where the fields lie.
func TestTsharkReadsTheSameConnectionManagerFields(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed (make setup)")
	}
	pcapFile := filepath.Join(t.TempDir(), "cm.pcap")
	var file []byte
	file = append(file,
		"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x01\x00\x00\x00"...)
	bodies := [][]byte{byTable(t)}
	for i := range cmMessages {
		bodies = append(bodies, cmMessages[i].AppendCM(nil))
	}
	for i, body := range bodies {
		p := sample(packet.WriteOnly, 0)
		p.Headers, p.BTH.Opcode, p.BTH.DestQP, p.Payload, p.BTH.PadCount = packet.HasBTH, packet.UDSendOnly, packet.GSI, body,
			0
		overIPv4(p)
		frame := p.AppendTo(nil)
		var h [16]byte
		binary.LittleEndian.PutUint32(h[0:], uint32(i+1))
		binary.LittleEndian.PutUint32(h[8:], uint32(len(frame)))
		binary.LittleEndian.PutUint32(h[12:], uint32(len(frame)))
		file = append(append(file, h[:]...), frame...)
	}
	if err := os.WriteFile(pcapFile, file, 0o600); err != nil {
		t.Fatal(err)
	}
	fields := []string{
		"mad.attributeid", "cm.req", "cm.req.localqpn", "cm.req.startpsn", "cm.req.pppmtu", "cm.req.prim_localacktout",
		"cm.req.retrcount", "cm.req.rnrretrcount",
		"cm.req.transpsvctype", "cm.rep.remotecommid", "cm.rep.localqpn", "cm.rep.startpsn", "cm.rep.rnrretrcount",
		"cm.rtu.localcommid",
		"cm.rtu.remotecommid", "cm.dreq.localcommid", "cm.dreq.remotecommid", "cm.rej.reason",
	}
	args := []string{"-n", "-r", pcapFile, "-T", "fields", "-E", "separator=,"}
	for _, f := range fields {
		args = append(args, "-e", "infiniband."+f)
	}
	out, err := exec.Command(tshark, args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(bodies) {
		t.Fatalf("tshark decodes %d frames of %d", len(lines), len(bodies))
	}
	for i, line := range lines {
		c, ok := packet.ParseCM(bodies[i])
		if !ok {
			t.Fatalf("message %d is not decoded", i)
		}
		got := strings.Split(line, ",")
		check := func(name string, want uint64) {
			t.Helper()
			text := got[slices.Index(fields, name)]
			if v, err := strconv.ParseUint(text, 0, 64); err != nil || v != want {
				t.Errorf("message %d (%v): tshark has %s %q, candela %d", i, c.Attribute, name, text, want)
			}
		}
		check("mad.attributeid", uint64(c.Attribute))
		switch c.Attribute {
		case packet.CMConnectRequest:
			check("cm.req.localqpn", uint64(c.QPN))
			check("cm.req.startpsn", uint64(c.StartingPSN))
			check("cm.req.pppmtu", uint64(bits.TrailingZeros16(c.MTU)-7))
			check("cm.req.prim_localacktout", uint64(c.Timeout))
			check("cm.req.retrcount", uint64(c.Retry))
			check("cm.req.rnrretrcount", uint64(c.RNRRetry))
			check("cm.req.transpsvctype", uint64(c.Service))
		case packet.CMConnectReply:
			check("cm.rep.remotecommid", uint64(c.RemoteID))
			check("cm.rep.localqpn", uint64(c.QPN))
			check("cm.rep.startpsn", uint64(c.StartingPSN))
			check("cm.rep.rnrretrcount", uint64(c.RNRRetry))
		case packet.CMReadyToUse:
			check("cm.rtu.localcommid", uint64(c.LocalID))
			check("cm.rtu.remotecommid", uint64(c.RemoteID))
		case packet.CMDisconnectRequest:
			check("cm.dreq.localcommid", uint64(c.LocalID))
			check("cm.dreq.remotecommid", uint64(c.RemoteID))
		case packet.CMReject:
			check("cm.rej.reason", uint64(c.Reason))
		default: // tshark does not decode these any further
		}
	}
}

// FuzzParseCM decodes arbitrary bytes: no input panics, and what is decoded survives encoding.
func FuzzParseCM(f *testing.F) {
	for i := range cmMessages {
		f.Add(cmMessages[i].AppendCM(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := packet.ParseCM(b)
		if !ok {
			return
		}
		parsed, ok := packet.ParseCM(c.AppendCM(nil))
		if diff := cmp.Diff(c, parsed); !ok || diff != "" {
			t.Errorf("found %v\n%s", ok, diff)
		}
		_ = c.String()
	})
}
