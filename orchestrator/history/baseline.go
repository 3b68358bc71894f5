package history

import (
	"context"
	"database/sql"
	"strings"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

// Baseline returns the metrics of earlier runs of a test at a point on a testbed, for tests that compare themselves
// with them: of the latest night that the reference fits and that is before the present one. A reference that no run
// fits gives an empty one: the first run of a test has nothing before it.
func (s *Store) Baseline(ctx context.Context, t *Test, point []config.Assigned, testbed, ref string, before Night) (
	orchestrator.Baseline, error) {
	var variant, bed int64
	for _, key := range append([]string{t.Key()}, t.Was...) {
		err := s.query(ctx, func(row *sql.Rows) error { return row.Scan(&variant, &bed) }, `SELECT v.id, b.id FROM test_name n
			JOIN variant v ON v.test = n.test AND v.point = $2 JOIN testbed b ON b.name = $3 WHERE n.name = $1`, key,
			PointText(point), testbed)
		if err != nil {
			return nil, err
		}
		if variant != 0 {
			break
		}
	}
	b := orchestrator.Baseline{}
	if variant == 0 {
		return b, nil
	}
	var w where
	w.add("r.variant = ?", variant)
	w.add("r.testbed = ?", bed)
	w.add("r.verdict IN (0, 1)")
	w.add("r.night < ?", int64(before))
	word, value, _ := strings.Cut(ref, ":")
	switch name, isNight := strings.CutPrefix(ref, "night-"); {
	case ref == "last-green":
		w.add("r.verdict = 0")
	case isNight:
		night, err := ParseNight(name)
		if err != nil {
			return nil, usageError{err}
		}
		w.add("r.night = ?", int64(night))
	default:
		of := &side{label: ref}
		if err := s.withProperty(ctx, of, refProperties[word], value); err != nil {
			return nil, err
		}
		w.add("r.environment IN (" + numbers(of.environments) + ")")
	}
	night, err := s.baselineNight(ctx, ref, w)
	if err != nil || night == nil {
		return b, err
	}
	w.add("r.night = ?", int64(*night))
	counted := make(map[string]map[int64]bool) // runs with counters, by side
	err = s.query(ctx, func(row *sql.Rows) error {
		var run int64
		var name string
		var least, mean, p50, p99, most float64
		if err := row.Scan(&run, &name, &least, &mean, &p50, &p99, &most); err != nil {
			return err
		}
		m := b[name]
		if m == nil {
			m = make(map[string][]float64)
			b[name] = m
		}
		m["min"] = append(m["min"], least)
		m["mean"], m["p50"], m["p99"], m["max"] = append(m["mean"], mean), append(m["p50"], p50), append(m["p99"], p99),
			append(m["max"], most)
		if side := counterSide(name); side != "" {
			if counted[side] == nil {
				counted[side] = make(map[int64]bool)
			}
			counted[side][run] = true
		}
		return nil
	}, `SELECT r.id, s.name, m.least, m.mean, m.p50, m.p99, m.most FROM run r JOIN metric m ON m.run = r.id
		JOIN series s ON s.id = m.series`+w.String()+` ORDER BY r.started, r.run_id, s.name`, w.args...)
	for name, m := range b {
		for key := range m {
			for len(m[key]) < len(counted[counterSide(name)]) { // it did not grow in the others
				m[key] = append(m[key], 0)
			}
		}
	}
	return b, err
}

// counterSide returns the side whose NIC a metric is a counter of, as metrics are named; empty: it is no counter.
func counterSide(metric string) string {
	for _, s := range []config.Side{config.Requester, config.Responder} {
		if prefix := config.CounterMetric(s); strings.HasPrefix(metric, prefix) {
			return prefix
		}
	}
	return ""
}

// baselineNight returns the latest night that fits; of last-green the latest on which no run failed. Nil: none.
func (s *Store) baselineNight(ctx context.Context, ref string, w where) (*Night, error) {
	text := `SELECT max(r.night) FROM run r` + w.String()
	if ref == "last-green" {
		text += ` AND NOT EXISTS (SELECT 1 FROM run x WHERE x.variant = r.variant AND x.testbed = r.testbed AND
			x.night = r.night AND x.verdict = 1)`
	}
	var night sql.NullInt64
	if err := s.db.QueryRowContext(ctx, text, w.args...).Scan(&night); err != nil || !night.Valid {
		return nil, s.explain("read", err)
	}
	n := Night(night.Int64)
	return &n, nil
}
