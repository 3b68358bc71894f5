package orchestrator_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

var (
	hostA = netip.MustParseAddr("10.0.0.1")
	hostB = netip.MustParseAddr("10.0.0.2")
)

// onWire returns a frame from host A to host B, or in the other direction.
func onWire(back bool, op packet.Opcode, qpn packet.QPN, psn packet.PSN, payload int,
	change ...func(*packet.Packet)) []byte {
	p := packet.Packet{
		Eth: packet.Ethernet{Dst: packet.MAC{2, 0, 0, 0, 0, 2}, Src: packet.MAC{2, 0, 0, 0, 0, 1},
			Type: packet.EtherTypeIPv4},
		IP:  packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP, Src: hostA, Dst: hostB, TOS: 2},
		UDP: packet.UDP{SrcPort: 50000, DstPort: packet.Port}, HasUDP: true, Derived: true,
		Headers: packet.HasBTH | op.Headers(),
		BTH: packet.BTH{Opcode: op, PKey: 0xffff, DestQP: qpn, PSN: psn, PadCount: uint8(-payload & 3),
			AckReq: op.IsRequest() && op.Ends()},
		Payload: make([]byte, payload),
	}
	p.RETH.Length = uint32(payload)
	p.AETH = packet.AETH{Syndrome: packet.SyndromeAckNoCredit, MSN: 1}
	if back {
		p.Eth.Dst, p.Eth.Src, p.IP.Src, p.IP.Dst = p.Eth.Src, p.Eth.Dst, p.IP.Dst, p.IP.Src
	}
	for _, c := range change {
		c(&p)
	}
	return p.AppendTo(nil)
}

func capture(t *testing.T, name string, frames ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := trace.NewPcapWriter(f, path, 0)
	for i, b := range frames {
		if err := w.Write(1_700_000_000_000_000_000+int64(i)*1000, b, len(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func analyze(t *testing.T, o orchestrator.AnalyzeOptions) *orchestrator.Outcome {
	t.Helper()
	outcome, err := orchestrator.Analyze(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// A capture of RoCE packets that no rule applies to does not pass. The reason lists its contents and what to capture
// instead.
func TestACaptureInWhichNothingIsJudgedIsInvalid(t *testing.T) {
	repeat := func(n int, f func(i int) []byte) (frames [][]byte) {
		for i := range n {
			frames = append(frames, f(i))
		}
		return frames
	}
	cnp := func(int) []byte { return onWire(true, packet.CNP, 7, 0, 16) }
	ack := func(i int) []byte { return onWire(true, packet.Acknowledge, 7, packet.PSN(i), 0) }
	service := func(op packet.Opcode, qpn packet.QPN) func(int) []byte {
		return func(i int) []byte { return onWire(false, op, qpn, packet.PSN(i), 256) }
	}
	write := func(i int) []byte { return onWire(false, packet.WriteOnly, 9, packet.PSN(i), 256) }
	damaged := func(i int) []byte {
		b := write(i)
		b[len(b)-1] ^= 1
		return b
	}
	document := filepath.Join(t.TempDir(), "connections.json")
	if err := os.WriteFile(document,
		[]byte(`{"schema": "candela.connections/v1", "connections": [{"index": 1, "verb": "write", "mtu": 1024,
		"requester": {"ip": "10.0.0.1", "qpn": 70, "ipsn": 0}, "responder": {"ip": "10.0.0.2", "qpn": 90, "ipsn": 0}}]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		frames      [][]byte
		connections string
		says        []string
	}{
		{"only CNPs", repeat(5, cnp), "", []string{"5 CNPs", "data packets"}},
		{"only ACKs", repeat(9, ack), "", []string{"9 responses", "both directions"}},
		{"only NAKs", repeat(3, func(i int) []byte {
			return onWire(true, packet.Acknowledge, 7, 5, 0,
				func(p *packet.Packet) { p.AETH.Syndrome = packet.SyndromeNakSequence })
		}), "", []string{"3 responses", "both directions"}},
		{"only READ responses", repeat(4,
			func(i int) []byte { return onWire(true, packet.ReadResponseOnly, 7, packet.PSN(i), 256) }), "",
			[]string{"4 responses", "both directions"}},
		{"only MADs", repeat(6, service(0x64, 1)), "", []string{"6 MADs", "while the test runs"}},
		{"only unreliable datagrams", repeat(6, service(0x64, 300)), "",
			[]string{"6 unreliable datagrams", "reliable connection"}},
		{"only the unreliable connection service", repeat(6, service(0x2a, 300)), "",
			[]string{"6 packets of unreliable connections"}},
		{"only the extended reliable connection service", repeat(2, service(0xaa, 300)), "",
			[]string{"2 packets of extended reliable connections"}},
		{"only undefined opcodes", repeat(2, service(0x1f, 300)), "", []string{"2 packets with an undefined opcode"}},
		{"CNPs, ACKs and MADs", append(append(repeat(2, cnp), repeat(3, ack)...), repeat(1, service(0x64, 1))...), "",
			[]string{"2 CNPs", "3 responses", "1 MAD"}},
		{"a document that matches no packet", repeat(4, write), document,
			[]string{"4 packets that belong to no connection", "--connections"}},
		{"a document that matches only CNPs", append(repeat(4, write), onWire(true, packet.CNP, 70, 0, 16)), document,
			[]string{"1 CNP", "4 packets that belong to no connection"}},
		{"a document that matches only responses", append(repeat(4, write), onWire(true, packet.Acknowledge, 70, 0, 0)),
			document,
			[]string{"1 response", "4 packets that belong to no connection"}},
		{"all but a CNP is damaged", append(repeat(1, cnp), repeat(2, damaged)...), "",
			[]string{"2 packets with a wrong iCRC"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := orchestrator.AnalyzeOptions{Trace: capture(t, "tap.pcap", tc.frames...), Connections: tc.connections}
			outcome := analyze(t, o)
			text := strings.Join(outcome.Verdict.Reasons, "\n")
			if outcome.Verdict.Exit != orchestrator.ExitInvalid || outcome.Analysis.Verdict != analyzers.Invalid {
				t.Fatalf("exit %d, analysis %s: %s", outcome.Verdict.Exit, outcome.Analysis.Verdict, text)
			}
			for _, want := range tc.says {
				if !strings.Contains(text, want) {
					t.Errorf("reason %q does not say %q", text, want)
				}
			}
			if len(outcome.Analysis.Findings) != 1 || outcome.Analysis.Findings[0].Rule != "integrity.unjudged" {
				t.Errorf("findings %v", outcome.Analysis.Findings)
			}
		})
	}
}

// With one more request the same captures are judged.
func TestACaptureWithOneRequestIsJudged(t *testing.T) {
	frames := [][]byte{onWire(false, packet.WriteOnly, 9, 3, 256), onWire(true, packet.Acknowledge, 7, 3, 0)}
	if o := analyze(t, orchestrator.AnalyzeOptions{Trace: capture(t, "tap.pcap",
		frames...)}); o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("exit %d: %v", o.Verdict.Exit, o.Verdict.Reasons)
	}
	frames = [][]byte{onWire(false, packet.WriteOnly, 9, 3, 256, func(p *packet.Packet) { p.BTH.PadCount = 2 })}
	if o := analyze(t, orchestrator.AnalyzeOptions{Trace: capture(t, "tap.pcap",
		frames...)}); o.Verdict.Exit != orchestrator.ExitFail {
		t.Errorf("a request with a wrong pad count, alone: exit %d: %v", o.Verdict.Exit, o.Verdict.Reasons)
	}
}

// A capture with more flows than inference follows is invalid; flows are not dropped silently.
func TestACaptureOfTooManyFlowsIsInvalid(t *testing.T) {
	var frames [][]byte
	for i := range 8193 {
		frames = append(frames, onWire(false, packet.WriteOnly, packet.QPN(100+i), 3, 0))
	}
	path := capture(t, "tap.pcap", frames...)
	o := analyze(t, orchestrator.AnalyzeOptions{Trace: path})
	text := strings.Join(o.Verdict.Reasons, "\n")
	if o.Verdict.Exit != orchestrator.ExitInvalid || !strings.Contains(text, "more than 8192 flows") ||
		!strings.Contains(text, "--connections") {
		t.Errorf("exit %d: %s", o.Verdict.Exit, text)
	}
	o = analyze(t, orchestrator.AnalyzeOptions{Trace: path, Second: path})
	if o.Verdict.Exit != orchestrator.ExitInvalid {
		t.Errorf("of a pair: exit %d: %v", o.Verdict.Exit, o.Verdict.Reasons)
	}
}

func TestACaptureWithoutRoCEIsAnInputError(t *testing.T) {
	arp := append(make([]byte, 12), append([]byte{8, 6}, make([]byte, 46)...)...)
	none, some := capture(t, "arp.pcap", arp), capture(t, "some.pcap", onWire(false, packet.WriteOnly, 9, 3, 256))
	for _, o := range []orchestrator.AnalyzeOptions{{Trace: none}, {Trace: none, Second: some},
		{Trace: some, Second: none}} {
		if _, err := orchestrator.Analyze(t.Context(), o); err == nil || !errors.Is(err, orchestrator.ErrInput) ||
			!strings.Contains(err.Error(), "arp.pcap") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Requests alone are judged by the rules on requests: correct ones pass with a note on the unjudged packets, wrong ones
// fail.
func TestRequestsAloneAreJudgedByWhatTheyShow(t *testing.T) {
	writes := func(wrong int, change func(p *packet.Packet)) (frames [][]byte) {
		for i := range 6 {
			if i == wrong {
				frames = append(frames, onWire(false, packet.WriteOnly, 9, packet.PSN(i), 256, change))
				continue
			}
			frames = append(frames, onWire(false, packet.WriteOnly, 9, packet.PSN(i), 256))
		}
		return frames
	}
	read := func(psn packet.PSN, length uint32) []byte {
		return onWire(false, packet.ReadRequest, 9, psn, 0, func(p *packet.Packet) { p.RETH.Length = length })
	}
	for _, tc := range []struct {
		name   string
		frames [][]byte
		rule   string // empty: a pass
	}{
		{"correct WRITEs", writes(-1, nil), ""},
		{"correct READs", [][]byte{read(0, 4096), read(4, 100), read(5, 1024)}, ""},
		{"a wrong DMA length", writes(3, func(p *packet.Packet) { p.RETH.Length = 255 }), "gbn.dma-length"},
		{"a wrong pad count", writes(3, func(p *packet.Packet) { p.BTH.PadCount = 2 }), "gbn.pad-count"},
		{"an opcode out of sequence", writes(3, func(p *packet.Packet) {
			p.BTH.Opcode, p.Headers = packet.WriteLast, packet.HasBTH|packet.WriteLast.Headers()
		}), "gbn.opcode-sequence"},
		{"another packet under the same PSN", append(writes(-1, nil), onWire(false, packet.SendOnly, 9, 5, 256)),
			"gbn.retransmit-changed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := analyze(t, orchestrator.AnalyzeOptions{Trace: capture(t, "tap.pcap", tc.frames...)})
			if notes := strings.Join(o.Report.Notes, "\n"); !strings.Contains(notes, "its responder is not judged") {
				t.Errorf("no note on what is not judged: %s", notes)
			}
			if tc.rule == "" {
				if o.Verdict.Exit != orchestrator.ExitPass {
					t.Errorf("exit %d: %v", o.Verdict.Exit, o.Verdict.Reasons)
				}
				return
			}
			caught := slices.ContainsFunc(o.Analysis.Findings,
				func(f analyzers.Finding) bool { return f.Rule == tc.rule && f.Severity == analyzers.Violation })
			if o.Verdict.Exit != orchestrator.ExitFail || !caught {
				t.Errorf("exit %d without a violation of %s: %+v", o.Verdict.Exit, tc.rule, o.Analysis.Findings)
			}
		})
	}
}
