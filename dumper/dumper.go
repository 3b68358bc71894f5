// Package dumper is the capture side of the mirror: hosts that receive mirror copies from the switch, restore the
// fields that were changed to spread them, and write them to shards, one file per core; and the reconstruction that
// merges the shards of all hosts into one trace, in the order of the mirror sequence.
//
// Losing packets is part of the model: a host has a finite capacity, loses what exceeds it, and counts the loss. The
// integrity check, not the dumper, decides whether a trace is complete ([candela.dev/candela/trace.Check]).
package dumper

import (
	"errors"
	"fmt"
	"io"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Config describes one dumper host.
type Config struct {
	Name     string // shard files are called NAME-CORE.pcap
	Cores    int    // receive queues, each with its shard; 0 means 1
	Snap     int    // bytes kept of each frame; 0 keeps what arrives
	EpochNS  int64  // ns since 1970 of mirror stamp 0: the pcap time of a copy is EpochNS plus its unwrapped stamp
	Capacity Capacity

	// Create makes the file of a shard; Host closes it. (*os.Root).Create can be used after a conversion of its result.
	Create func(name string) (io.WriteCloser, error)
}

// Host is one dumper. The caller passes in each frame with its time of arrival; there are no goroutines. It is not safe
// for concurrent use.
type Host struct {
	cfg    Config
	queue  queue
	stamps trace.TimeUnwrapper
	shards []shard
	report Report
}

type shard struct {
	name string
	file io.WriteCloser
	pcap *trace.PcapWriter
}

// Report counts the frames that reached a host: Received = Written + Lost + Other.
type Report struct {
	Name     string        `json:"name"`
	Received int64         `json:"received"`
	Written  int64         `json:"written"`
	Lost     int64         `json:"lost"`  // beyond the host's capacity
	Other    int64         `json:"other"` // not mirror copies
	Shards   []ShardReport `json:"shards"`
}

// ShardReport is one shard file.
type ShardReport struct {
	File    string `json:"file"`
	Packets int64  `json:"packets"`
	Bytes   int64  `json:"bytes"`
}

// NewHost creates the host's shards. If it fails, it closes those that it made.
func NewHost(cfg Config) (*Host, error) {
	if cfg.Cores == 0 {
		cfg.Cores = 1
	}
	if cfg.Cores < 0 || cfg.Cores > maxCores {
		return nil, fmt.Errorf("dumper %s: %d cores (1 to %d)", cfg.Name, cfg.Cores, maxCores)
	}
	if err := cfg.Capacity.validate(); err != nil {
		return nil, fmt.Errorf("dumper %s: %w", cfg.Name, err)
	}
	h := &Host{cfg: cfg, queue: queue{capacity: cfg.Capacity}, report: Report{Name: cfg.Name}}
	for core := range cfg.Cores {
		name := fmt.Sprintf("%s-%d.pcap", cfg.Name, core)
		file, err := cfg.Create(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("dumper %s: create shard: %w", cfg.Name, err), h.closeFiles())
		}
		h.shards = append(h.shards, shard{name, file, trace.NewPcapWriter(file, name, cfg.Snap)})
	}
	return h, nil
}

// maxCores is far above any host; it catches misplaced numbers.
const maxCores = 1024

// Capture takes a mirror copy that has arrived at the host at now, and copies it. Copies must come in order of arrival.
// A copy that finds the host's buffer full is lost and counted, without an error. An error is a failed write: it names
// the shard and what the shard keeps, and is returned for each further copy of that shard.
func (h *Host) Capture(now clock.Time, frame []byte) error {
	h.report.Received++
	meta, err := trace.DecodeMirror(frame)
	if err != nil {
		h.report.Other++
		return nil
	}
	// Unwrap the stamp even if the copy is lost, so that a long loss cannot hide a wrap.
	at := h.cfg.EpochNS + h.stamps.Unwrap(uint64(meta.TimeNS))
	if !h.queue.admit(now, len(frame)) {
		h.report.Lost++
		return nil
	}
	s := &h.shards[spread(meta.UDPDstPort, len(h.shards))]
	kept := len(frame)
	if h.cfg.Snap > 0 {
		kept = min(kept, h.cfg.Snap)
	}
	record, err := s.pcap.Reserve(at, kept, trace.WireLen(frame))
	if err != nil {
		return fmt.Errorf("dumper %s: %w", h.cfg.Name, err)
	}
	copy(record, frame)
	trace.RestorePort(record)
	h.report.Written++
	return nil
}

// spread chooses a core by the UDP destination port, which the switch drew at random, as receive-side scaling does:
// hash, then an indirection table of 128 entries filled round robin.
func spread(port uint16, cores int) int {
	if cores == 1 {
		return 0
	}
	h := uint32(port) * 0x9e3779b1
	return int(h>>25) % cores
}

// Report returns the counts so far.
func (h *Host) Report() Report {
	r := h.report
	r.Shards = make([]ShardReport, len(h.shards))
	for i, s := range h.shards {
		r.Shards[i] = ShardReport{File: s.name, Packets: int64(s.pcap.Packets()), Bytes: s.pcap.Bytes()}
	}
	return r
}

// Close writes out and closes every shard, also after an error of Capture, and reports all problems at once.
func (h *Host) Close() error {
	var errs []error
	for _, s := range h.shards {
		if err := s.pcap.Flush(); err != nil {
			errs = append(errs, fmt.Errorf("dumper %s: %w", h.cfg.Name, err))
		}
	}
	return errors.Join(append(errs, h.closeFiles())...)
}

func (h *Host) closeFiles() error {
	var errs []error
	for _, s := range h.shards {
		if err := s.file.Close(); err != nil {
			errs = append(errs, fmt.Errorf("dumper %s: close shard: %w", h.cfg.Name, err))
		}
	}
	return errors.Join(errs...)
}
