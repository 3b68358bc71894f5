package nightly

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"candela.dev/candela/orchestrator/history"
)

// Request asks a worker for a run.
type Request struct {
	File       string `json:"file"`
	Testbed    string `json:"testbed,omitempty"`
	Point      int    `json:"point,omitempty"`
	Seed       uint64 `json:"seed"`
	Repetition int    `json:"repetition,omitempty"` // 0: the test runs once
	Out        string `json:"out"`
	ID         string `json:"id"`
	Night      string `json:"night"`
	Strict     bool   `json:"strict,omitempty"`
	Waivers    string `json:"waivers,omitempty"`
	History    string `json:"history,omitempty"` // for tests that compare themselves with earlier runs
}

// Result is what a run came to. With an Error there was none.
type Result struct {
	Dir     string          `json:"dir,omitempty"`
	Run     string          `json:"run_id,omitempty"`
	Verdict history.Verdict `json:"verdict"`
	Reasons []string        `json:"reasons,omitempty"`
	Error   string          `json:"error,omitempty"`
	Lost    int64           `json:"frames_lost,omitempty"`
}

// Worker runs tests, one after the other. If ctx ends, the run in progress is to end soon.
type Worker interface {
	Run(ctx context.Context, r *Request) (*Result, error)
	Close() error
}

// grace is how long a worker has to end a run, and take down its testbed, before it is killed.
const grace = 20 * time.Second

// attempt runs a job once. It starts a worker if there is none, and leaves none if it had to be killed. Nil: ctx ended.
func (n *night) attempt(ctx context.Context, w *Worker, j *job) *Attempt {
	s := j.state
	a := &Attempt{Case: s.key, Repetition: j.repetition, Started: n.Now()}
	n.mu.Lock()
	id, seed := j.runID(), j.seed()
	a.Try = s.tries[j.repetition]
	n.mu.Unlock()
	a.Seed = seed
	h := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %s", n.dir, s.key, a.Started.UnixNano(), id))
	const size = 16
	a.Run = hex.EncodeToString(h[:size])
	out := filepath.Join(n.dir, notInNames.ReplaceAllString(strings.ToLower(s.Bed), "-"))
	if n.adopt(a, filepath.Join(out, id)) {
		return a
	}
	r := &Request{File: s.File, Testbed: s.Testbed, Point: s.Point, Seed: seed, Out: out, ID: id,
		Night: n.date.String(), Strict: n.Plan.Strict, Waivers: n.Plan.Path(n.Plan.Waivers), History: n.History}
	if s.Repetitions > 1 || a.Try > 0 {
		r.Repetition = j.repetition
	}
	result, err := n.run(ctx, w, s.Bed, r)
	a.Ended = n.Now()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil && result.Error != "" {
		err = errors.New(result.Error)
	}
	if err != nil {
		a.Verdict, a.Reasons = history.Broken, []string{err.Error()}
		return a
	}
	a.Verdict, a.Reasons, a.Dir, a.Lost = result.Verdict, result.Reasons, result.Dir, result.Lost
	if result.Run != "" {
		a.Run = result.Run
	}
	return a
}

// adopt takes over a run that was complete when an earlier process of this night was killed.
func (n *night) adopt(a *Attempt, dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "run.json")); err != nil {
		return false
	}
	run, err := history.ReadDir(dir)
	if err != nil || run.Night != n.date || run.Seed != a.Seed {
		return false
	}
	a.Verdict, a.Reasons, a.Dir, a.Run = run.Verdict, run.Reasons, dir, run.ID
	a.Started, a.Ended = run.Started, run.Finished
	return true
}

// run has the worker run a test, for at most the time that a run may take.
func (n *night) run(ctx context.Context, w *Worker, bed string, r *Request) (*Result, error) {
	if *w == nil {
		started, err := n.Start(ctx, bed, n.log)
		if err != nil {
			return nil, fmt.Errorf("start worker: %w", err)
		}
		*w = started
	}
	limit := time.Duration(n.Plan.TimeoutS) * time.Second
	timed, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the run took longer than timeout-s, %d s",
		n.Plan.TimeoutS))
	defer cancel()
	result, err := (*w).Run(timed, r)
	if err == nil && timed.Err() == nil {
		return result, nil
	}
	if err != nil {
		_ = (*w).Close() // it is gone
		*w = nil
	}
	if timed.Err() != nil && ctx.Err() == nil {
		// What an interrupted run says of itself would name the signal.
		return nil, context.Cause(timed)
	}
	return result, err
}

// Process is a worker in a process of its own.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer
	tail    *tail
	exited  chan struct{}
	waited  error
}

type answer struct {
	result *Result
	err    error
}

// StartProcess starts a worker: a program that calls [Serve]. Its stderr goes to log.
func StartProcess(log io.Writer, program string, args ...string) (*Process, error) {
	cmd := exec.Command(program, args...)
	// A group of its own: a terminal's interrupt reaches this program, which then ends its workers one by one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{cmd: cmd, answers: make(chan answer, 1), tail: &tail{to: log}, exited: make(chan struct{})}
	cmd.Stderr = p.tail
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				break
			}
			a := answer{result: new(Result)}
			a.err = json.Unmarshal(line, a.result)
			p.answers <- a
		}
		p.waited = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Run asks for a run. If ctx ends, the worker is asked to stop, and killed if it does not.
func (p *Process) Run(ctx context.Context, r *Request) (*Result, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		<-p.exited
		return nil, p.died()
	}
	select {
	case a := <-p.answers:
		return a.result, a.err
	case <-p.exited:
		select {
		case a := <-p.answers: // its last words
			return a.result, a.err
		default:
		}
		return nil, p.died()
	case <-ctx.Done():
		p.end()
		return nil, context.Cause(ctx)
	}
}

// died says how a worker ended, and with which words.
func (p *Process) died() error {
	state := "ended"
	if p.waited != nil {
		state = p.waited.Error()
	}
	words := p.tail.firstWords()
	if words != "" {
		words = ": " + words
	}
	return fmt.Errorf("the process of the test died (%s)%s", state, words)
}

// end stops the worker: it is told to, then killed with all its children.
func (p *Process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.in.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// Close ends the worker, which takes down its testbeds first.
func (p *Process) Close() error {
	_ = p.in.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
	p.end()
	return nil
}

// tail passes text on and keeps the start of what followed the last line that announces the end of a Go program.
type tail struct {
	to   io.Writer
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	const most = 8 << 10
	t.mu.Lock()
	t.kept = append(t.kept, b...)
	if len(t.kept) > most {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-most:]...)
	}
	t.mu.Unlock()
	if t.to == nil {
		return len(b), nil
	}
	return t.to.Write(b)
}

// firstWords is the line that says why, if one does, or the last line.
func (t *tail) firstWords() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// Serve is the other side of a [Process]: it reads requests from in and writes what do returns to out, until in ends.
// What is in progress then is told to stop, because whoever asked for it is gone.
func Serve(ctx context.Context, in io.Reader, out io.Writer, do func(context.Context, *Request) *Result) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	requests, served := make(chan *Request), make(chan struct{})
	defer close(served)
	go func() {
		defer close(requests)
		dec := json.NewDecoder(in)
		for {
			r := new(Request)
			if err := dec.Decode(r); err != nil {
				cancel(errors.New("candela nightly has ended"))
				timer := time.NewTimer(grace)
				defer timer.Stop()
				select {
				case <-served:
				case <-timer.C:
					os.Exit(1) // a run that hangs must not outlive it
				}
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	enc := json.NewEncoder(out)
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				return nil
			}
			if err := enc.Encode(do(ctx, r)); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
