package main

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/packet"
)

// TestASecondNakBesideASwitchThatCopiesFramesIsStillBlamed has two captures around a switch that delays and copies
// frames. A NAK that passes the second tap twice is a copy. One that its host sends twice, with another identification,
// breaks gbn.nak-repeat.
func TestASecondNakBesideASwitchThatCopiesFramesIsStillBlamed(t *testing.T) {
	s := traffic.NewSession(11, traffic.Options{Connections: 1, Packets: 200, Scenario: traffic.Scenario{
		Packets: 6, Window: 12, Reads: 2, Verbs: traffic.Write, Loss: 0.03, Held: 0.03, Doubled: 0.1, HeldMax: 2000,
		DelayMin: 300, DelayMax: 900, Transit: 500, ProcessMax: 900, TimeoutNS: 4096 << 8, Retry: 7, RNRRetry: 7,
	}})
	if !s.Settled {
		t.Fatal("the session did not settle")
	}
	for _, tc := range []struct {
		name          string
		first, second bool   // the NAK is once more in that capture
		id            uint16 // added to its identification
		want          analyzers.Verdict
	}{
		{"as it was", false, false, 0, analyzers.Pass},
		{"copied by the switch", false, true, 0, analyzers.Pass},
		{"sent twice", true, true, 0x4000, analyzers.Fail},
	} {
		dir := t.TempDir()
		o := orchestrator.AnalyzeOptions{
			Trace: filepath.Join(dir, "before.pcap"), Second: filepath.Join(dir, "after.pcap"),
		}
		for i, path := range []string{o.Trace, o.Second} {
			tap := traffic.Tap{Place: []traffic.Place{traffic.AtSwitch, traffic.BehindIt}[i]}
			if err := save(path, func(w io.Writer) error { return s.Write(w, uint64(i), tap) }); err != nil {
				t.Fatal(err)
			}
			if i == 0 && tc.first || i == 1 && tc.second {
				repeatNak(t, path, tc.id)
			}
		}
		outcome, err := orchestrator.Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		repeated := slices.ContainsFunc(outcome.Analysis.Findings, func(f analyzers.Finding) bool {
			return f.Rule == "gbn.nak-repeat" && f.Severity == analyzers.Violation
		})
		if got := outcome.Analysis.Verdict; got != tc.want || repeated != (tc.want == analyzers.Fail) {
			t.Errorf("%s: %v, want %v; %+v", tc.name, got, tc.want, outcome.Analysis.Findings)
		}
	}
}

// repeatNak repeats the first NAK of a capture 100 ns later, with that added to its identification.
func repeatNak(t *testing.T, path string, id uint16) {
	t.Helper()
	const fileHeader, recordHeader, bth = 24, 16, packet.EthernetLen + packet.IPv4Len + packet.UDPLen
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := fileHeader; at < len(b); {
		end := at + recordHeader + int(binary.LittleEndian.Uint32(b[at+8:]))
		frame := b[at+recordHeader : end]
		if packet.Opcode(frame[bth]) == packet.Acknowledge &&
			packet.Syndrome(frame[bth+packet.BTHLen]) == packet.SyndromeNakSequence {
			repeated := slices.Clone(b[at:end])
			binary.LittleEndian.PutUint32(repeated[4:], binary.LittleEndian.Uint32(repeated[4:])+100)
			ip := repeated[recordHeader+packet.EthernetLen:]
			binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+id)
			binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip[:packet.IPv4Len]))
			icrc := len(ip) - packet.ICRCLen
			binary.LittleEndian.PutUint32(ip[icrc:], packet.ComputeICRC(ip[:icrc]))
			if err := os.WriteFile(path, slices.Concat(b[:end], repeated, b[end:]), 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
		at = end
	}
	t.Fatal("no NAK in", path)
}
