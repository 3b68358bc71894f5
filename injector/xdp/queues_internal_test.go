//go:build linux

package xdp

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/dumper"
	dumperlive "candela.dev/candela/dumper/live"
	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

const (
	manyQueues = 2
	bursts     = 200 // by each sender
	burstOf    = 32  // frames: far fewer than a veth's queue holds
)

func TestPacketsOfSeveralQueuesOfAPortHaveEachACopyAndTheirDisorderIsMeasured(t *testing.T) {
	cpus := ownCPUs(t)
	if len(cpus) < manyQueues {
		t.Skipf("SKIP: %d CPUs, and queues are served at once on two", len(cpus))
	}
	linktest.Namespace(t, func() {
		d := openQueues(t)
		recorders := []*dumperlive.Recorder{record(t, "a", datapathtest.DumperA), record(t, "b", datapathtest.DumperB)}
		sendOnEachCPU(t, cpus[:manyQueues])
		settle(t, d)
		shards, written := finish(t, recorders)
		var merged bytes.Buffer
		if _, err := dumper.Reconstruct(t.Context(), shards, &merged, "trace.pcap"); err != nil {
			t.Fatal(err)
		}
		losses, err := d.Losses()
		if err != nil {
			t.Fatal(err)
		}
		received := perCPU(t, d)
		for _, cpu := range cpus[:manyQueues] {
			if received[cpu] == 0 {
				t.Errorf("CPU %d received nothing: packets by CPU %v", cpu, received)
			}
		}
		judge(t, d, merged.Bytes(), written, losses[datapathtest.DumperA]+losses[datapathtest.DumperB])
	})
}

// ownCPUs lists the CPUs that this process may use.
func ownCPUs(t *testing.T) (list []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; len(list) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}

// openQueues makes a switch whose first port has several receive queues, each served on the CPU of its frames.
func openQueues(t *testing.T) *Datapath {
	t.Helper()
	for i := range datapathtest.Ports {
		near, far, queues := datapathtest.Near(i), datapathtest.Far(i), 1
		if i == datapathtest.HostA {
			queues = manyQueues
		}
		linktest.VethQueues(t, near, far, queues)
		linktest.SetMTU(t, near, 2048)
		linktest.SetMTU(t, far, 2048)
		steering, err := filepath.Glob(filepath.Join(sysClassNet, near, "queues", "rx-*", "rps_cpus"))
		if err != nil || len(steering) != queues {
			t.Fatalf("%s has receive queues %v, want %d: %v", near, steering, queues, err)
		}
		for _, file := range steering {
			if err := os.WriteFile(file, []byte("0"), 0); err != nil {
				t.Fatal(err)
			}
		}
		release, err := Pass(far)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = release.Close() })
	}
	one, err := Open(Config{Ports: datapathtest.NearPorts(), CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(one.Check(), one.Close()); err == nil {
		t.Error("several queues are not refused")
	}
	d, err := Open(Config{Ports: datapathtest.NearPorts(), Seed: datapathtest.Seed, CPU: -1, MultiQueue: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(d.Check(),
		datapathtest.Program(d, datapathtest.Case{Entries: datapathtest.Crowd(manyQueues)})); err != nil {
		t.Fatal(err)
	}
	return d
}

func record(t *testing.T, name string, port int) *dumperlive.Recorder {
	t.Helper()
	r, err := dumperlive.Open(dumperlive.Config{Name: name, Interface: datapathtest.Far(port), Snap: 128, Bytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// sendOnEachCPU sends packets of a separate flow from each CPU concurrently.
func sendOnEachCPU(t *testing.T, cpus []int) {
	t.Helper()
	var group sync.WaitGroup
	for i, cpu := range cpus {
		sender, err := link.OpenSender(datapathtest.Far(datapathtest.HostA))
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Close()
		frame := datapathtest.FlowFrame(i)
		frame[packet.EthernetLen+packet.IPv4Len+1] ^= byte(i + 1) // another source port, as NICs deal flows out by
		group.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends, and with it that it may run here alone
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				t.Error(err)
				return
			}
			for range bursts {
				for range burstOf {
					if err := sender.Queue(frame); err != nil {
						t.Error(err)
					}
				}
				if err := sender.Flush(); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	group.Wait()
}

// settle waits until the switch has seen every packet.
func settle(t *testing.T, d *Datapath) {
	t.Helper()
	const want = manyQueues * bursts * burstOf
	var got uint64
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got, _ = d.Counter(p4.CounterRoCERx, datapathtest.HostA); got == want {
			return
		}
	}
	t.Skipf("SKIP-busy: the switch got %d of %d packets", got, want)
}

func finish(t *testing.T, recorders []*dumperlive.Recorder) (shards []trace.Source, written uint64) {
	t.Helper()
	for _, r := range recorders {
		report, err := r.Finish(func(name string) (io.WriteCloser, error) {
			file := filepath.Join(t.TempDir(), name)
			shards = append(shards, trace.FileSource(file))
			return os.Create(file)
		})
		if err != nil {
			t.Fatal(err)
		}
		written += report.Written
	}
	return shards, written
}

// perCPU returns how many packets each CPU received from host A.
func perCPU(t *testing.T, d *Datapath) (packets []uint64) {
	t.Helper()
	var cpus []bpfCount
	if err := d.table(bpfMapRoceRx).Lookup(uint32(datapathtest.HostA), &cpus); err != nil {
		t.Fatal(err)
	}
	for _, c := range cpus {
		packets = append(packets, c.Packets)
	}
	return packets
}

// judge checks the trace as a run does, with a bound above any pause of the machine; a copy may be missing only if a
// counter shows it.
func judge(t *testing.T, d *Datapath, merged []byte, written, lost uint64) {
	t.Helper()
	var counters trace.Counters
	for session := range 3 {
		n, _ := d.Counter(p4.CounterMirrored, session)
		counters.Mirrored = append(counters.Mirrored, trace.Counter{Value: int64(n)})
	}
	source := trace.Source{Name: "trace.pcap",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(merged)), nil }}
	check := func(bound time.Duration) (*trace.IntegrityReport, error) {
		_, report, err := trace.Check(t.Context(), source,
			trace.Options{Format: trace.FormatMirror, Counters: counters, TimeDisorderNS: bound.Nanoseconds()})
		return report, err
	}
	report, err := check(time.Minute)
	if complete := written == manyQueues*bursts*burstOf; complete != report.Valid || !complete && lost == 0 {
		t.Errorf("%d copies, %d counted as lost: %v: %v", written, lost, err, report.Violations())
		return
	}
	if lost > 0 {
		t.Skipf("SKIP-busy: %d copies found no room", lost)
	}
	measured := report.Condition(trace.ConditionTime).DisorderNS
	if measured == nil {
		t.Error("the disorder of stamps is not measured")
		return
	}
	t.Logf("FIGURE stamps of two queues of a port: time-disorder-ns %d in %d packets", *measured, written)
	if *measured == 0 {
		return
	}
	if _, err := check(time.Duration(*measured)); err != nil {
		t.Errorf("with the disorder that was measured as the bound: %v", err)
	}
	if _, err := check(time.Duration(*measured - 1)); err == nil && *measured > 1 {
		t.Error("a smaller bound is not violated")
	}
}
