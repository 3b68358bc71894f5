package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
	"candela.dev/candela/trace"
)

// flipTests are small tests whose traces have many packet types.
var flipTests = map[string]string{
	"write": `name: t
traffic:
  num-connections: 1
  rdma-verb: [write, send]
  num-msgs-per-qp: 2
  mtu: 256
  message-size: 600
  data-pkt-events: [{qpn: 1, psn: 2, type: drop}, {qpn: 1, psn: 5, iter: 2, type: corrupt}]
`,
	"read over IPv6 with a mark": `name: t
requester: {nic: {profile: spec, ip-list: ["2001:db8::2/64"]}}
responder: {nic: {profile: spec, ip-list: ["2001:db8::1/64"]}}
traffic:
  num-connections: 1
  rdma-verb: [read, write]
  num-msgs-per-qp: 2
  mtu: 256
  message-size: 600
  data-pkt-events: [{qpn: 1, psn: 4, type: ecn}]
`,
}

// open returns the bytes of a mirror copy with bits that no checksum in the trace covers. Only the FCS of the dumper's
// cable covers them.
func open(frame []byte) []int {
	const eth, v6 = 14, 40
	covered := []int{0, 1, 2, 3, 4, 5} // the timestamp
	if frame[eth]>>4 == 6 {
		const bth = eth + v6 + 8
		return append(covered, eth, eth+1, eth+2, eth+3, bth+4) // traffic class, flow label; FECN and BECN
	}
	return append(covered, eth+20+8+4) // FECN and BECN
}

func TestABitThatIsFlippedInACopyIsNotHeldAgainstADevice(t *testing.T) {
	for name, text := range flipTests {
		t.Run(name, func(t *testing.T) {
			f, file := flipFacts(t, text)
			verdicts := map[Exit]int{}
			headers, stride := 80, 8
			each := 1
			if testing.Short() {
				stride, each = 64, 7
			}
			if runtimetest.Race {
				each = 61
			}
			for i, at := range frameOffsets(t, file) {
				frame := file[at.from:at.to]
				readable := open(frame)
				for bit := range 8 * len(frame) {
					if slices.Contains(readable, bit/8) || bit/8 > headers && bit/8 < len(frame)-4 && bit%stride != 0 ||
						bit%each != i%each {
						continue
					}
					frame[bit/8] ^= 1 << (bit % 8)
					v := flipVerdict(t, f, file)
					frame[bit/8] ^= 1 << (bit % 8)
					if verdicts[v.Exit]++; v.Exit == ExitFail {
						t.Errorf("packet %d byte %d bit %d: %v", i+1, bit/8, bit%8, v.Reasons)
					}
				}
			}
			if v := flipVerdict(t, f, file); v.Exit != ExitPass {
				t.Errorf("without a flipped bit: %+v", v)
			}
			t.Logf("flips by exit status: %v", verdicts)
		})
	}
}

// flipFacts runs a test and returns its facts and its trace.
func flipFacts(t *testing.T, text string) (*facts, []byte) {
	t.Helper()
	test, err := config.Parse("t.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), p, func(s testbeds.Spec) (Testbed, error) { return virtual.New(s) },
		Options{Out: t.TempDir(), Wall: func() time.Time { return time.Unix(0, 0) }, NoReports: true})
	if err != nil || out.Verdict.Exit != ExitPass {
		t.Fatalf("%v, %+v", err, out)
	}
	f, err := loadFacts(AnalyzeOptions{Trace: out.Dir})
	if err != nil {
		t.Fatal(err)
	}
	f.soundCables = false // as in a lab with cables
	file, err := os.ReadFile(filepath.Join(out.Dir, traceFile))
	if err != nil {
		t.Fatal(err)
	}
	return f, file
}

type span struct{ from, to int }

// frameOffsets returns the places of the frames in a file.
func frameOffsets(t *testing.T, file []byte) (list []span) {
	t.Helper()
	err := bytesSource(file).ForEachFrame(context.Background(), func(f *trace.Frame) error {
		const header = 16
		list = append(list, span{int(f.Offset) + header, int(f.Offset) + header + len(f.Data)})
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("%d frames, %v", len(list), err)
	}
	return list
}

func bytesSource(file []byte) trace.Source {
	return trace.Source{Name: traceFile,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }}
}

func flipVerdict(t *testing.T, known *facts, file []byte) Verdict {
	t.Helper()
	f := *known
	err := f.check(t.Context(), bytesSource(file))
	if err == nil {
		err = f.analyse(t.Context())
	}
	if err != nil {
		return Verdict{Exit: ExitInfrastructure, Reasons: []string{fmt.Sprint(err)}}
	}
	return judge(f.evidence(nil))
}

// TestADeviceWithWrongICRCsIsStillCaught: only a single flipped bit is attributed to a cable, and only if there is one.
func TestADeviceWithWrongICRCsIsStillCaught(t *testing.T) {
	f, file := flipFacts(t, flipTests["write"])
	at := frameOffsets(t, file)[3]
	last := file[at.to-1]
	for name, tt := range map[string]struct {
		icrc  byte
		sound bool
		want  Exit
	}{
		"several bits":                        {last ^ 0x55, false, ExitFail},
		"one bit":                             {last ^ 0x10, false, ExitInvalid},
		"one bit, where no cable can flip it": {last ^ 0x10, true, ExitFail},
	} {
		file[at.to-1] = tt.icrc
		known := *f
		known.soundCables = tt.sound
		if v := flipVerdict(t, &known, file); v.Exit != tt.want {
			t.Errorf("%s: exit %d, want %d: %v", name, v.Exit, tt.want, v.Reasons)
		}
	}
}
