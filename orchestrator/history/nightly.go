package history

import (
	"cmp"
	"database/sql"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"candela.dev/candela/orchestrator/history/statistics"
)

// touch notes the nights of series whose runs change.
func (w *writer) touch(text string, args ...any) error {
	list, err := w.pairs(text, args...)
	for _, p := range list {
		w.touched[seriesNight{p[0], Night(p[1])}] = true
	}
	return err
}

// maxSamples is how many medians of a night are kept with it.
const maxSamples = 200

// nightly computes the nights whose runs have changed. Runs that say nothing about the device do not count.
func (w *writer) nightly() error {
	if len(w.touched) == 0 {
		return nil
	}
	of, err := w.tx.PrepareContext(w.ctx, `SELECT m.p50 FROM metric m JOIN run r ON r.id = m.run
		WHERE m.series = $1 AND m.night = $2 AND r.verdict IN (0, 1) ORDER BY m.run`)
	if err != nil {
		return err
	}
	defer of.Close()
	keys := make([]seriesNight, 0, len(w.touched))
	for k := range w.touched {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b seriesNight) int {
		return cmp.Or(cmp.Compare(a.series, b.series), cmp.Compare(a.night, b.night))
	})
	var list rows
	for _, k := range keys {
		values, err := w.values(of, k)
		if err != nil {
			return err
		}
		if len(values) == 0 {
			if err := w.exec(`DELETE FROM nightly WHERE series = $1 AND night = $2`, k.series, int64(k.night)); err != nil {
				return err
			}
			continue
		}
		n := summary(values)
		list.add(k.series, int64(k.night), n.n, n.median, n.center, n.spread, flag(n.positive), n.samples)
	}
	return w.insert("nightly (series, night, n, median, center, spread, positive, samples)", &list,
		` ON CONFLICT (series, night) DO UPDATE SET n = excluded.n, median = excluded.median, center = excluded.center,
		spread = excluded.spread, positive = excluded.positive, samples = excluded.samples`)
}

func (w *writer) values(of *sql.Stmt, k seriesNight) (values []float64, err error) {
	list, err := of.QueryContext(w.ctx, k.series, int64(k.night))
	if err != nil {
		return nil, err
	}
	for list.Next() {
		var v float64
		if err := list.Scan(&v); err != nil {
			return nil, errors.Join(err, list.Close())
		}
		values = append(values, v)
	}
	return values, errors.Join(list.Err(), list.Close())
}

// aNight is a row of table nightly.
type aNight struct {
	n                      int
	median, center, spread float64
	positive               bool
	samples                []byte
}

func summary(values []float64) aNight {
	s := aNight{n: len(values), median: statistics.Median(values), positive: true}
	for _, v := range values {
		s.positive = s.positive && v > 0
	}
	scaled := make([]float64, len(values))
	for i, v := range values {
		if scaled[i] = v; s.positive {
			scaled[i] = math.Log(v)
		}
	}
	s.center, s.spread = statistics.Center(scaled), statistics.Spread(scaled)
	for _, v := range values[:min(len(values), maxSamples)] {
		s.samples = binary.LittleEndian.AppendUint64(s.samples, math.Float64bits(v))
	}
	return s
}

func samplesOf(data []byte) []float64 {
	const size = 8
	values := make([]float64, len(data)/size)
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[i*size:]))
	}
	return values
}

// tallyKey is what runs have in common that are counted together.
type tallyKey struct {
	night                         Night
	variant, testbed, environment int64
	verdict                       Verdict
}

// recount notes that a run, which keeps its place, has another verdict.
func (w *writer) recount(row runRow, verdict Verdict) error {
	var k tallyKey
	err := w.tx.QueryRowContext(w.ctx, `SELECT night, variant, testbed, environment FROM run WHERE id = $1`, row.id).
		Scan(&k.night, &k.variant, &k.testbed, &k.environment)
	k.verdict = row.verdict
	w.tally[k]--
	k.verdict = verdict
	w.tally[k]++
	return err
}

// count adds what has changed to table tally.
func (w *writer) count() error {
	keys := slices.SortedFunc(maps.Keys(w.tally), func(a, b tallyKey) int {
		return cmp.Or(cmp.Compare(a.night, b.night), cmp.Compare(a.variant, b.variant), cmp.Compare(a.testbed, b.testbed),
			cmp.Compare(a.verdict, b.verdict), cmp.Compare(a.environment, b.environment))
	})
	var list rows
	for _, k := range keys {
		if n := w.tally[k]; n != 0 {
			list.add(int64(k.night), k.variant, k.testbed, int64(k.verdict), k.environment, n)
		}
	}
	clear(w.tally)
	return w.insert("tally (night, variant, testbed, verdict, environment, runs)", &list,
		` ON CONFLICT (night, variant, testbed, verdict, environment) DO UPDATE SET runs = tally.runs + excluded.runs`)
}
