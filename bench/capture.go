package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A workload describes a run of the virtual testbed whose trace is measured on: WRITEs of ten packets each, snapped at
// 128 bytes as live testbeds do, dumped into eight shards.
type workload struct {
	connections int
	messages    int // per connection
	drops       int // spread evenly over connections and messages
}

const packetsPerMessage = 10

// dataPackets returns how many data packets the workload sends, retransmissions aside.
func (w workload) dataPackets() int { return w.connections * w.messages * packetsPerMessage }

// A capture is the trace of a workload.
type capture struct {
	run     string // run directory
	trace   string
	shards  []string
	packets int
}

// capture runs a workload once per lab.
func (l *lab) capture(ctx context.Context, w workload) (*capture, error) {
	key := fmt.Sprintf("%d-%d-%d", w.connections, w.messages, w.drops)
	if c, ok := l.captures[key]; ok {
		return c, nil
	}
	dir := filepath.Join(l.dir, "workload-"+key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	test := filepath.Join(dir, "test.yml")
	if err := os.WriteFile(test, []byte(w.test()), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "testbed.yml"), []byte(eightDumpers()), 0o600); err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "runs")
	if _, err := l.execute(ctx, dir, []int{1}, l.candela(), "run", test, "--out", out); err != nil {
		return nil, err
	}
	c, err := findCapture(out)
	if err != nil {
		return nil, err
	}
	l.captures[key] = c
	return c, nil
}

// test returns the workload in the words of candela's configuration.
func (w workload) test() string {
	var b strings.Builder
	fmt.Fprintf(&b, `name: bench
testbed: testbed.yml
traffic:
  rdma-verb: write
  num-connections: %d
  num-msgs-per-qp: %d
  message-size: 10240
  mtu: 1024
  tx-depth: 2
`, w.connections, w.messages)
	if w.drops > 0 {
		// By packet, because after a loss a connection's new packets count as its second iteration.
		b.WriteString("  iter-scope: packet\n  data-pkt-events:\n")
	}
	perConnection := w.messages * packetsPerMessage
	for i := range w.drops {
		at := i * (w.dataPackets() / w.drops)
		fmt.Fprintf(&b, "    - {qpn: %d, psn: %d, iter: 1, type: drop}\n", at/perConnection+1, at%perConnection+1)
	}
	return b.String()
}

func eightDumpers() string {
	var b strings.Builder
	b.WriteString("name: bench\nkind: virtual\nmirror: {snap-bytes: 128}\ndumpers:\n")
	for i := range 8 {
		fmt.Fprintf(&b,
			"  - {name: dumper-%d, weight: 1, rate-gbps: 100, cores: 1, pps-per-core: 100000000, buffer-bytes: 4194304}\n", i+1)
	}
	return b.String()
}

// findCapture finds the files of the only run below dir.
func findCapture(dir string) (*capture, error) {
	c := &capture{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "trace.pcap" {
			c.trace, c.run = path, filepath.Dir(path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.trace == "" {
		return nil, fmt.Errorf("%s holds no trace.pcap", dir)
	}
	if c.shards, err = filepath.Glob(filepath.Join(c.run, "shards", "*.pcap")); err != nil {
		return nil, err
	}
	slices.Sort(c.shards)
	c.packets, err = countPackets(c.trace)
	return c, err
}
