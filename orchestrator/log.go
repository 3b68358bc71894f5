package orchestrator

import (
	"fmt"
	"log/slog"
)

// openLog starts log.jsonl: one line a step, with what it came to.
func (r *run) openLog() (closeLog func() error, err error) {
	if r.o.memory != nil { // nobody could read it
		return func() error { return nil }, nil
	}
	file, err := r.dir.Create("log.jsonl")
	if err != nil {
		return nil, err
	}
	r.log = slog.New(slog.NewJSONHandler(file, nil))
	return file.Close, nil
}

// progressOf says in numbers what a step has come to.
func (r *run) progressOf(step string) []any {
	switch step {
	case stepPrepare:
		return []any{"connections", len(r.connections)}
	case stepProgram:
		cookie, pushed := r.client.Cookie()
		return []any{
			"entries", len(r.program.Entries), "epoch", r.program.Epoch, "p4runtime", r.client.APIVersion(),
			"cookie", fmt.Sprintf("%016x", cookie), "pushed", pushed,
		}
	case stepTraffic:
		return []any{"goodput_bps", r.generator.GoodputBPS, "mirrored", r.counters.Switch.Mirrored().Packets}
	case stepCollect:
		return []any{"shards", len(r.dump.Shards)}
	case stepReconstruct:
		return []any{"packets", r.merge.Packets, "duplicates", r.merge.Duplicates, "regressions", r.merge.Regressions}
	case stepCheck:
		return []any{"valid", r.integrity.Valid}
	case stepAnalyse:
		if r.analysis != nil {
			return []any{"findings", len(r.analysis.Findings)}
		}
	}
	return nil
}
