package history

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
)

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
	if m.Histogram, err = analyzers.EncodeHistogram(values); err != nil {
		panic(err)
	}
	return m
}

// Downgrade takes a store back to the schema of version 2, which had neither tally nor packs.
func Downgrade(s *Store) error {
	for _, text := range []string{`DROP TABLE tally`, `DROP TABLE pack`, `DROP INDEX run_failed`, `DROP INDEX run_lost`,
		`DROP TABLE former_issue`, `DROP INDEX finding_waived`,
		`DELETE FROM goose_db_version WHERE version_id > 2`} {
		if _, err := s.db.Exec(text); err != nil {
			return err
		}
	}
	return nil
}

// Miscounted counts the rows in which the tally and the runs differ.
func Miscounted(s *Store) (n int, err error) {
	const runs = `SELECT night, variant, testbed, verdict, environment, count(*) AS runs FROM run
		GROUP BY night, variant, testbed, verdict, environment`
	const tally = `SELECT night, variant, testbed, verdict, environment, runs FROM tally WHERE runs <> 0`
	for _, pair := range [][2]string{{runs, tally}, {tally, runs}} {
		var part int
		err := s.db.QueryRow(`SELECT count(*) FROM (` + pair[0] + ` EXCEPT ` + pair[1] + `) x`).Scan(&part)
		if err != nil {
			return 0, err
		}
		n += part
	}
	return n, nil
}

// Mispacked says in which rows packs and table nightly differ.
func Mispacked(s *Store) (wrong []string, err error) {
	type key struct {
		bedNight
		series int64
	}
	nights := make(map[key]aNight)
	ctx := context.Background()
	err = s.query(ctx, func(row *sql.Rows) error {
		var k key
		var n aNight
		var positive int
		err := row.Scan(&k.testbed, &k.night, &k.series, &n.n, &n.median, &n.center, &n.spread, &positive)
		n.positive = positive != 0
		nights[k] = n
		return err
	}, `SELECT s.testbed, n.night, s.id, n.n, n.median, n.center, n.spread, n.positive FROM nightly n
		JOIN series s ON s.id = n.series`)
	if err != nil {
		return nil, err
	}
	err = s.query(ctx, func(row *sql.Rows) error {
		var k key
		var data []byte
		if err := row.Scan(&k.testbed, &k.night, &data); err != nil {
			return err
		}
		return eachPacked(data, func(series int64, n aNight) {
			k.series = series
			if want, ok := nights[k]; !ok || want.n != n.n || want.median != n.median || want.center != n.center ||
				want.spread != n.spread || want.positive != n.positive {
				wrong = append(wrong, fmt.Sprintf("%+v: %+v, want %+v", k, n, want))
			}
			delete(nights, k)
		})
	}, `SELECT testbed, night, metrics FROM pack`)
	for k := range nights {
		wrong = append(wrong, fmt.Sprintf("%+v is not packed", k))
	}
	return wrong, err
}
