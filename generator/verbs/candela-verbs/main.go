//go:build verbs && cgo && linux

// Candela-verbs generates traffic on an RDMA NIC through libibverbs for a caller on its standard input (see package
// verbs for the protocol). It is the part of Candela that needs C. Agents of hosts and the guests of the vm testbed
// start it.
//
//	candela-verbs serve          serve the caller on standard input and output
//	candela-verbs serve --guest  the same in a guest of the vm testbed, which it also configures
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"candela.dev/candela/generator/verbs"
)

func main() {
	args := os.Args[1:]
	guest := slices.Equal(args, []string{"serve", "--guest"})
	if !guest && !slices.Equal(args, []string{"serve"}) {
		fmt.Fprintln(os.Stderr, "usage: candela-verbs serve [--guest]")
		os.Exit(2)
	}
	runtime.LockOSThread()
	input := io.Reader(os.Stdin)
	if guest {
		input = patient{os.Stdin}
	}
	if err := serve(input, os.Stdout, &agent{guest: guest}); err != nil {
		fmt.Fprintln(os.Stderr, "candela-verbs:", err)
		os.Exit(1)
	}
}

// patient reads a guest's control port, which returns EOF while no peer is connected.
type patient struct{ r io.Reader }

func (p patient) Read(b []byte) (int, error) {
	for {
		n, err := p.r.Read(b)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// maxRequest is the maximum length of a line.
const maxRequest = 16 << 20

// serve answers requests until input ends.
func serve(input io.Reader, output io.Writer, a *agent) error {
	defer a.close()
	in := bufio.NewScanner(input)
	in.Buffer(make([]byte, 0, 1<<16), maxRequest)
	for in.Scan() {
		var request verbs.Request
		response := verbs.Response{}
		if err := json.Unmarshal(in.Bytes(), &request); err != nil {
			response.Error = "the request is no JSON: " + err.Error()
		} else {
			response.ID = request.ID
			response.Result, response.Error = answer(a, request)
		}
		line, err := json.Marshal(response)
		if err != nil {
			return err
		}
		if _, err := output.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return in.Err()
}

func answer(a *agent, request verbs.Request) (json.RawMessage, string) {
	result, err := a.handle(request)
	if err != nil {
		return nil, err.Error()
	}
	data, err := json.Marshal(result)
	if err != nil {
		return nil, err.Error()
	}
	return data, ""
}

// handle serves one request.
func (a *agent) handle(r verbs.Request) (any, error) {
	switch r.Op {
	case verbs.OpHello:
		return a.hello()
	case verbs.OpConfigure:
		return with(r, a.configure)
	case verbs.OpOpen:
		return with(r, a.open)
	case verbs.OpConnect:
		return with(r, a.connect)
	case verbs.OpCounters:
		return a.counters()
	case verbs.OpStart:
		return struct{}{}, a.start()
	case verbs.OpStatus:
		return a.status()
	case verbs.OpReport:
		return a.report()
	case verbs.OpClose:
		a.close()
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("operation %q is unknown", r.Op)
}

// with decodes the parameters of a request for f.
func with[P, R any](r verbs.Request, f func(P) (R, error)) (any, error) {
	var params P
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", r.Op, err)
	}
	return f(params)
}
