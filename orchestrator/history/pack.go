package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/pressly/goose/v3"
)

// A bedNight is a testbed on a night. What table nightly says of all its metrics is also in one row of table pack: for
// each series, in the order of ids, the distance from the id before, twice the runs plus 1 if all values are positive,
// both as varints, then median, center and spread as little-endian float64. Tens of thousands of rows are read that way
// in the time of a hundred.
type bedNight struct {
	testbed int64
	night   Night
}

func appendPacked(data []byte, from, series int64, n *aNight) []byte {
	data = binary.AppendUvarint(data, uint64(series-from))
	data = binary.AppendUvarint(data, uint64(n.n)<<1|uint64(flag(n.positive)))
	for _, v := range []float64{n.median, n.center, n.spread} {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return data
}

var errPack = errors.New("a row of table pack is damaged; restore a copy, or make a new store from the run directories")

// eachPacked calls take for each metric of a night.
func eachPacked(data []byte, take func(series int64, n aNight)) error {
	series := int64(0)
	for len(data) > 0 {
		step, a := binary.Uvarint(data)
		if a <= 0 {
			return errPack
		}
		runs, b := binary.Uvarint(data[a:])
		if b <= 0 || len(data) < a+b+24 {
			return errPack
		}
		data = data[a+b:]
		value := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])) }
		series += int64(step)
		take(series, aNight{n: int(runs >> 1), positive: runs&1 != 0, median: value(0), center: value(1), spread: value(2)})
		data = data[24:]
	}
	return nil
}

// pack packs the nights again whose metrics have changed.
func (w *writer) pack() error {
	if len(w.touched) == 0 {
		return nil
	}
	ids := make(map[int64]bool)
	for k := range w.touched {
		ids[k.series] = true
	}
	beds, err := w.pairs(`SELECT id, testbed FROM series WHERE id IN (` + numbers(idsOf(ids)) + `)`)
	if err != nil {
		return err
	}
	of := make(map[int64]int64)
	for _, p := range beds {
		of[p[0]] = p[1]
	}
	nights := make(map[bedNight]bool)
	for k := range w.touched {
		if testbed, ok := of[k.series]; ok {
			nights[bedNight{testbed, k.night}] = true
		}
	}
	return packNights(w.ctx, w.tx, nights)
}

func packNights(ctx context.Context, tx *sql.Tx, nights map[bedNight]bool) error {
	keys := make([]bedNight, 0, len(nights))
	for k := range nights {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b bedNight) int {
		return cmp.Or(cmp.Compare(a.testbed, b.testbed), cmp.Compare(a.night, b.night))
	})
	for _, k := range keys {
		data, err := packed(ctx, tx, k)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO pack (testbed, night, metrics) VALUES ($1, $2, $3)
			ON CONFLICT (testbed, night) DO UPDATE SET metrics = excluded.metrics`, k.testbed, int64(k.night), data)
		if err != nil {
			return err
		}
	}
	return nil
}

func packed(ctx context.Context, tx *sql.Tx, k bedNight) ([]byte, error) {
	list, err := tx.QueryContext(ctx, `SELECT n.series, n.n, n.median, n.center, n.spread, n.positive FROM nightly n
		JOIN series s ON s.id = n.series WHERE n.night = $1 AND s.testbed = $2 ORDER BY n.series`, int64(k.night), k.testbed)
	if err != nil {
		return nil, err
	}
	data, last := []byte{}, int64(0)
	for list.Next() {
		var series int64
		var n aNight
		var positive int
		if err := list.Scan(&series, &n.n, &n.median, &n.center, &n.spread, &positive); err != nil {
			return nil, errors.Join(err, list.Close())
		}
		n.positive = positive != 0
		data, last = appendPacked(data, last, series, &n), series
	}
	return data, errors.Join(list.Err(), list.Close())
}

// packing is the migration that packs the nights of a store without packs.
func packing() *goose.Migration {
	const version = 4
	return goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		w := &writer{ctx: ctx, tx: tx}
		list, err := w.pairs(`SELECT DISTINCT s.testbed, n.night FROM nightly n JOIN series s ON s.id = n.series`)
		if err != nil {
			return err
		}
		nights := make(map[bedNight]bool)
		for _, p := range list {
			nights[bedNight{p[0], Night(p[1])}] = true
		}
		return packNights(ctx, tx, nights)
	}}, nil)
}
