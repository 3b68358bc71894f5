package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	dumper "candela.dev/candela/dumper/live"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// Record opens the capture.
func (s *Server) Record(_ context.Context, q *agentpb.RecordRequest) (answer *agentpb.RecordResponse, err error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	return answer, r.locked(func() error {
		var taken bool
		if answer, taken, err = r.record.repeated("Record", q); taken {
			return err
		}
		answer, err = r.openRecorder(q)
		return err
	})
}

func (r *run) openRecorder(q *agentpb.RecordRequest) (*agentpb.RecordResponse, error) {
	limits := r.server.cfg.Limits
	if err := r.server.checkInterface(q.GetInterface()); err != nil {
		return nil, err
	}
	const maxSnap = 1 << 16
	switch {
	case !nameForm.MatchString(q.GetName()):
		return nil, refuse("name %q of the dumper: want lower-case letters, digits and inner hyphens", q.GetName())
	case q.GetCores() > uint32(limits.Cores):
		return nil, status.Errorf(codes.ResourceExhausted, "%d cores, this agent has %d", q.GetCores(), limits.Cores)
	case q.GetBytes() > limits.CaptureBytes:
		return nil, status.Errorf(codes.ResourceExhausted, "%d bytes of copies, this agent keeps %d", q.GetBytes(),
			limits.CaptureBytes)
	case q.GetSnap() > maxSnap:
		return nil, refuse("snap of %d bytes", q.GetSnap())
	}
	bytes := min(limits.CaptureBytes, max(q.GetBytes(), defaultRecord))
	recorder, err := dumper.Open(dumper.Config{
		Name: q.GetName(), Interface: q.GetInterface(), Cores: int(q.GetCores()), Snap: int(q.GetSnap()),
		EpochNS: q.GetEpochUnixNs(),
		Bytes:   int(bytes), FanoutGroup: uint16(os.Getpid()),
	})
	if err != nil {
		return nil, failed(err)
	}
	// Only now: a change of offloads takes the carrier of some NICs away for a moment.
	before, err := readLosses(q.GetInterface())
	if err != nil {
		return nil, failed(errors.Join(err, recorder.Close()))
	}
	answer := &agentpb.RecordResponse{Offloads: recorder.Offloads()}
	r.recorder, r.recorded = recorder, before
	r.record.take(q, answer)
	return answer, nil
}

// defaultRecord is the default room for copies; memory is used only as it fills.
const defaultRecord = 256 << 20

// Finish ends the capture and writes the shards. What was written before an error can be fetched.
func (s *Server) Finish(_ context.Context, q *agentpb.FinishRequest) (answer *agentpb.FinishResponse, err error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	return answer, r.locked(func() error {
		switch {
		case r.finish != nil:
			answer = r.finish
			return r.unfinished
		case r.recorder == nil:
			return status.Error(codes.FailedPrecondition, "nothing is recorded")
		}
		report, failure := r.recorder.Finish(func(name string) (io.WriteCloser, error) { return r.root.Create(name) })
		answer, err = r.describe(report)
		if err != nil {
			return failed(errors.Join(failure, err))
		}
		now, err := readLosses(r.record.request.GetInterface())
		if err != nil {
			return failed(errors.Join(failure, err))
		}
		answer.Losses = now.since(r.recorded)
		r.finish, r.unfinished = answer, incomplete(failure, answer)
		return r.unfinished
	})
}

// incomplete is the error of shards that could not be written whole, with what can be fetched.
func incomplete(failure error, answer *agentpb.FinishResponse) error {
	if failure == nil {
		return nil
	}
	s := status.New(codes.ResourceExhausted, failure.Error())
	if detailed, err := s.WithDetails(answer); err == nil {
		s = detailed
	}
	return s.Err()
}

// describe adds the shards' checksums to a report.
func (r *run) describe(report dumper.Report) (*agentpb.FinishResponse, error) {
	answer := &agentpb.FinishResponse{
		Received: report.Received, Written: report.Written, Dropped: report.Dropped, Exceeded: report.Exceeded,
		Other:   report.Other,
		Foreign: report.Foreign,
	}
	for _, s := range report.Shards {
		file, err := r.root.Open(s.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // there was no room even for its name, which the report's error says
		}
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("shard %s: %w", s.Name, err)
		}
		answer.Shards = append(answer.Shards,
			&agentpb.Shard{Name: s.Name, Bytes: uint64(n), Packets: s.Packets, Sha256: sum.Sum(nil)})
	}
	return answer, nil
}

// chunk is how many bytes of a shard a message carries.
const chunk = 1 << 20

// Fetch streams a shard. The run's lock is held for opening only: a release meanwhile ends the stream with an error.
func (s *Server) Fetch(q *agentpb.FetchRequest, stream grpc.ServerStreamingServer[agentpb.FetchResponse]) error {
	if _, ok := stream.Context().Deadline(); !ok {
		return refuse("the call has no deadline")
	}
	file, err := s.openShard(q)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := make([]byte, chunk)
	for {
		n, err := io.ReadFull(file, buffer)
		if n > 0 {
			data := buffer[:n]
			if err := stream.Send(&agentpb.FetchResponse{Data: data, Crc32C: checksum(data)}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return failed(err)
		}
	}
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

func (s *Server) openShard(q *agentpb.FetchRequest) (file *os.File, err error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	return file, r.locked(func() error {
		for _, shard := range r.finish.GetShards() {
			if shard.GetName() != q.GetShard() {
				continue
			}
			if q.GetOffset() > shard.GetBytes() {
				return refuse("offset %d is past the shard's %d bytes", q.GetOffset(), shard.GetBytes())
			}
			if file, err = r.root.Open(shard.GetName()); err != nil {
				return failed(err)
			}
			_, err = file.Seek(int64(q.GetOffset()), io.SeekStart)
			return failed(err)
		}
		return status.Errorf(codes.NotFound, "no shard %q", q.GetShard())
	})
}

// Discard frees the capture and removes its shards.
func (s *Server) Discard(_ context.Context, q *agentpb.DiscardRequest) (*agentpb.DiscardResponse, error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	return &agentpb.DiscardResponse{}, r.locked(func() error { return failed(r.closeRecorder()) })
}
