package reproduce

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/trace"
)

// expectedMarks holds tables 5-III and 5-IV for one NIC.
type expectedMarks struct {
	nic
	first, second [3]float64 // us, marks by connection
	cnps          [3]float64
}

// notification measures L8: the number of CNPs of each connection.
func notification(ctx context.Context, l *lab) error {
	results, err := l.runAll(ctx, "table-5-3.yml", "table-5-3-cx4.yml")
	if err != nil {
		return err
	}
	for _, want := range []expectedMarks{
		{cx4, [3]float64{10, 31, 45}, [3]float64{616, 630, 643}, [3]float64{2, 2, 2}},
		{cx5, [3]float64{8, 17, 18}, [3]float64{246, 255, 258}, [3]float64{2, 2, 2}},
		{cx6, [3]float64{9, 16, 17}, [3]float64{246, 254, 259}, [3]float64{2, 0, 0}},
	} {
		for _, r := range of(results, want.profile) {
			cnpRows(l, want, r)
		}
	}
	return nil
}

func cnpRows(l *lab, want expectedMarks, r *result) {
	const id = "L8"
	paced := comparison.FromConstant("CNPMode and CNPInterval, taken from the same table")
	lineRate := comparison.FromMechanism("the time of three connections' packets at line rate")
	start := comparison.Unjudged("our connections start at once, the paper's one after the other")
	for c, n := range want.cnps {
		l.row(paced, comparison.NewRow(id, fmt.Sprintf("%s CNPs to QP%d", want.name, c+1), "", n, n, 0,
			r.value("cnp.count", c+1)))
	}
	for c := range want.cnps {
		first, second := r.markTime(c+1, 50), r.markTime(c+1, 950)
		l.row(start, comparison.NewRow(id, fmt.Sprintf("%s mark on packet 50 of QP%d", want.name, c+1), "us", want.first[c],
			want.first[c], 0, first))
		l.row(lineRate, comparison.NewRow(id, fmt.Sprintf("%s mark on packet 950 of QP%d", want.name, c+1), "us",
			want.second[c], want.second[c], 0.05, second).Noted("tolerance ours"))
	}
}

// readMarks finds the CE marks in the trace of a run directory.
func readMarks(ctx context.Context, dir string) ([]mark, error) {
	connections, err := readConnections(filepath.Join(dir, "connections.json"))
	if err != nil {
		return nil, err
	}
	checked, _, err := trace.Check(ctx, trace.FileSource(filepath.Join(dir, "trace.pcap")), trace.Options{
		Format: trace.FormatMirror, Connections: connections, SkipICRC: true,
	})
	if err != nil {
		return nil, err
	}
	var marks []mark
	start, started := int64(0), false
	err = checked.ForEach(ctx, func(r *trace.Record) error {
		if !started {
			start, started = r.TimeNS, true
		}
		if r.Event == trace.EventECN && r.Flow != trace.NoFlow {
			marks = append(marks, mark{r.Flow.Connection(), connections.RelPSN(r.Flow, r.Opcode.Space(), r.PSN),
				r.TimeNS - start})
		}
		return nil
	})
	return marks, err
}

func readConnections(path string) (*trace.Connections, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return trace.ReadConnections(f)
}
