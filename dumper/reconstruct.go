package dumper

import (
	"context"
	"errors"
	"fmt"
	"io"

	"candela.dev/candela/trace"
)

// Reconstruction is the result of a merge of shards. The integrity check reports gaps.
type Reconstruction struct {
	Shards     int    `json:"shards"`
	Packets    int64  `json:"packets"`
	Bytes      int64  `json:"bytes"` // of the merged file
	Other      int64  `json:"other"` // frames that are not mirror copies, left out
	FirstSeq   uint64 `json:"first_seq"`
	LastSeq    uint64 `json:"last_seq"`
	Duplicates int64  `json:"duplicates"`
	// Regressions counts copies that follow a later one in their own shard, which the merge cannot repair.
	Regressions int64 `json:"regressions"`
	// FirstProblem describes the first duplicate or regression.
	FirstProblem string `json:"first_problem,omitempty"`
}

// Reconstruct merges shards into one trace on out, in the order of the mirror sequence, in one streaming pass whose
// memory depends on the number of shards only. Sequence numbers and stamps may wrap. UDP destination ports are restored
// where the dumper did not; shards of Lumina's prototype are converted to our encoding. name is out's name in errors.
//
// If shards cannot be opened the error names all of them and nothing is written. A damaged shard contributes the
// records before the damage, everything else is merged, and the error says where the damage is.
func Reconstruct(ctx context.Context, shards []trace.Source, out io.Writer, name string) (Reconstruction, error) {
	if len(shards) == 0 {
		return Reconstruction{}, errors.New("reconstruct: there are no shards to merge")
	}
	m := merge{out: trace.NewPcapWriter(out, name, 0)}
	m.report.Shards = len(shards)
	err := m.open(shards)
	if err == nil {
		err = m.run(ctx)
	}
	err = errors.Join(err, m.close())
	if err != nil {
		err = fmt.Errorf("reconstruct: %w", err)
	}
	return m.report, err
}

// merge is a k-way merge with a loser tree.
type merge struct {
	inputs []*input
	losers []int // losers[0] is the winner, losers[i] the loser of the match at inner node i
	out    *trace.PcapWriter
	report Reconstruction
	errs   []error

	anchored bool
	lumina   bool
	anchor   uint64 // sequence number that all inputs are placed around
	stamps   trace.TimeUnwrapper
	epoch    int64
	last     int64 // key of the last record written
}

// input is one shard with its next record.
type input struct {
	src     trace.Source
	file    *trace.FrameFile
	frame   trace.Frame
	key     int64 // sequence number, unwrapped
	seq     uint64
	started bool
}

// ended is the key of an exhausted input: later than every record.
const ended = int64(1<<63 - 1)

func (m *merge) open(shards []trace.Source) error {
	var errs []error
	for _, src := range shards {
		file, err := src.OpenFrames()
		if err != nil {
			errs = append(errs, fmt.Errorf("shard: %w", err))
			continue
		}
		m.inputs = append(m.inputs, &input{src: src, file: file})
	}
	return errors.Join(errs...)
}

func (m *merge) close() error {
	errs := m.errs
	for _, in := range m.inputs {
		errs = append(errs, in.file.Close())
	}
	return errors.Join(errs...)
}

func (m *merge) run(ctx context.Context) error {
	for _, in := range m.inputs {
		m.advance(in)
	}
	m.build()
	const cancelEvery = 4096
	for i := 0; ; i++ {
		if i%cancelEvery == 0 && ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), m.out.Flush())
		}
		winner := m.losers[0]
		in := m.inputs[winner]
		if in.key == ended {
			break
		}
		if err := m.write(in); err != nil {
			return err
		}
		m.advance(in)
		m.replay(winner)
	}
	err := m.out.Flush()
	m.report.Bytes = m.out.Bytes()
	return err
}

// write appends the next record of in to the output.
func (m *merge) write(in *input) error {
	f := &in.frame
	if m.report.Packets == 0 {
		m.epoch = f.TimeNS - m.stamps.Unwrap(stamp(f.Data))
		m.report.FirstSeq = in.seq
	}
	switch {
	case m.report.Packets == 0 || in.key > m.last:
	case in.key == m.last:
		m.report.Duplicates++
		m.problem("duplicate", in)
	}
	// Times come from the stamps and not from the shards: a host that starts after a wrap cannot know of it.
	record, err := m.out.Reserve(m.epoch+m.stamps.Unwrap(stamp(f.Data)), len(f.Data), f.OrigLen)
	if err != nil {
		return err
	}
	copy(record, f.Data)
	if m.lumina {
		err = trace.NormaliseLumina(record, uint64(in.key))
	} else {
		trace.RestorePort(record)
	}
	m.last = in.key
	m.report.LastSeq = in.seq
	m.report.Packets++
	return err
}

func (m *merge) problem(what string, in *input) {
	if m.report.FirstProblem == "" {
		m.report.FirstProblem = fmt.Sprintf("%s of #%d at %s frame %d", what, in.seq, in.src.Name, in.frame.Number)
	}
}

func stamp(frame []byte) uint64 {
	_ = frame[5]
	return uint64(frame[0])<<40 | uint64(frame[1])<<32 | uint64(frame[2])<<24 | uint64(frame[3])<<16 | uint64(
		frame[4])<<8 | uint64(frame[5])
}

// advance reads the next mirror copy of in.
func (m *merge) advance(in *input) {
	for {
		if err := in.file.Next(&in.frame); err != nil {
			if !errors.Is(err, io.EOF) {
				m.errs = append(m.errs, fmt.Errorf("shard: %w", err))
			}
			in.key = ended
			return
		}
		meta, err := trace.DecodeMirror(in.frame.Data)
		if err != nil {
			m.report.Other++
			continue
		}
		if !m.anchored {
			m.anchored, m.anchor, m.lumina = true, meta.Seq, meta.UDPDstPort == trace.LuminaPort
		}
		m.place(in, meta.Seq)
		return
	}
}

// place unwraps the sequence number of the record that in has read: near the anchor for the first, then near its
// predecessor.
func (m *merge) place(in *input, seq uint64) {
	if !in.started {
		in.started = true
		in.key = int64(m.anchor) + m.distance(m.anchor, seq)
		in.seq = seq
		return
	}
	d := m.distance(in.seq, seq)
	in.key, in.seq = in.key+d, seq
	if d < 0 {
		m.report.Regressions++
		m.problem("regression", in)
	}
}

// distance returns the signed distance between two sequence numbers on their circle.
func (m *merge) distance(from, to uint64) int64 {
	if !m.lumina {
		return int64((to-from)<<16) >> 16 // 48 bits
	}
	const turn = 1<<31 - 1 // 1…2³¹−1
	d := (int64(to) - int64(from)) % turn
	switch {
	case d > turn/2:
		d -= turn
	case d < -(turn / 2):
		d += turn
	}
	return d
}

// build plays the first round of the tournament.
func (m *merge) build() {
	k := len(m.inputs)
	m.losers = make([]int, max(k, 1))
	winners := make([]int, 2*k)
	for i := range k {
		winners[k+i] = i
	}
	for node := k - 1; node >= 1; node-- {
		a, b := winners[2*node], winners[2*node+1]
		if m.before(b, a) {
			a, b = b, a
		}
		winners[node], m.losers[node] = a, b
	}
	if k > 1 {
		m.losers[0] = winners[1]
	}
}

// replay repeats the tournament of the changed input i.
func (m *merge) replay(i int) {
	k := len(m.inputs)
	for node := (k + i) / 2; node >= 1; node /= 2 {
		if m.before(m.losers[node], i) {
			i, m.losers[node] = m.losers[node], i
		}
	}
	m.losers[0] = i
}

// before orders inputs by their next record; ties go to the earlier shard, so that the output is deterministic.
func (m *merge) before(a, b int) bool {
	ka, kb := m.inputs[a].key, m.inputs[b].key
	return ka < kb || ka == kb && a < b
}
