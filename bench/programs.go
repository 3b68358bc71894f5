package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/gopacket/pcapgo"
)

// program is a whole process that is timed.
type program struct {
	// command is the program and its arguments; "candela" is the one under measurement, "candela@COMMIT" an older one.
	// TRACE, RUN, SHARDS and OUT are files of the capture and a scratch file; SHARDS becomes several arguments.
	command []string
	on      *workload // nil: needs no capture
	// first limits TRACE to that many packets, for slow peers; zero is all.
	first int
	// statuses besides 0 with which the program did what is measured.
	statuses []int
	value    func(u usage, packets int) float64
	// cpus is how many processors the program has; zero: as many as the run says.
	cpus int
	// warm runs the program once unmeasured: its input is then in memory, and the machine has pages for its output.
	warm bool
	// once is for programs that take minutes: they run once for all samples of all figures with this command.
	once bool
}

// What a process took, as values of figures.
func packetsPerCPUSecond(u usage, packets int) float64 { return float64(packets) / u.cpu.Seconds() }
func wallMilliseconds(u usage, _ int) float64          { return float64(u.wall.Microseconds()) / 1000 }
func peakMegabytes(u usage, _ int) float64             { return float64(u.maxRSS) / 1e6 }

func (s program) open(ctx context.Context, lab *lab) (sampler, error) {
	name := s.command[0]
	if commit, older := strings.CutPrefix(name, "candela@"); older {
		var err error
		if name, err = lab.version(ctx, commit); err != nil {
			return nil, err
		}
	} else if name == "candela" {
		name = lab.candela()
	} else if _, err := exec.LookPath(name); err != nil {
		return nil, fmt.Errorf("%s: %w", name, errNoPeer)
	}
	c := &capture{}
	if s.on != nil {
		var err error
		if c, err = lab.capture(ctx, *s.on); err != nil {
			return nil, fmt.Errorf("capture to measure on: %w", err)
		}
		if c, err = c.limited(s.first); err != nil {
			return nil, err
		}
	}
	out := filepath.Join(lab.dir, "out.pcap")
	args := expand(s.command[1:], c, out)
	take := func(ctx context.Context) (float64, error) {
		if took, done := lab.taken[strings.Join(s.command, " ")]; done {
			return s.value(took, c.packets), nil
		}
		if err := os.RemoveAll(out); err != nil {
			return 0, err
		}
		took, err := lab.executeOn(ctx, cmp.Or(s.cpus, lab.opts.cpu), lab.root, s.statuses, name, args...)
		if err != nil {
			return 0, err
		}
		if s.once {
			lab.taken[strings.Join(s.command, " ")] = took
		}
		return s.value(took, c.packets), nil
	}
	if s.warm {
		if _, err := take(ctx); err != nil {
			return nil, err
		}
	}
	return take, nil
}

func expand(args []string, c *capture, out string) []string {
	var full []string
	for _, arg := range args {
		switch arg {
		case "TRACE":
			full = append(full, c.trace)
		case "RUN":
			full = append(full, c.run)
		case "SHARDS":
			full = append(full, c.shards...)
		case "OUT":
			full = append(full, out)
		default:
			full = append(full, arg)
		}
	}
	return full
}

// limited returns the capture with a trace of at most n packets, written beside the whole one.
func (c *capture) limited(n int) (*capture, error) {
	if n == 0 || c.packets <= n {
		return c, nil
	}
	short := *c
	short.trace, short.packets = fmt.Sprintf("%s.first-%d", c.trace, n), n
	f, err := os.Create(short.trace)
	if err != nil {
		return nil, err
	}
	w := pcapgo.NewWriterNanos(f)
	i := 0
	err = forEachPacket(c.trace, func(r *pcapgo.Reader, data []byte, ci captureInfo) error {
		if i == 0 {
			if err := w.WriteFileHeader(r.Snaplen(), r.LinkType()); err != nil {
				return err
			}
		}
		if i++; i > n {
			return io.EOF
		}
		return w.WritePacket(ci, data)
	})
	return &short, errors.Join(err, f.Close())
}
