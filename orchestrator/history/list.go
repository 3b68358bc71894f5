package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter chooses runs. Its zero value chooses all.
type Filter struct {
	Tests    []string // keys, names, or parts of them
	Testbed  string
	Verdict  *Verdict
	From, To *Night // nights, both included
	Limit    int    // 0: no limit
}

// RunRow is a run in a list.
type RunRow struct {
	ID         string    `json:"run_id"`
	Night      Night     `json:"night"`
	Started    time.Time `json:"started"`
	Test       string    `json:"test"`
	Point      string    `json:"point,omitempty"`
	Testbed    string    `json:"testbed"`
	Seed       uint64    `json:"seed"`
	Repetition int       `json:"repeat,omitempty"`
	Verdict    Verdict   `json:"verdict"`
	Tool       string    `json:"tool_version"`
	Reasons    []string  `json:"reasons,omitempty"`
}

// title is the name of a test for people: its id or its name, and the point.
func title(name, id, point string) string {
	if id != "" {
		name = id
	}
	if point != "" {
		name += " " + point
	}
	return name
}

// where adds conditions to a query.
type where struct {
	conditions []string
	args       []any
}

func (w *where) add(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(w.args)), 1)
	}
	w.conditions = append(w.conditions, condition)
}

func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// List returns runs, the latest first.
func (s *Store) List(ctx context.Context, f Filter) ([]RunRow, error) {
	var w where
	if len(f.Tests) > 0 {
		variants, err := s.variants(ctx, f.Tests)
		if err != nil {
			return nil, err
		}
		w.add("r.variant IN (" + numbers(variants) + ")")
	}
	if f.Testbed != "" {
		id, err := s.testbed(ctx, f.Testbed)
		if err != nil {
			return nil, err
		}
		w.add("r.testbed = ?", id)
	}
	if f.Verdict != nil {
		w.add("r.verdict = ?", int64(*f.Verdict))
	}
	if f.From != nil {
		w.add("r.night >= ?", int64(*f.From))
	}
	if f.To != nil {
		w.add("r.night <= ?", int64(*f.To))
	}
	// The runs are chosen before their names are joined, so that no engine starts from the names.
	const order = ` ORDER BY r.started DESC, r.run_id`
	chosen := `SELECT r.* FROM run r` + w.String() + order
	if f.Limit > 0 {
		chosen += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	text := `SELECT r.run_id, r.night, r.started, t.name, t.metadata_id, v.point, b.name, r.seed, r.repetition, r.verdict,
		r.tool, r.reasons FROM (` + chosen + `) r JOIN variant v ON v.id = r.variant JOIN test t ON t.id = v.test
		JOIN testbed b ON b.id = r.testbed` + order
	list := []RunRow{}
	err := s.query(ctx, func(row *sql.Rows) error {
		var r RunRow
		var name, id, reasons string
		var started, seed int64
		err := row.Scan(&r.ID, &r.Night, &started, &name, &id, &r.Point, &r.Testbed, &seed, &r.Repetition, &r.Verdict,
			&r.Tool, &reasons)
		r.Started, r.Seed, r.Reasons = time.UnixMicro(started).UTC(), uint64(seed), lines(reasons)
		r.Test = title(name, id, "")
		list = append(list, r)
		return err
	}, text, w.args...)
	return list, err
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// query calls scan for each row of an answer.
func (s *Store) query(ctx context.Context, scan func(*sql.Rows) error, text string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, text, args...)
	if err != nil {
		return s.explain("read", err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return s.explain("read", errors.Join(err, rows.Close()))
		}
	}
	return s.explain("read", errors.Join(rows.Err(), rows.Close()))
}

// numbers writes ids for IN (…), which has then no limit of parameters.
func numbers(ids []int64) string {
	if len(ids) == 0 {
		return "-1"
	}
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(id, 10))
	}
	return b.String()
}

// FoundRun is a run with everything that the store knows of it.
type FoundRun struct {
	RunRow
	Key         string              `json:"test_key"`
	Owner       string              `json:"owner,omitempty"`
	Finished    time.Time           `json:"finished"`
	Analysed    time.Time           `json:"analysed"`
	Environment map[string]string   `json:"environment"`
	Coverage    map[string]Coverage `json:"coverage,omitempty"`
	Findings    []FoundFinding      `json:"findings"`
	Metrics     []FoundMetric       `json:"metrics"`
	Artefacts   []Artefact          `json:"artefacts"`
	Analyses    []Analysis          `json:"analyses,omitempty"` // more than one
}

// FoundFinding is a finding of a run in the store.
type FoundFinding struct {
	ID         string `json:"finding"` // its identity
	Rule       string `json:"rule"`
	Cause      string `json:"cause"`
	Role       string `json:"role,omitempty"`
	Severity   string `json:"severity"`
	Expected   bool   `json:"expected,omitempty"`
	Waiver     string `json:"waiver,omitempty"`
	Connection int    `json:"connection"`
	PSN        int64  `json:"psn"`
	TimeNS     int64  `json:"t_ns"`
	Packets    string `json:"packets"`
	Headline   string `json:"headline"`
}

// FoundMetric is a metric of a run in the store.
type FoundMetric struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	N    int64   `json:"count"`
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Analysis is one of several analyses of a run.
type Analysis struct {
	Analysed time.Time `json:"analysed"`
	Verdict  Verdict   `json:"verdict"`
	Tool     string    `json:"tool_version"`
}

// Show returns a run by its id or the beginning of it.
func (s *Store) Show(ctx context.Context, id string) (*FoundRun, error) {
	key, err := s.findRun(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &FoundRun{Environment: map[string]string{}, Findings: []FoundFinding{}, Metrics: []FoundMetric{},
		Artefacts: []Artefact{}}
	var environment int64
	err = s.query(ctx, func(row *sql.Rows) error {
		var name, metadata, path, reasons string
		var coverage sql.NullString
		var started, finished, analysed, seed int64
		err := row.Scan(&r.ID, &r.Night, &started, &finished, &analysed, &name, &metadata, &path, &r.Owner, &r.Point,
			&r.Testbed, &seed, &r.Repetition, &r.Verdict, &r.Tool, &reasons, &environment, &coverage)
		if err != nil {
			return err
		}
		r.Started, r.Finished, r.Analysed = time.UnixMicro(started).UTC(), time.UnixMicro(finished).UTC(),
			time.UnixMicro(analysed).UTC()
		r.Seed, r.Reasons, r.Test = uint64(seed), lines(reasons), title(name, metadata, "")
		r.Key = (&Test{ID: metadata, Name: name, Path: path}).Key()
		if coverage.Valid {
			return json.Unmarshal([]byte(coverage.String), &r.Coverage)
		}
		return nil
	}, `SELECT r.run_id, r.night, r.started, r.finished, r.analysed, t.name, t.metadata_id, t.path, t.owner, v.point,
		b.name, r.seed, r.repetition, r.verdict, r.tool, r.reasons, r.environment, c.document
		FROM run r JOIN variant v ON v.id = r.variant JOIN test t ON t.id = v.test JOIN testbed b ON b.id = r.testbed
		LEFT JOIN coverage c ON c.id = r.coverage WHERE r.id = $1`, key)
	if err != nil {
		return nil, err
	}
	return r, errors.Join(s.showEnvironment(ctx, r, environment), s.showFindings(ctx, r, key), s.showRest(ctx, r, key))
}

func (s *Store) showEnvironment(ctx context.Context, r *FoundRun, environment int64) error {
	return s.query(ctx, func(row *sql.Rows) error {
		var name, value string
		err := row.Scan(&name, &value)
		r.Environment[name] = value
		return err
	}, `SELECT name, value FROM property WHERE environment = $1`, environment)
}

func (s *Store) showFindings(ctx context.Context, r *FoundRun, key int64) error {
	return s.query(ctx, func(row *sql.Rows) error {
		var f FoundFinding
		var severity, expected int
		var waiver sql.NullString
		err := row.Scan(&f.ID, &f.Rule, &f.Cause, &f.Role, &severity, &expected, &waiver, &f.Connection, &f.PSN, &f.TimeNS,
			&f.Packets, &f.Headline)
		f.Severity, f.Expected, f.Waiver = string(severityOf(severity)), expected != 0, waiver.String
		r.Findings = append(r.Findings, f)
		return err
	}, `SELECT i.hash, i.rule, i.cause, i.role, f.severity, f.expected, w.text, f.connection, f.psn, f.time_ns, f.packets,
		f.headline FROM finding f JOIN issue i ON i.id = f.issue LEFT JOIN waiver w ON w.id = f.waiver
		WHERE f.run = $1 ORDER BY f.number`, key)
}

func (s *Store) showRest(ctx context.Context, r *FoundRun, key int64) error {
	metrics := s.query(ctx, func(row *sql.Rows) error {
		var m FoundMetric
		err := row.Scan(&m.Name, &m.Unit, &m.N, &m.Min, &m.Mean, &m.P50, &m.P99, &m.P999, &m.Max)
		r.Metrics = append(r.Metrics, m)
		return err
	}, `SELECT s.name, s.unit, m.n, m.least, m.mean, m.p50, m.p99, m.p999, m.most FROM metric m
		JOIN series s ON s.id = m.series WHERE m.run = $1 ORDER BY s.name`, key)
	artefacts := s.query(ctx, func(row *sql.Rows) error {
		var a Artefact
		err := row.Scan(&a.Kind, &a.Location)
		r.Artefacts = append(r.Artefacts, a)
		return err
	}, `SELECT kind, location FROM artefact WHERE run = $1 ORDER BY kind, location`, key)
	analyses := s.query(ctx, func(row *sql.Rows) error {
		var a Analysis
		var at int64
		err := row.Scan(&at, &a.Verdict, &a.Tool)
		a.Analysed = time.UnixMicro(at).UTC()
		r.Analyses = append(r.Analyses, a)
		return err
	}, `SELECT analysed, verdict, tool FROM analysis WHERE run = $1 ORDER BY analysed, content`, key)
	return errors.Join(metrics, artefacts, analyses)
}

// findRun returns the row of a run by its id or a beginning that no other id has.
func (s *Store) findRun(ctx context.Context, id string) (int64, error) {
	if strings.Trim(id, "0123456789abcdef") != "" || id == "" {
		return 0, usagef("run %q: want the id of a run, or its beginning; candela history list shows them", id)
	}
	var found []int64
	err := s.query(ctx, func(row *sql.Rows) error {
		var key int64
		err := row.Scan(&key)
		found = append(found, key)
		return err
	}, `SELECT id FROM run WHERE run_id >= $1 AND run_id < $2 ORDER BY run_id LIMIT 2`, id, id+"g")
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0:
		return 0, usagef("run %s: the store %s has no run whose id begins so", id, s.place)
	case len(found) > 1:
		return 0, usagef("run %s: several runs have ids that begin so; give more of it", id)
	}
	return found[0], nil
}

// testbed returns the row of a testbed.
func (s *Store) testbed(ctx context.Context, name string) (id int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT id FROM testbed WHERE name = $1`, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		var names []string
		err = s.query(ctx, func(row *sql.Rows) error {
			var name string
			err := row.Scan(&name)
			names = append(names, name)
			return err
		}, `SELECT name FROM testbed ORDER BY name`)
		if err == nil {
			err = usagef("testbed %q: the store has runs of: %s", name, strings.Join(names, ", "))
		}
		return 0, err
	}
	return id, s.explain("read", err)
}

// variants returns the rows of the named tests, at all points. A name is a key, a former key, the name or the id of a
// test, with * for anything; NAME@POINT is one point.
func (s *Store) variants(ctx context.Context, names []string) (ids []int64, err error) {
	called := make(map[int64][]string) // names of tests
	err = s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var name string
		err := row.Scan(&id, &name)
		called[id] = append(called[id], name)
		return err
	}, `SELECT test, name FROM test_name UNION SELECT id, name FROM test`)
	if err != nil {
		return nil, err
	}
	found := make([]bool, len(names))
	err = s.query(ctx, func(row *sql.Rows) error {
		var id, test int64
		var point string
		if err := row.Scan(&id, &test, &point); err != nil {
			return err
		}
		for i, name := range names {
			is := func(name string) bool {
				return slices.ContainsFunc(called[test], func(key string) bool { return alike(name, key) })
			}
			bare, at, one := strings.Cut(name, "@")
			if is(name) || one && at == point && is(bare) {
				found[i], ids = true, append(ids, id)
			}
		}
		return nil
	}, `SELECT id, test, point FROM variant ORDER BY id`)
	if err != nil {
		return nil, err
	}
	if i := slices.Index(found, false); i >= 0 {
		return nil, usagef("test %q: the store %s has no such test; candela history list shows them", names[i], s.place)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// alike reports whether a name fits a pattern in which * is any text.
func alike(pattern, name string) bool {
	first, rest, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for i := 0; i <= len(name); i++ {
		if alike(rest, name[i:]) {
			return true
		}
	}
	return false
}
