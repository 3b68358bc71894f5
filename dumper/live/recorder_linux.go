package live

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/link"
	"candela.dev/candela/trace"
)

// A Recorder captures from Open to Finish. Open, Finish and Close belong to one goroutine.
type Recorder struct {
	cfg      Config
	offloads *link.Offloads
	cores    []*core
	readers  sync.WaitGroup
	finished bool
}

// core is one ring with what was read from it.
type core struct {
	ring     *link.Ring
	arena    arena
	taken    atomic.Uint64 // frames read, those beyond the arena included
	exceeded uint64
	err      error // of the reader
}

// Open starts a capture: every copy that arrives after it returns is recorded. It turns the interface's offloads off.
// It needs CAP_NET_RAW and CAP_NET_ADMIN. The caller closes the Recorder.
func Open(cfg Config) (_ *Recorder, err error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("dumper %s: %w", cfg.Name, err)
	}
	r := &Recorder{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("dumper %s: %w", cfg.Name, err), r.Close())
		}
	}()
	if r.offloads, err = link.DisableOffloads(cfg.Interface); err != nil {
		return nil, err
	}
	for range cfg.Cores {
		if err := r.openCore(); err != nil {
			return nil, err
		}
	}
	for _, c := range r.cores {
		r.readers.Go(c.read)
	}
	return r, nil
}

func (r *Recorder) openCore() error {
	config := link.RingConfig{Interface: r.cfg.Interface, BlockBytes: blockBytes, Blocks: blocks,
		BlockTimeout: blockTimeout, Snap: r.cfg.Snap, Promiscuous: true}
	if r.cfg.Cores > 1 {
		config.Fanout = &link.Fanout{Group: r.cfg.FanoutGroup, Mode: link.FanoutByFlow}
	}
	ring, err := link.OpenRing(config)
	if err != nil {
		return err
	}
	c := &core{ring: ring}
	r.cores = append(r.cores, c)
	c.arena.memory, err = unix.Mmap(-1, 0, r.cfg.Bytes/r.cfg.Cores, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("reserve %d bytes for copies: %w", r.cfg.Bytes/r.cfg.Cores, err)
	}
	for at := 0; at < min(len(c.arena.memory), warm); at += unix.Getpagesize() {
		c.arena.memory[at] = 0
	}
	return nil
}

// warm bytes of each arena are touched before the capture: most captures are short.
const warm = 1 << 20

// read moves frames from ring to arena until the ring is stopped.
func (c *core) read() {
	for {
		block, err := c.wait()
		switch {
		case errors.Is(err, link.ErrStopped):
			return
		case err != nil:
			c.err = err
			return
		case block != nil:
			c.take(block)
		}
	}
}

// wait returns the next block. It lets some gather first: waking a reader takes CPU time from others, on a small
// machine a NIC model or the switch.
func (c *core) wait() (*link.Block, error) {
	if block, err := c.ring.Wait(0); block != nil || err != nil {
		return block, err
	}
	if err := c.ring.Pause(gather); err != nil {
		return nil, err
	}
	return c.ring.Wait(-1)
}

func (c *core) take(block *link.Block) {
	n := uint64(0)
	for f := range block.Frames() {
		if !c.arena.add(f.Data, f.Length) {
			c.exceeded++
		}
		n++
	}
	block.Release()
	c.taken.Add(n)
}

// Offloads returns which offloads the driver kept on.
func (r *Recorder) Offloads() []string { return r.offloads.Remaining }

// Finish ends the capture, waits for what the kernel still holds, and writes the shards. The error has what could not
// be written; the report counts what was.
func (r *Recorder) Finish(create Create) (Report, error) {
	report := Report{Name: r.cfg.Name}
	if r.finished {
		return report, fmt.Errorf("dumper %s: the capture has ended before", r.cfg.Name)
	}
	r.finished = true
	failed := r.stop()
	for i, c := range r.cores {
		stats, err := c.ring.Stats()
		failed = append(failed, err, c.err)
		report.Received += stats.Frames
		report.Dropped += stats.Dropped
		report.Exceeded += c.exceeded
		shard, rest, err := r.writeShard(fmt.Sprintf("%s-%d.pcap", r.cfg.Name, i), c, create)
		failed = append(failed, err)
		report.Other += rest.unknown
		report.Foreign += rest.foreign
		report.Written += shard.Packets
		report.Shards = append(report.Shards, shard)
	}
	if err := errors.Join(failed...); err != nil {
		return report, fmt.Errorf("dumper %s: %w", r.cfg.Name, err)
	}
	return report, nil
}

// stop ends the readers once they have read what the kernel has counted.
func (r *Recorder) stop() (failed []error) {
	deadline := time.Now().Add(settle)
	for _, c := range r.cores {
		for {
			stats, err := c.ring.Stats()
			if err != nil {
				failed = append(failed, err)
				break
			}
			taken := c.taken.Load()
			if taken+stats.Dropped >= stats.Frames {
				break
			}
			if time.Now().After(deadline) {
				failed = append(failed, fmt.Errorf("the kernel counts %d frames and handed over %d within %v", stats.Frames, taken,
					settle))
				break
			}
			time.Sleep(blockTimeout / 4)
		}
		c.ring.Stop()
	}
	r.readers.Wait()
	return failed
}

func (r *Recorder) writeShard(name string, c *core, create Create) (_ Shard, rest others, err error) {
	file, err := create(name)
	if err != nil {
		return Shard{Name: name}, rest, fmt.Errorf("create shard: %w", err)
	}
	shard, rest, err := writePcap(name, file, &c.arena, &r.cfg)
	if e := file.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("close shard %s: %w", name, e))
	}
	return shard, rest, err
}

func writePcap(name string, file io.Writer, a *arena, cfg *Config) (Shard, others, error) {
	w := trace.NewPcapWriter(file, name, cfg.Snap)
	written, rest, err := a.write(w, cfg.EpochNS)
	if err == nil {
		err = w.Flush()
	}
	return Shard{Name: name, Packets: written, Bytes: w.Bytes()}, rest, err
}

// Close frees everything and restores the interface. What was not finished is lost.
func (r *Recorder) Close() error {
	for _, c := range r.cores {
		c.ring.Stop()
	}
	r.readers.Wait()
	var failed []error
	for _, c := range r.cores {
		failed = append(failed, c.ring.Close())
		if c.arena.memory != nil {
			failed = append(failed, unix.Munmap(c.arena.memory))
		}
	}
	r.cores = nil
	if r.offloads != nil {
		failed = append(failed, r.offloads.Restore())
		r.offloads = nil
	}
	return errors.Join(failed...)
}
