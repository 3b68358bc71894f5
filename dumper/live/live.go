// Package live captures mirror copies from network interfaces at full speed, and writes them when the capture ends.
//
// Each core has a packet ring and an arena, both allocated before. While packets pass, a core only moves cut frames
// from ring to arena. When the capture ends, the frames become shards like those of the virtual testbed's dumpers:
// nanosecond pcap, UDP ports restored, pcap time from the mirror stamp.
//
// Losses are counted: by the kernel when a ring is full, by this package when an arena is. The integrity check decides
// whether the trace is complete.
package live

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrUnsupported says that this operating system has no packet sockets.
var ErrUnsupported = errors.New("capture needs Linux")

// Config describes a capture.
type Config struct {
	Name      string // shards are called NAME-CORE.pcap
	Interface string
	Cores     int   // rings that share the copies, each with its shard; 0 means 1
	Snap      int   // bytes kept of each copy; 0: all
	EpochNS   int64 // ns since 1970 of mirror stamp 0
	// Bytes is the size of all arenas together; 0 means 256 MiB. The address space is reserved, memory is used as it
	// fills.
	Bytes int
	// FanoutGroup is unique among the captures of the network namespace; used with several cores.
	FanoutGroup uint16
}

const (
	maxCores     = 256
	defaultBytes = 256 << 20
	blockTimeout = 8 * time.Millisecond
	// gather is how long a reader pauses. The ring must hold what arrives meanwhile: at 3 million a second, a sixth of a
	// ring.
	gather = 4 * time.Millisecond
	// Some 65,000 copies of 128 bytes for each core. The kernel ends a block with at least one frame after blockTimeout,
	// so blocks times blockTimeout is how long a reader may be kept from its CPU at a low rate.
	blockBytes = 32 << 10
	blocks     = 512
	// settle bounds how long the end of a capture waits for frames that the kernel has counted and not yet handed over.
	settle = 250 * time.Millisecond
)

func (c *Config) setDefaults() error {
	if c.Cores == 0 {
		c.Cores = 1
	}
	if c.Bytes == 0 {
		c.Bytes = defaultBytes
	}
	switch {
	case c.Cores < 1 || c.Cores > maxCores:
		return fmt.Errorf("%d cores (1 to %d)", c.Cores, maxCores)
	case c.Bytes < c.Cores*minArena:
		return fmt.Errorf("%d bytes for %d cores (at least %d each)", c.Bytes, c.Cores, minArena)
	case c.Snap < 0:
		return fmt.Errorf("snap length %d is negative", c.Snap)
	}
	return nil
}

// Report counts the frames that reached the interface: Received = Written + Dropped + Exceeded + Other + Foreign.
type Report struct {
	Name     string
	Received uint64
	Written  uint64
	Dropped  uint64 // found no room in the kernel's ring
	Exceeded uint64 // found no room in the arena
	Other    uint64 // neither mirror copies nor Foreign
	Foreign  uint64 // from the neighbour at the other end of the cable, such as LLDP, which switches do not forward
	Shards   []Shard
}

// Shard is one file.
type Shard struct {
	Name    string
	Packets uint64
	Bytes   int64
}

// Create makes the file of a shard; the recorder closes it.
type Create func(name string) (io.WriteCloser, error)
