package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestASecondNakBesideASwitchThatCopiesFramesIsStillBlamed has two captures around a switch that delays and copies
// frames. A NAK that passes the second tap twice is a copy. One that its host sends twice, with another identification,
// breaks gbn.nak-repeat.
func TestASecondNakBesideASwitchThatCopiesFramesIsStillBlamed(t *testing.T) {
	s := disturbed(t)
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
				repeatNak(t, path, tc.id, false)
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

// TestAWrongAckInCapturesThatHoldFramesTwiceIsStillBlamed has taps that hold each frame twice beside a switch that
// copies frames: when a copy passed is not known, but no copy explains an ACK that counts 1000 messages.
func TestAWrongAckInCapturesThatHoldFramesTwiceIsStillBlamed(t *testing.T) {
	s := disturbed(t)
	for _, wrong := range []bool{false, true} {
		var id []byte
		dir := t.TempDir()
		o := orchestrator.AnalyzeOptions{
			Trace: filepath.Join(dir, "before.pcap"), Second: filepath.Join(dir, "after.pcap"), Complete: true,
			Placement: trace.PlacementBracket, Connections: filepath.Join(dir, "connections.json"),
		}
		if err := save(o.Connections, s.WriteConnections); err != nil {
			t.Fatal(err)
		}
		for i, path := range []string{o.Trace, o.Second} {
			tap := traffic.Tap{Place: []traffic.Place{traffic.AtSwitch, traffic.BehindIt}[i], Doubled: true}
			if err := save(path, func(w io.Writer) error { return s.Write(w, uint64(i), tap) }); err != nil {
				t.Fatal(err)
			}
			if wrong {
				id = changeAck(t, path, id)
			}
		}
		outcome, err := orchestrator.Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		blamed := slices.ContainsFunc(outcome.Analysis.Findings, func(f analyzers.Finding) bool {
			return f.Rule == "gbn.msn" && f.Severity == analyzers.Violation
		})
		vague := slices.ContainsFunc(outcome.Analysis.Notes, func(n string) bool {
			return strings.Contains(n, "when the copies passed is not known")
		})
		if blamed != wrong || (outcome.Analysis.Verdict == analyzers.Pass) == wrong || !vague {
			t.Errorf("wrong %t, said %t: %v, %+v", wrong, vague, outcome.Analysis.Verdict, outcome.Analysis.Findings)
		}
	}
}

// disturbed is a session of one connection beside a switch that delays, copies and drops frames.
func disturbed(t *testing.T) *traffic.Session {
	t.Helper()
	s := traffic.NewSession(11, traffic.Options{Connections: 1, Packets: 200, Scenario: traffic.Scenario{
		Packets: 6, Window: 12, Reads: 2, Verbs: traffic.Write, Loss: 0.03, Held: 0.03, Doubled: 0.1, HeldMax: 2000,
		DelayMin: 300, DelayMax: 900, Transit: 500, ProcessMax: 900, TimeoutNS: 4096 << 8, Retry: 7, RNRRetry: 7,
	}})
	if !s.Settled {
		t.Fatal("the session did not settle")
	}
	return s
}

// records calls fn for the start and end of each record of a capture with nanoseconds, and for its frame, until it
// returns false.
func records(b []byte, fn func(at, end int, frame []byte) bool) {
	for at := 24; at < len(b); {
		end := at + recordHeader + int(binary.LittleEndian.Uint32(b[at+8:]))
		if !fn(at, end, b[at+recordHeader:end]) {
			return
		}
		at = end
	}
}

const recordHeader, bthAt = 16, packet.EthernetLen + packet.IPv4Len + packet.UDPLen

// seal makes checksum and iCRC of an IPv4 packet right.
func seal(ip []byte) {
	binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip[:packet.IPv4Len]))
	icrc := len(ip) - packet.ICRCLen
	binary.LittleEndian.PutUint32(ip[icrc:], packet.ComputeICRC(ip[:icrc]))
}

// changeAck makes a late ACK of a capture, or the one with that identification, count 1000 messages in each of its
// frames.
func changeAck(t *testing.T, path string, id []byte) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	acks := 0
	records(b, func(_, _ int, frame []byte) bool {
		ip := frame[packet.EthernetLen:]
		ack := packet.Opcode(frame[bthAt]) == packet.Acknowledge && packet.Syndrome(frame[bthAt+packet.BTHLen]).IsAck()
		if ack {
			acks++
		}
		if ack && acks > 20 && id == nil || ack && bytes.Equal(id, ip[4:6]) {
			id = bytes.Clone(ip[4:6])
			binary.BigEndian.PutUint16(frame[bthAt+packet.BTHLen+2:], 1000)
			seal(ip)
		}
		return true
	})
	if err := os.WriteFile(path, b, 0o600); err != nil || id == nil {
		t.Fatal("no ACK in", path, err)
	}
	return id
}

// repeatNak repeats the first or last NAK of a capture 100 ns later, with that added to its identification.
func repeatNak(t *testing.T, path string, id uint16, last bool) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, out := b, b
	records(whole, func(at, end int, frame []byte) bool {
		if packet.Opcode(frame[bthAt]) != packet.Acknowledge ||
			packet.Syndrome(frame[bthAt+packet.BTHLen]) != packet.SyndromeNakSequence {
			return true
		}
		repeated := slices.Clone(whole[at:end])
		binary.LittleEndian.PutUint32(repeated[4:], binary.LittleEndian.Uint32(repeated[4:])+100)
		ip := repeated[recordHeader+packet.EthernetLen:]
		binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+id)
		seal(ip)
		out = slices.Concat(whole[:end], repeated, whole[end:])
		return last
	})
	if err := os.WriteFile(path, out, 0o600); err != nil || len(out) == len(whole) {
		t.Fatal("no NAK in", path, err)
	}
}

// TestSessionsBesideASwitchThatCopiesFramesPass repeats sessions that were blamed, or of which the clocks did not fit,
// as long as copies were taken for frames of a host.
func TestSessionsBesideASwitchThatCopiesFramesPass(t *testing.T) {
	for _, tc := range []struct{ view, seed string }{
		{"hosts", "9200431"}, {"hosts-ipsn0", "9200413"}, {"pair-doubled", "9200149"},
	} {
		var out bytes.Buffer
		args := []string{"check", "-view", tc.view, "-seed", tc.seed, "-count", "1", "-limit", "0", "-packets", "200"}
		if status := run(args, &out, &out); status != 0 {
			t.Errorf("%s, seed %s: status %d:\n%s", tc.view, tc.seed, status, out.String())
		}
	}
}

// TestASecondNakOnAQueuePairThatIsUsedAgainIsStillBlamed has a queue pair that is reset and used once more with another
// initial PSN. Nobody is blamed for that; a NAK that is sent twice in its second use is.
func TestASecondNakOnAQueuePairThatIsUsedAgainIsStillBlamed(t *testing.T) {
	s := traffic.NewSession(13, traffic.Options{Connections: 1, Packets: 200, Reopened: true, Scenario: traffic.Scenario{
		Packets: 6, Window: 12, Reads: 2, Verbs: traffic.Write, Loss: 0.03, DelayMin: 300, DelayMax: 900, Transit: 500,
		ProcessMax: 900, TimeoutNS: 4096 << 8, Retry: 7, RNRRetry: 7,
	}})
	for _, guilty := range []bool{false, true} {
		dir := t.TempDir()
		o := orchestrator.AnalyzeOptions{
			Trace: filepath.Join(dir, "before.pcap"), Second: filepath.Join(dir, "after.pcap"),
		}
		for i, path := range []string{o.Trace, o.Second} {
			tap := traffic.Tap{Place: []traffic.Place{traffic.AtSwitch, traffic.BehindIt}[i]}
			if err := save(path, func(w io.Writer) error { return s.Write(w, uint64(i), tap) }); err != nil {
				t.Fatal(err)
			}
			if guilty {
				repeatNak(t, path, 0x4000, true)
			}
		}
		outcome, err := orchestrator.Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(outcome.Analysis.Notes, func(n string) bool {
			return strings.Contains(n, "the queue pairs of connection 1 were used again")
		})
		blamed := slices.ContainsFunc(outcome.Analysis.Findings, func(f analyzers.Finding) bool {
			return f.Rule == "gbn.nak-repeat" && f.Severity == analyzers.Violation && f.Connection == 2
		})
		if !said || blamed != guilty || (outcome.Analysis.Verdict == analyzers.Fail) != guilty {
			t.Errorf("guilty %t, said %t: %v, %+v", guilty, said, outcome.Analysis.Verdict, outcome.Analysis.Findings)
		}
	}
}
