package history

import (
	"cmp"
	"database/sql"
	"errors"
)

// test returns the row of a run's test: the one that has its key or a former key. A test under a new name takes over
// its history; if runs under the new name came first, both become one.
func (w *writer) test(r *Run) (testRow, error) {
	t := &r.Test
	row, ok, err := w.named(t.Key())
	if err != nil {
		return row, err
	}
	for _, was := range t.Was {
		former, found, err := w.named(was)
		switch {
		case err != nil:
			return row, err
		case found && !ok:
			row, ok = former, true
		case found && former.id != row.id:
			// The one that is older in the store keeps its identity.
			row, former = older(row, former)
			if err := w.merge(row, former); err != nil {
				return row, err
			}
		}
	}
	if !ok {
		if row, err = w.newTest(t); err != nil {
			return row, err
		}
	}
	if err := w.names(row, append([]string{t.Key()}, t.Was...)); err != nil {
		return row, err
	}
	if started := micros(r.Started); row.latest < started {
		row.latest = started
		_, err := w.tx.ExecContext(w.ctx, `UPDATE test SET name = $1, path = $2, metadata_id = $3, owner = $4,
			requirement = $5, latest = $6 WHERE id = $7 AND latest < $6`, t.Name, t.Path, t.ID, t.Owner, t.Requirement,
			row.latest, row.id)
		if err != nil {
			return row, err
		}
	}
	for _, name := range append([]string{t.Key()}, t.Was...) {
		w.known.tests[name] = row
	}
	return row, nil
}

func older(a, b testRow) (first, second testRow) {
	if b.id < a.id {
		return b, a
	}
	return a, b
}

// named returns the test that has or had a key.
func (w *writer) named(key string) (row testRow, ok bool, err error) {
	if row, ok = w.known.tests[key]; ok {
		return row, true, nil
	}
	err = w.tx.QueryRowContext(w.ctx, `SELECT t.id, t.origin, t.latest FROM test_name n JOIN test t ON t.id = n.test
		WHERE n.name = $1`, key).Scan(&row.id, &row.origin, &row.latest)
	if errors.Is(err, sql.ErrNoRows) {
		return row, false, nil
	}
	return row, err == nil, err
}

func (w *writer) newTest(t *Test) (row testRow, err error) {
	row.origin = t.origin()
	if row.id, err = w.nextID("test"); err != nil {
		return row, err
	}
	_, err = w.tx.ExecContext(w.ctx, `INSERT INTO test (id, origin, name, path, metadata_id, owner, requirement, latest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0)`, row.id, row.origin, t.Name, t.Path, t.ID, t.Owner, t.Requirement)
	return row, err
}

func (w *writer) names(row testRow, keys []string) error {
	for _, key := range keys {
		if known, ok := w.known.tests[key]; ok && known.id == row.id {
			continue
		}
		_, err := w.tx.ExecContext(w.ctx, `INSERT INTO test_name (name, test) VALUES ($1, $2) ON CONFLICT DO NOTHING`, key,
			row.id)
		if err != nil {
			return err
		}
	}
	return nil
}

// merge moves everything of the second test to the first.
func (w *writer) merge(into, from testRow) error {
	if err := w.flush(); err != nil {
		return err
	}
	list, err := w.pairs(`SELECT f.id, coalesce(i.id, 0) FROM variant f LEFT JOIN variant i
		ON i.test = $1 AND i.point = f.point WHERE f.test = $2`, into.id, from.id)
	if err != nil {
		return err
	}
	for _, v := range list {
		if v[1] == 0 {
			err = w.exec(`UPDATE variant SET test = $1 WHERE id = $2`, into.id, v[0])
		} else {
			err = w.mergeVariant(v[1], v[0])
		}
		if err != nil {
			return err
		}
	}
	if err := w.rename(into); err != nil {
		return err
	}
	if err := w.exec(`UPDATE test_name SET test = $1 WHERE test = $2`, into.id, from.id); err != nil {
		return err
	}
	if err := w.exec(`DELETE FROM test WHERE id = $1`, from.id); err != nil {
		return err
	}
	// Ids that this and other writers remember may be gone.
	if err := w.exec(`UPDATE generation SET number = number + 1 WHERE one = 1`); err != nil {
		return err
	}
	k := w.known
	clear(k.tests)
	clear(k.variants)
	clear(k.series)
	clear(k.issues)
	return nil
}

func (w *writer) mergeVariant(into, from int64) error {
	if err := cmp.Or(w.count(), w.exec(`INSERT INTO tally (night, variant, testbed, verdict, environment, runs)
		SELECT night, $1, testbed, verdict, environment, runs FROM tally WHERE variant = $2
		ON CONFLICT (night, variant, testbed, verdict, environment) DO UPDATE SET runs = tally.runs + excluded.runs`,
		into, from), w.exec(`DELETE FROM tally WHERE variant = $1`, from),
		w.exec(`UPDATE run SET variant = $1 WHERE variant = $2`, into, from)); err != nil {
		return err
	}
	list, err := w.pairs(`SELECT f.id, coalesce(i.id, 0) FROM series f LEFT JOIN series i
		ON i.variant = $1 AND i.testbed = f.testbed AND i.name = f.name WHERE f.variant = $2`, into, from)
	if err != nil {
		return err
	}
	for _, v := range list {
		if v[1] == 0 {
			if err = w.exec(`UPDATE series SET variant = $1 WHERE id = $2`, into, v[0]); err != nil {
				return err
			}
			continue
		}
		for _, text := range []string{`DELETE FROM nightly WHERE series = $2 OR series = $1`,
			`UPDATE metric SET series = $1 WHERE series = $2`} {
			if err == nil {
				err = w.exec(text, v[1], v[0])
			}
		}
		if err == nil {
			err = w.exec(`DELETE FROM series WHERE id = $1`, v[0])
		}
		if err == nil {
			err = w.touch(`SELECT DISTINCT series, night FROM metric WHERE series = $1`, v[1])
		}
		if err != nil {
			return err
		}
	}
	list, err = w.pairs(`SELECT f.id, coalesce(i.id, 0) FROM issue f LEFT JOIN issue i
		ON i.variant = $1 AND i.rule = f.rule AND i.cause = f.cause AND i.role = f.role WHERE f.variant = $2`, into, from)
	if err != nil {
		return err
	}
	for _, v := range list {
		if v[1] == 0 {
			err = w.exec(`UPDATE issue SET variant = $1 WHERE id = $2`, into, v[0])
		} else {
			err = cmp.Or(w.exec(`UPDATE finding SET issue = $1 WHERE issue = $2`, v[1], v[0]),
				w.exec(`UPDATE former_issue SET issue = $1 WHERE issue = $2`, v[1], v[0]),
				w.exec(`DELETE FROM issue WHERE id = $1`, v[0]))
		}
		if err != nil {
			return err
		}
	}
	return w.exec(`DELETE FROM variant WHERE id = $1`, from)
}

// rename gives the issues of a test the identities that follow from its origin.
func (w *writer) rename(t testRow) error {
	list, err := w.tx.QueryContext(w.ctx, `SELECT i.id, i.hash, v.point, i.rule, i.cause, i.role,
		EXISTS (SELECT 1 FROM former_issue f WHERE f.issue = i.id) FROM issue i
		JOIN variant v ON v.id = i.variant WHERE v.test = $1`, t.id)
	if err != nil {
		return err
	}
	wanted, former := make(map[int64]string), make(map[int64]string)
	for list.Next() {
		var id int64
		var hash, point, rule, cause, role string
		var adopted bool
		if err := list.Scan(&id, &hash, &point, &rule, &cause, &role, &adopted); err != nil {
			return errors.Join(err, list.Close())
		}
		if want := identity(t.origin, point, rule, cause, role); want != hash {
			wanted[id] = want
			if plain, ok := portless(role); ok && adopted {
				former[id] = identity(t.origin, point, rule, cause, plain)
			}
		}
	}
	if err := errors.Join(list.Err(), list.Close()); err != nil {
		return err
	}
	for id, hash := range wanted {
		if err := w.exec(`UPDATE issue SET hash = $1 WHERE id = $2`, hash, id); err != nil {
			return err
		}
		if old, ok := former[id]; ok {
			err := w.exec(`INSERT INTO former_issue (hash, issue) VALUES ($1, $2) ON CONFLICT DO NOTHING`, old, id)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) exec(text string, args ...any) error {
	_, err := w.tx.ExecContext(w.ctx, text, args...)
	return err
}

func (w *writer) pairs(text string, args ...any) (pairs [][2]int64, err error) {
	list, err := w.tx.QueryContext(w.ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	for list.Next() {
		var p [2]int64
		if err := list.Scan(&p[0], &p[1]); err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	return pairs, list.Err()
}
