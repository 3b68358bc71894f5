package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A Process is a running candela-verbs of this machine. It ends with Close or with this process; the kernel then frees
// its queue pairs and memory. Its calls may be made from several goroutines.
type Process struct {
	mu     sync.Mutex // one call at a time
	client *Client

	cmd     *exec.Cmd
	words   *lastWords
	ended   chan struct{} // closed when the program has ended; failure says how
	failure error
}

// endTime is how long the program may take to end by itself when its input ends; it frees its queue pairs meanwhile.
const endTime = 2 * time.Second

// StartProcess starts the program at path, with the only arguments that it ever gets, and greets it.
func StartProcess(ctx context.Context, path string) (_ *Process, err error) {
	cmd := exec.Command(path, "serve")
	leash(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, words: &lastWords{}, ended: make(chan struct{})}
	p.client = NewClient(&pipes{in, out})
	words, stderr, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	cmd.Stderr = stderr
	started := make(chan error)
	go func() { // the kernel kills the program when the thread that started it ends, so that thread stays
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = stderr.Close() // the program has its own
		started <- err
		if err == nil {
			said := make(chan struct{})
			go func() {
				defer close(said)
				_, _ = io.Copy(p.words, words) // its end, whatever it is, is the end of the words
			}()
			p.failure = waitFor(cmd)
			select {
			case <-said:
			case <-time.After(lingering): // a child of the program may still have the pipe
			}
			close(p.ended)
		}
		_ = words.Close()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the program for RDMA devices: %w", err)
	}
	var hello Hello
	err = p.Call(ctx, OpHello, nil, &hello)
	if err == nil && hello.Schema != Schema {
		err = fmt.Errorf("%s speaks %q, want %s: install candela and candela-verbs of one version", path, hello.Schema,
			Schema)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// waitFor waits for the end of the program itself: [exec.Cmd.Wait] would close the pipe before its last answer is read.
func waitFor(cmd *exec.Cmd) error {
	state, err := cmd.Process.Wait()
	switch {
	case err != nil:
		return err
	case !state.Success():
		return errors.New(state.String())
	}
	return nil
}

// Call calls the program. When ctx ends first, the program is of no more use.
func (p *Process) Call(ctx context.Context, op string, params, result any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.client.Call(ctx, op, params, result)
	if err == nil {
		return nil
	}
	select {
	case <-p.ended:
	case <-time.After(lingering): // the pipe breaks shortly before the process ends
		return err
	}
	said := p.words.String()
	if said != "" {
		said = ": " + said
	}
	how := "it has ended"
	if p.failure != nil {
		how = "it has ended: " + p.failure.Error()
	}
	return fmt.Errorf("the program for RDMA devices: %s%s: %w", how, said, err)
}

// lingering is how long a failed call waits for the end of the program that would explain it.
const lingering = 100 * time.Millisecond

// ID returns the process id.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Close ends the program: by the end of its input, or by force if it doesn't end in time. It may be called again.
func (p *Process) Close() error {
	_ = p.client.Close()
	select {
	case <-p.ended:
		return nil
	case <-time.After(endTime):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end the program for RDMA devices: %w", err)
	}
	<-p.ended
	return nil
}

// pipes are the program's standard input and output.
type pipes struct {
	io.WriteCloser
	out io.ReadCloser
}

func (p *pipes) Read(b []byte) (int, error) { return p.out.Read(b) }
func (p *pipes) Close() error               { return errors.Join(p.WriteCloser.Close(), p.out.Close()) }

// lastWords keeps the end of what a program writes.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(b []byte) (int, error) {
	const most = 2000
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-most):]
	return len(b), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.text))
}
