package vm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/testbeds"
)

func TestWhatArrivedIsComparedWhereItCanBe(t *testing.T) {
	message := func(v generator.Verb, s generator.Status) generator.MessageResult {
		return generator.MessageResult{Verb: v, Length: 100, Status: s}
	}
	success := []generator.StatusCount{{Status: generator.Success, Count: 2}}
	for _, tt := range []struct {
		name      string
		verb      generator.Verb
		messages  []generator.MessageResult
		statuses  []generator.StatusCount
		requester verbs.Data
		responder verbs.Data
		want      []generator.DataReport
	}{
		{
			name: "memory that a WRITE filled", verb: generator.Write, statuses: success,
			messages: []generator.MessageResult{message(generator.Write, generator.Success),
				message(generator.Write, generator.Success)},
			want: []generator.DataReport{{Connection: 1, Side: "responder", Messages: 2}},
		},
		{
			name: "memory that a WRITE filled badly", verb: generator.Write, statuses: success,
			responder: verbs.Data{Written: "byte 1"},
			messages:  []generator.MessageResult{message(generator.Write, generator.Success)},
			want: []generator.DataReport{{Connection: 1, Side: "responder", Messages: 1, Wrong: 1,
				First: "memory that WRITEs have filled: byte 1"}},
		},
		{
			name: "a WRITE that failed proves nothing", verb: generator.Write, responder: verbs.Data{Written: "byte 1"},
			messages: []generator.MessageResult{message(generator.Write, generator.RetryExceeded)},
			statuses: []generator.StatusCount{{Status: generator.RetryExceeded, Count: 1}},
		},
		{
			name: "SENDs and READs are compared where they arrive", verb: generator.Send, statuses: success,
			requester: verbs.Data{Checked: 3}, responder: verbs.Data{Checked: 2, Wrong: 1, First: "SEND"},
			want: []generator.DataReport{
				{Connection: 1, Side: "requester", Messages: 3},
				{Connection: 1, Side: "responder", Messages: 2, Wrong: 1, First: "SEND"},
			},
		},
		{
			name: "an atomic that was executed twice", verb: generator.FetchAdd, statuses: success,
			responder: verbs.Data{Word: 5},
			want: []generator.DataReport{{Connection: 1, Side: "responder", Messages: 2, Wrong: 1,
				First: "2 atomics have left 5 in memory, want 3"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			traffic := generator.Traffic{Verbs: []generator.Verb{tt.verb}, Messages: 2, MessageSize: 100, MTU: 1024, TxDepth: 1}
			bed := &Testbed{
				spec:    testbeds.Spec{Connections: []testbeds.Connection{{Traffic: [2]generator.Traffic{traffic, {}}}}},
				reports: [2]*verbs.ReportResponse{{Data: []verbs.Data{tt.requester}}, {Data: []verbs.Data{tt.responder}}},
			}
			r := generator.Report{Streams: []generator.StreamReport{{
				Connection: 1, Side: "requester", Completed: 2, Statuses: tt.statuses, Messages: tt.messages,
			}}}
			if diff := cmp.Diff(tt.want, bed.verified(&r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// imageCopy is a copy of the default image's directory without its snapshots.
func imageCopy(t *testing.T) string {
	t.Helper()
	if os.Getenv("CANDELA_TEST_VM") == "" {
		t.Skip("SKIP-slow: guests take seconds to boot; make test-vm runs it")
	}
	var cfg Config
	if _, err := cfg.setDefaults(); errors.Is(err, ErrImage) {
		t.Skipf("SKIP-image: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(cfg.QEMU); err != nil {
		t.Skip("SKIP-qemu: qemu-system-x86_64 is not installed (tools/setup --vm)")
	}
	dir := t.TempDir()
	for _, name := range []string{"kernel", "initramfs", "image.json"} {
		if err := os.Symlink(filepath.Join(cfg.Image, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestASnapshotSavesTheBootAndABrokenOneCostsIt(t *testing.T) {
	cfg := Config{Image: imageCopy(t), NoKVM: true}
	up := func() (restored bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		g, err := Up(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		restored = g.Restored()
		if !strings.Contains(g.lastWords(), "candela: control on") {
			t.Errorf("consoles: %s", g.lastWords())
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		return restored
	}
	if up() {
		t.Fatal("the first guests were restored")
	}
	if !up() {
		t.Fatal("the second guests were booted")
	}
	files, err := filepath.Glob(filepath.Join(cfg.Image, "snapshot-*-"+strings.Repeat("[0-9a-f]", 16)))
	if err != nil || len(files) != 1 {
		t.Fatalf("snapshots: %v, %v", files, err)
	}
	if err := os.Truncate(files[0], 1<<20); err != nil {
		t.Fatal(err)
	}
	if up() {
		t.Error("half a snapshot was restored")
	}
	if !up() {
		t.Error("the boot after it left no snapshot")
	}
}

func TestAKVMThatRunsNothingIsForgoneUntilTheNextBoot(t *testing.T) {
	cfg := Config{Image: t.TempDir()}
	before := cfg.kvm()
	cfg.forgoKVM()
	fresh := Config{Image: cfg.Image}
	if cfg.kvm() || fresh.kvm() {
		t.Error("KVM is tried again")
	}
	if err := os.WriteFile(filepath.Join(cfg.Image, kvmMark), []byte("another boot"), 0o600); err != nil {
		t.Fatal(err)
	}
	if fresh.kvm() != before {
		t.Error("KVM isn't tried after the machine was booted again")
	}
}
