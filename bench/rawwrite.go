package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// rawWrite is the peer of everything that writes captures: it writes as many bytes and computes nothing. Where it is as
// slow, memory and disk are the limit.
type rawWrite struct {
	bytesPerPacket int
	packets        int
}

func (s rawWrite) open(_ context.Context, lab *lab) (sampler, error) {
	file := filepath.Join(lab.dir, "raw")
	chunk := make([]byte, 256<<10) // as the trace writer does
	return func(context.Context) (float64, error) {
		f, err := os.Create(file)
		if err != nil {
			return 0, err
		}
		start := processTime()
		for left := s.packets * s.bytesPerPacket; left > 0 && err == nil; left -= len(chunk) {
			_, err = f.Write(chunk)
		}
		took := processTime() - start
		return float64(s.packets) / took.Seconds(), errors.Join(err, f.Close(), os.Remove(file))
	}, nil
}
