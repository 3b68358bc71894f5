package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"
)

type captureInfo = gopacket.CaptureInfo

// forEachPacket reads a pcap file with gopacket's reader and nothing else. do may end it early with io.EOF.
func forEachPacket(file string, do func(r *pcapgo.Reader, data []byte, ci captureInfo) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := pcapgo.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for {
		data, ci, err := r.ZeroCopyReadPacketData()
		if err == nil {
			err = do(r, data, ci)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

func countPackets(file string) (int, error) {
	n := 0
	err := forEachPacket(file, func(*pcapgo.Reader, []byte, captureInfo) error { n++; return nil })
	return n, err
}

// pcapgoLoop is the least possible work: it reads every packet and uses none.
type pcapgoLoop struct{ on *workload }

func (s pcapgoLoop) open(ctx context.Context, lab *lab) (sampler, error) {
	c, err := lab.capture(ctx, *s.on)
	if err != nil {
		return nil, fmt.Errorf("capture to measure on: %w", err)
	}
	return func(context.Context) (float64, error) {
		start := processTime()
		n, err := countPackets(c.trace)
		return float64(n) / (processTime() - start).Seconds(), err
	}, nil
}

// processTime is the processor time of this process, measured as execute does for others.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
