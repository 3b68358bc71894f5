package history_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/runtimetest"
)

// writerVariable makes the test binary a writer. Its value is the writer's number, how many runs it has, and the
// address of the store, by commas.
const writerVariable = "CANDELA_TEST_WRITER"

// Runs of a writer in one call, and what each has.
const (
	writerBatch    = 5
	writerFindings = 7
)

func writerRuns(writer, from, n int) (runs []*history.Run) {
	for i := from; i < from+n; i++ {
		r := made(fmt.Sprintf("w%d", writer), i%30, i)
		r.ID = fmt.Sprintf("%016x%016x", writer+1, i)
		r.Environment["requester.nic"] = fmt.Sprint(i % 3)
		var rules []string
		for rule := range writerFindings {
			rules = append(rules, fmt.Sprintf("gbn.rule-%d", rule))
		}
		runs = append(runs, failing(r, rules...))
	}
	return runs
}

// writeUntilKilled writes runs and prints after each commit how many the store has acknowledged.
func writeUntilKilled() int {
	part := strings.SplitN(os.Getenv(writerVariable), ",", 3)
	number, _ := strconv.Atoi(part[0])
	total, _ := strconv.Atoi(part[1])
	s, err := history.Open(context.Background(), part[2])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for from := 0; from < total; from += writerBatch {
		if _, err := s.Ingest(context.Background(), writerRuns(number, from, writerBatch)...); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("acknowledged", from+writerBatch)
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

type writerProcess struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startWriter(t *testing.T, number, total int, address string) *writerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d,%d,%s", writerVariable, number, total, address))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &writerProcess{cmd, bufio.NewReader(pipe)}
}

// acknowledged reads until the writer has acknowledged that many runs or ended, and returns how many it has and its
// other words.
func (w *writerProcess) acknowledged(most int) (n int, words string) {
	for n < most {
		line, err := w.out.ReadString('\n')
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), "acknowledged "); ok {
			n, _ = strconv.Atoi(count)
		} else {
			words += line
		}
		if err != nil {
			break
		}
	}
	return n, words
}

// whole checks that the store has at least the acknowledged runs of a writer, each with everything or not at all.
func whole(t *testing.T, s *history.Store, writer, acknowledged int) (have int) {
	t.Helper()
	list, err := s.List(t.Context(), history.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	present := make(map[string]bool)
	for i := range list {
		if !strings.HasPrefix(list[i].ID, fmt.Sprintf("%016x", writer+1)) {
			continue
		}
		present[list[i].ID] = true
		have++
		r, err := s.Show(t.Context(), list[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) != writerFindings || len(r.Metrics) != 1 || len(r.Environment) != 3 || len(r.Artefacts) != 1 {
			t.Fatalf("run %s is half-written: %+v", r.ID, r)
		}
	}
	for _, r := range writerRuns(writer, 0, acknowledged) {
		if !present[r.ID] {
			t.Fatalf("run %s was acknowledged and is lost", r.ID)
		}
	}
	if have%writerBatch != 0 {
		t.Errorf("%d runs are there: a batch of %d was written in part", have, writerBatch)
	}
	return have
}

func TestAKilledWriterLosesNothingThatItAcknowledged(t *testing.T) {
	runtimetest.SkipRace(t)
	kills := 4
	if text := os.Getenv("CANDELA_KILLS"); text != "" {
		kills, _ = strconv.Atoi(text)
	}
	engines(t, func(t *testing.T, address string) {
		s := open(t, address)
		for kill := range kills {
			w := startWriter(t, kill, 1_000_000, address)
			n, words := w.acknowledged(writerBatch * (1 + kill*2%7))
			time.Sleep(time.Duration(kill*3%11) * time.Millisecond) // into the next transaction, somewhere
			if err := w.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			rest, more := w.acknowledged(1 << 30)
			_ = w.cmd.Wait() // it was killed
			n = max(n, rest)
			if n == 0 {
				t.Fatalf("the writer wrote nothing: %s%s", words, more)
			}
			have := whole(t, s, kill, n)
			done := ingest(t, s, writerRuns(kill, 0, have+writerBatch)...)
			if done.New != writerBatch || done.Unchanged != have {
				t.Errorf("kill %d: importing again: %+v, %d runs were there", kill, done, have)
			}
		}
	})
}

func TestTwoWritersLoseNothing(t *testing.T) {
	runtimetest.SkipRace(t)
	const total = 40
	engines(t, func(t *testing.T, address string) {
		// Both also make the store.
		writers := []*writerProcess{startWriter(t, 0, total, address), startWriter(t, 1, total, address)}
		for i, w := range writers {
			n, words := w.acknowledged(total)
			if err := w.cmd.Wait(); err != nil || n != total {
				t.Errorf("writer %d: %v, %d of %d acknowledged: %s", i, err, n, total, words)
			}
		}
		s := open(t, address)
		for i := range writers {
			if have := whole(t, s, i, total); have != total {
				t.Errorf("writer %d: %d runs, want %d", i, have, total)
			}
		}
	})
}

func TestTwoWritersOfTheSameRunsWriteThemOnce(t *testing.T) {
	runtimetest.SkipRace(t)
	const total = 30
	engines(t, func(t *testing.T, address string) {
		writers := []*writerProcess{startWriter(t, 3, total, address), startWriter(t, 3, total, address)}
		for i, w := range writers {
			if n, words := w.acknowledged(total); n != total {
				t.Errorf("writer %d: %d of %d: %s", i, n, total, words)
			}
			if err := w.cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
		if have := whole(t, open(t, address), 3, total); have != total {
			t.Errorf("%d runs, want %d", have, total)
		}
	})
}

// TestAFullDiskLosesNothing fills a small tmpfs: the writer says so, what it had acknowledged is there, and it goes on
// when there is room.
func TestAFullDiskLosesNothing(t *testing.T) {
	runtimetest.SkipRace(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIP: only root mounts a tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1500k"); err != nil {
		t.Skipf("SKIP: a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	address := filepath.Join(dir, "history.db")
	fillDisk(t, address, dir)
}

// fillDisk has a writer write to a store until the tmpfs in dir is full, and checks that it says so, that what it had
// acknowledged is there, and that it goes on when there is room.
func fillDisk(t *testing.T, address, dir string) {
	t.Helper()
	w := startWriter(t, 0, 1_000_000, address)
	n, words := w.acknowledged(1 << 30)
	var status *exec.ExitError
	if err := w.cmd.Wait(); !errors.As(err, &status) || status.ExitCode() != 1 || !strings.Contains(words, "is full") {
		t.Fatalf("the writer ended with %v after %d runs: %s", err, n, words)
	}
	if n == 0 {
		t.Fatal("nothing was written before the disk was full")
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	s, err := history.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	have := whole(t, s, 0, n)
	if done := ingest(t, s, writerRuns(0, 0, have+writerBatch)...); done.New != writerBatch {
		t.Errorf("with room again: %+v", done)
	}
}
