package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/trace"
)

// CalibrationSchema names the format of calibration.json.
const CalibrationSchema = "candela.calibration/v1"

// calibrationFile holds, in a run directory, the calibration that corrected its latencies.
const calibrationFile = "calibration.json"

// Calibration is the shortest RTT between the switch and each host in a run without events. It is subtracted from
// latencies seen at the switch and includes the host's own shortest response time (retrans.Calibration).
type Calibration struct {
	Schema      string `json:"schema"`
	Run         string `json:"run"` // the calibration run
	RequesterNS int64  `json:"requester_ns"`
	ResponderNS int64  `json:"responder_ns"`
}

func (c *Calibration) sides() retrans.Sides {
	if c == nil {
		return retrans.Sides{}
	}
	return retrans.Sides{Requester: c.RequesterNS, Responder: c.ResponderNS}
}

// calibrationMessages are enough for a minimum: on a wire without loss only queueing varies.
const calibrationMessages = 16

// Calibrate runs p's traffic without its events, one message at a time, and measures the RTTs. The run directory is
// kept next to that of the test.
func Calibrate(ctx context.Context, p *plan.Plan, build Builder, o Options) (*Calibration, error) {
	quiet := *p.Test
	quiet.Name += "-calibration"
	quiet.Traffic.DataEvents, quiet.Traffic.ControlEvents = nil, nil
	quiet.Traffic.Messages, quiet.Traffic.TxDepth = calibrationMessages, 1
	q, err := plan.New(&quiet)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	o.ID, o.Repeat = o.ID+"-calibration", 0
	outcome, err := Run(ctx, q, build, o)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	if outcome.Analysis == nil {
		return nil, fmt.Errorf("calibrate: the calibration run came to nothing: %v", outcome.Verdict.Reasons)
	}
	f, err := loadFacts(AnalyzeOptions{Trace: outcome.Dir})
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	if err := f.check(ctx, trace.FileSource(filepath.Join(outcome.Dir, traceFile))); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	measured := retrans.Calibrate(f.checked.Meta())
	if _, err := analyzers.Run(ctx, f.checked, measured); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	half := measured.HalfRTT()
	return &Calibration{CalibrationSchema, filepath.Base(outcome.Dir), half.Requester, half.Responder}, nil
}

// loadCalibration reads the calibration of a run directory; nil if there is none.
func loadCalibration(dir string) (*Calibration, error) {
	var c Calibration
	err := readJSON(filepath.Join(dir, calibrationFile), &c)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return &c, err
}
