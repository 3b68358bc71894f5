package history

import "slices"

// SetVersion writes a version of the schema.
func SetVersion(s *Store, version int64) error {
	_, err := s.db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, version)
	return err
}

// MetricOf returns the distribution of values, as [ReadDir] makes it.
func MetricOf(name, unit string, values []int64) Metric {
	m := Metric{Name: name, Unit: unit, N: int64(len(values)), Least: float64(slices.Min(values)),
		Most: float64(slices.Max(values))}
	for _, v := range values {
		m.Mean += float64(v) / float64(len(values))
	}
	sorted := slices.Sorted(slices.Values(values))
	m.P50, m.P99, m.P999 = float64(sorted[len(sorted)/2]), m.Most, m.Most
	var err error
	if m.Histogram, err = encode(values); err != nil {
		panic(err)
	}
	return m
}
