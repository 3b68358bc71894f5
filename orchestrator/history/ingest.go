package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"candela.dev/candela/analyzers"
)

// Ingested says what became of the runs of a call.
type Ingested struct {
	New       int `json:"new"`
	Updated   int `json:"updated"`   // a later analysis of a run that was known
	Unchanged int `json:"unchanged"` // known already
}

// Add adds the counts of b.
func (a *Ingested) Add(b Ingested) {
	a.New, a.Updated, a.Unchanged = a.New+b.New, a.Updated+b.Updated, a.Unchanged+b.Unchanged
}

// batch is how many runs a transaction has: enough that its fixed cost does not count, few enough that another writer
// does not wait long.
const batch = 200

// Ingest writes runs. A run is written whole or not at all; of an error, the runs before the batch that failed are
// written, and the caller may call again with all of them.
func (s *Store) Ingest(ctx context.Context, runs ...*Run) (done Ingested, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for part := range slices.Chunk(runs, batch) {
		n, err := s.ingest(ctx, part)
		if err != nil {
			return done, s.explain("write", err)
		}
		done.Add(n)
	}
	return done, nil
}

// ingest writes a batch in one transaction, again if the server asks for that.
func (s *Store) ingest(ctx context.Context, runs []*Run) (done Ingested, err error) {
	for _, r := range runs {
		if err := r.check(); err != nil {
			return done, usageError{err}
		}
	}
	const attempts = 5
	for range attempts {
		if done, err = s.attempt(ctx, runs); err == nil {
			return done, nil
		}
		s.known = nil // what the transaction added is not there
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || !strings.HasPrefix(pg.Code, "40") {
			break
		}
	}
	return Ingested{}, err
}

// check refuses what the store cannot keep, and replaces characters that no text column takes.
func (r *Run) check() error {
	for _, text := range []*string{&r.ID, &r.Test.ID, &r.Test.Path, &r.Test.Name, &r.Test.Owner, &r.Test.Requirement,
		&r.Point, &r.Testbed, &r.Config, &r.Tool} {
		*text = plain(*text)
	}
	for _, list := range [][]string{r.Test.Was, r.Reasons} {
		for i, text := range list {
			list[i] = plain(text)
		}
	}
	for name, value := range r.Environment {
		if p := plain(name); p != name || plain(value) != value {
			delete(r.Environment, name)
			r.Environment[p] = plain(value)
		}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Rule, f.Cause, f.Role, f.Waiver, f.Headline = plain(f.Rule), plain(f.Cause), plain(f.Role), plain(f.Waiver),
			plain(f.Headline)
	}
	names := make(map[string]bool)
	for i := range r.Metrics {
		m := &r.Metrics[i]
		m.Name, m.Unit = plain(m.Name), plain(m.Unit)
		if names[m.Name] {
			return fmt.Errorf("run %s: metric %s: it is there twice", r.ID, m.Name)
		}
		names[m.Name] = true
		for _, v := range []float64{m.Least, m.Mean, m.P50, m.P99, m.P999, m.Most} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("run %s: metric %s: %v is not a finite number", r.ID, m.Name, v)
			}
		}
	}
	switch {
	case r.ID == "":
		return fmt.Errorf("run of test %q: it has no id", r.Test.Name)
	case r.Test.Key() == "":
		return fmt.Errorf("run %s: its test has neither id nor name", r.ID)
	}
	return nil
}

// plain returns text without what PostgreSQL refuses: invalid UTF-8 and NUL.
func plain(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// writersLock is the advisory lock of whoever writes to a PostgreSQL store.
const writersLock = 0x63616e64656c61 // "candela"

func (s *Store) attempt(ctx context.Context, runs []*Run) (done Ingested, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return done, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the error says what happened
		}
	}()
	if s.engine.dialect == goose.DialectPostgres {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(writersLock)); err != nil {
			return done, err
		}
	}
	w := &writer{ctx: ctx, tx: tx, embedded: s.engine.dialect == goose.DialectSQLite3, touched: make(map[seriesNight]bool),
		tally: make(map[tallyKey]int64)}
	if w.known, err = s.current(ctx, tx); err != nil {
		return done, err
	}
	s.known = w.known
	if err := w.lookUp(runs); err != nil {
		return done, err
	}
	for _, r := range runs {
		if err := w.run(r, &done); err != nil {
			return done, fmt.Errorf("run %s: %w", r.ID, err)
		}
	}
	if err := w.flush(); err != nil {
		return done, err
	}
	if err := cmp.Or(w.nightly(), w.pack(), w.count()); err != nil {
		return done, err
	}
	return done, tx.Commit()
}

// known holds the ids of rows, by what they are recognised by.
type known struct {
	generation int64
	next       map[string]int64 // next id, by table
	tests      map[string]testRow
	variants   map[variantKey]int64
	testbeds   map[string]int64
	hashes     map[string]int64 // environments and coverage, by table and hash
	series     map[seriesKey]int64
	issues     map[string]int64
	waivers    map[string]int64
}

type testRow struct {
	id     int64
	origin string
	latest int64
}

type variantKey struct {
	test  int64
	point string
}

type seriesKey struct {
	variant, testbed int64
	name             string
}

// maxKnown bounds what a writer keeps of a store with ever new tests.
const maxKnown = 200_000

// current returns the ids that the last transaction knew, unless another writer has changed some.
func (s *Store) current(ctx context.Context, tx *sql.Tx) (*known, error) {
	var generation int64
	if err := tx.QueryRowContext(ctx, `SELECT number FROM generation WHERE one = 1`).Scan(&generation); err != nil {
		return nil, err
	}
	k := s.known
	if k == nil || k.generation != generation || len(k.series)+len(k.issues) > maxKnown {
		k = &known{generation: generation, tests: map[string]testRow{}, variants: map[variantKey]int64{},
			testbeds: map[string]int64{}, hashes: map[string]int64{}, series: map[seriesKey]int64{},
			issues: map[string]int64{}, waivers: map[string]int64{}}
	}
	k.next = map[string]int64{} // another writer may have added rows
	return k, nil
}

// A writer is a transaction in progress. Rows of large tables are collected and written together.
type writer struct {
	ctx   context.Context
	tx    *sql.Tx
	known *known
	have  map[string]runRow // runs of the batch that are there already, by run_id
	// embedded: the database is in this process.
	embedded bool

	runs, findings, metrics, artefacts rows

	touched map[seriesNight]bool // whose runs have changed
	tally   map[tallyKey]int64   // how many runs more there are
}

type seriesNight struct {
	series int64
	night  Night
}

type runRow struct {
	id, analysed int64
	content      string
	verdict      Verdict
	tool         string
}

// rows collects the values of an INSERT.
type rows struct {
	values []any
	count  int
}

func (r *rows) add(values ...any) { r.values, r.count = append(r.values, values...), r.count+1 }

// maxParameters is less than what PostgreSQL takes in a statement.
const maxParameters = 8000

// insert writes rows. A round trip to PostgreSQL has many; SQLite's driver looks for each parameter among all of a
// statement, so there each row is a statement.
func (w *writer) insert(into string, r *rows, ending string) error {
	if r.count == 0 {
		return nil
	}
	columns := len(r.values) / r.count
	if w.embedded {
		return w.insertEach(into, r, ending, columns)
	}
	most := maxParameters / columns
	var text strings.Builder
	for from := 0; from < r.count; from += most {
		n := min(most, r.count-from)
		text.Reset()
		text.WriteString("INSERT INTO " + into + " VALUES ")
		for i := range n {
			if i > 0 {
				text.WriteByte(',')
			}
			for j := range columns {
				text.WriteByte("(,"[min(j, 1)])
				fmt.Fprintf(&text, "$%d", i*columns+j+1)
			}
			text.WriteByte(')')
		}
		text.WriteString(ending)
		if _, err := w.tx.ExecContext(w.ctx, text.String(), r.values[from*columns:(from+n)*columns]...); err != nil {
			return err
		}
	}
	r.values, r.count = r.values[:0], 0
	return nil
}

func (w *writer) insertEach(into string, r *rows, ending string, columns int) error {
	marks := strings.TrimSuffix(strings.Repeat("?,", columns), ",")
	statement, err := w.tx.PrepareContext(w.ctx, "INSERT INTO "+into+" VALUES ("+marks+")"+ending)
	if err != nil {
		return err
	}
	for row := range slices.Chunk(r.values, columns) {
		if _, err := statement.ExecContext(w.ctx, row...); err != nil {
			return errors.Join(err, statement.Close())
		}
	}
	r.values, r.count = r.values[:0], 0
	return statement.Close()
}

func (w *writer) flush() error {
	for _, t := range []struct {
		into   string
		rows   *rows
		ending string
	}{
		{"run (id, run_id, variant, testbed, environment, coverage, night, verdict, started, finished, analysed, seed, " +
			"repetition, config, tool, reasons, content)", &w.runs, ""},
		{"finding (run, number, issue, severity, expected, waiver, connection, psn, time_ns, packets, headline)",
			&w.findings, ""},
		{"metric (run, series, night, n, least, mean, p50, p99, p999, most, histogram)", &w.metrics, ""},
		{"artefact (run, kind, location)", &w.artefacts, " ON CONFLICT DO NOTHING"},
	} {
		if err := w.insert(t.into, t.rows, t.ending); err != nil {
			return err
		}
	}
	return nil
}

// nextID returns a new id of a table.
func (w *writer) nextID(table string) (int64, error) {
	next, ok := w.known.next[table]
	if !ok {
		if err := w.tx.QueryRowContext(w.ctx, "SELECT coalesce(max(id), 0) + 1 FROM "+table).Scan(&next); err != nil {
			return 0, err
		}
	}
	w.known.next[table] = next + 1
	return next, nil
}

// lookUp finds the runs of the batch that are there already.
func (w *writer) lookUp(runs []*Run) error {
	w.have = make(map[string]runRow)
	marks, ids := make([]string, len(runs)), make([]any, len(runs))
	for i, r := range runs {
		marks[i], ids[i] = fmt.Sprintf("$%d", i+1), r.ID
	}
	list, err := w.tx.QueryContext(w.ctx, "SELECT run_id, id, analysed, content, verdict, tool FROM run WHERE run_id IN ("+
		strings.Join(marks, ",")+")", ids...)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		var id string
		var row runRow
		var content []byte
		if err := list.Scan(&id, &row.id, &row.analysed, &content, &row.verdict, &row.tool); err != nil {
			return err
		}
		row.content = string(content)
		w.have[id] = row
	}
	return list.Err()
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// content is the hash of what an analysis came to: importing it again changes nothing.
func (r *Run) content() string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	// Encoding these types into a hash cannot fail.
	_ = enc.Encode([]any{r.Verdict, r.Reasons, r.Tool, r.Findings, r.Metrics, r.Coverage})
	return string(h.Sum(nil)[:16])
}

// run writes a run or its later analysis.
func (w *writer) run(r *Run, done *Ingested) error {
	content, analysed := r.content(), micros(r.Analysed)
	row, have := w.have[r.ID]
	if have {
		for _, a := range r.Artefacts {
			w.artefacts.add(row.id, a.Kind, a.Location)
		}
		if row.content == content {
			done.Unchanged++
			return nil
		}
		return w.again(r, row, content, done)
	}
	p, err := w.place(r)
	if err != nil {
		return err
	}
	id, err := w.nextID("run")
	if err != nil {
		return err
	}
	configuration, err := hex.DecodeString(r.Config)
	if err != nil {
		configuration = []byte(r.Config)
	}
	w.runs.add(id, r.ID, p.variant, p.testbed, p.environment, p.coverage, int64(r.Night), int64(r.Verdict),
		micros(r.Started), micros(r.Finished), analysed, int64(r.Seed), r.Repetition, configuration, r.Tool,
		strings.Join(r.Reasons, "\n"), []byte(content))
	w.have[r.ID] = runRow{id, analysed, content, r.Verdict, r.Tool}
	for _, a := range r.Artefacts {
		w.artefacts.add(id, a.Kind, a.Location)
	}
	w.tally[tallyKey{r.Night, p.variant, p.testbed, p.environment, r.Verdict}]++
	done.New++
	return w.results(r, id, p)
}

// again records another analysis of a run that is there. The latest counts.
func (w *writer) again(r *Run, row runRow, content string, done *Ingested) error {
	if err := w.flush(); err != nil { // the run may be one of this batch
		return err
	}
	analysed := micros(r.Analysed)
	var list rows
	list.add(row.id, row.analysed, []byte(row.content), int64(row.verdict), row.tool)
	list.add(row.id, analysed, []byte(content), int64(r.Verdict), r.Tool)
	var before, after int64
	count := `SELECT count(*) FROM analysis WHERE run = $1`
	if err := w.tx.QueryRowContext(w.ctx, count, row.id).Scan(&before); err != nil {
		return err
	}
	err := w.insert("analysis (run, analysed, content, verdict, tool)", &list, " ON CONFLICT DO NOTHING")
	if err == nil {
		err = w.tx.QueryRowContext(w.ctx, count, row.id).Scan(&after)
	}
	switch {
	case err != nil:
		return err
	case after == before || analysed < row.analysed || analysed == row.analysed && content < row.content:
		done.Unchanged++ // known, or older than what counts
		return nil
	}
	done.Updated++
	p, err := w.place(r)
	if err != nil {
		return err
	}
	if err := w.touch(`SELECT series, night FROM metric WHERE run = $1`, row.id); err != nil {
		return err
	}
	for _, text := range []string{`DELETE FROM finding WHERE run = $1`, `DELETE FROM metric WHERE run = $1`} {
		if _, err := w.tx.ExecContext(w.ctx, text, row.id); err != nil {
			return err
		}
	}
	_, err = w.tx.ExecContext(w.ctx, `UPDATE run SET verdict = $1, reasons = $2, analysed = $3, tool = $4, content = $5,
		coverage = $6 WHERE id = $7`, int64(r.Verdict), strings.Join(r.Reasons, "\n"), analysed, r.Tool, []byte(content),
		p.coverage, row.id)
	if err != nil {
		return err
	}
	if err := w.recount(row, r.Verdict); err != nil {
		return err
	}
	w.have[r.ID] = runRow{row.id, analysed, content, r.Verdict, r.Tool}
	return w.results(r, row.id, p)
}

// placed are the rows that a run refers to.
type placed struct {
	test                          testRow
	variant, testbed, environment int64
	coverage                      any // nil: nothing was analysed
}

func (w *writer) place(r *Run) (p placed, err error) {
	if p.test, err = w.test(r); err != nil {
		return p, err
	}
	if p.variant, err = w.variant(p.test.id, r.Point); err != nil {
		return p, err
	}
	if p.testbed, err = w.dimension(w.known.testbeds, "testbed", "name", r.Testbed); err != nil {
		return p, err
	}
	if p.environment, err = w.environment(r.Environment); err != nil {
		return p, err
	}
	if len(r.Coverage) > 0 {
		p.coverage, err = w.coverage(r.Coverage)
	}
	return p, err
}

func (w *writer) results(r *Run, id int64, p placed) error {
	findings := r.complaints()
	for i := range findings {
		f := &findings[i]
		issue, err := w.issue(p, r.Point, f)
		if err != nil {
			return err
		}
		var waiver any
		if f.Waiver != "" {
			if waiver, err = w.dimension(w.known.waivers, "waiver", "text", f.Waiver); err != nil {
				return err
			}
		}
		w.findings.add(id, i+1, issue, severityNumber(f.Severity), flag(f.Expected), waiver, f.Connection, f.PSN, f.TimeNS,
			packetText(f.Packets), f.Headline)
	}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		series, err := w.series(p, m)
		if err != nil {
			return err
		}
		if r.Verdict.Judged() {
			w.touched[seriesNight{series, r.Night}] = true
		}
		w.metrics.add(id, series, int64(r.Night), m.N, m.Least, m.Mean, m.P50, m.P99, m.P999, m.Most, m.Histogram)
	}
	return nil
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// severities in the order of their numbers, from 1.
var severities = []analyzers.Severity{analyzers.Violation, analyzers.Warning, analyzers.Note}

func severityNumber(s analyzers.Severity) int { return slices.Index(severities, s) + 1 }

func severityOf(n int) analyzers.Severity {
	if n < 1 || n > len(severities) {
		return analyzers.Violation
	}
	return severities[n-1]
}

// maxPackets is how many packets of a finding the store keeps; the run directory has all.
const maxPackets = 16

func packetText(ids []uint64) string {
	words := make([]string, 0, maxPackets)
	for _, id := range ids[:min(len(ids), maxPackets)] {
		words = append(words, fmt.Sprint(id))
	}
	return strings.Join(words, " ")
}

// dimension returns the id of the row whose column has a value, and adds it if there is none.
func (w *writer) dimension(ids map[string]int64, table, column, value string) (int64, error) {
	if id, ok := ids[value]; ok {
		return id, nil
	}
	var id int64
	err := w.tx.QueryRowContext(w.ctx, fmt.Sprintf("SELECT id FROM %s WHERE %s = $1", table, column), value).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		if id, err = w.nextID(table); err == nil {
			_, err = w.tx.ExecContext(w.ctx, fmt.Sprintf("INSERT INTO %s (id, %s) VALUES ($1, $2)", table, column), id, value)
		}
	}
	if err == nil {
		ids[value] = id
	}
	return id, err
}

func (w *writer) environment(properties map[string]string) (int64, error) {
	names := sortedKeys(properties)
	parts := make([]string, 0, 2*len(names))
	for _, name := range names {
		parts = append(parts, name, properties[name])
	}
	hash := digest(parts...)
	id, fresh, err := w.hashed("environment", hash, "")
	if err != nil || !fresh {
		return id, err
	}
	var list rows
	for _, name := range names {
		list.add(id, name, properties[name])
	}
	return id, w.insert("property (environment, name, value)", &list, "")
}

func (w *writer) coverage(c map[string]Coverage) (int64, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	id, _, err := w.hashed("coverage", digest(string(text)), string(text))
	return id, err
}

// hashed returns the id of the row with a hash; fresh: it was added.
func (w *writer) hashed(table, hash, document string) (id int64, fresh bool, err error) {
	key := table + " " + hash
	if id, ok := w.known.hashes[key]; ok {
		return id, false, nil
	}
	err = w.tx.QueryRowContext(w.ctx, "SELECT id FROM "+table+" WHERE hash = $1", hash).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		if id, err = w.nextID(table); err != nil {
			return 0, false, err
		}
		fresh = true
		if document == "" {
			_, err = w.tx.ExecContext(w.ctx, "INSERT INTO "+table+" (id, hash) VALUES ($1, $2)", id, hash)
		} else {
			_, err = w.tx.ExecContext(w.ctx, "INSERT INTO "+table+" (id, hash, document) VALUES ($1, $2, $3)", id, hash,
				document)
		}
	}
	if err == nil {
		w.known.hashes[key] = id
	}
	return id, fresh, err
}

func (w *writer) variant(test int64, point string) (int64, error) {
	key := variantKey{test, point}
	if id, ok := w.known.variants[key]; ok {
		return id, nil
	}
	var id int64
	err := w.tx.QueryRowContext(w.ctx, `SELECT id FROM variant WHERE test = $1 AND point = $2`, test, point).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		if id, err = w.nextID("variant"); err == nil {
			_, err = w.tx.ExecContext(w.ctx, `INSERT INTO variant (id, test, point) VALUES ($1, $2, $3)`, id, test, point)
		}
	}
	if err == nil {
		w.known.variants[key] = id
	}
	return id, err
}

func (w *writer) series(p placed, m *Metric) (int64, error) {
	key := seriesKey{p.variant, p.testbed, m.Name}
	if id, ok := w.known.series[key]; ok {
		return id, nil
	}
	var id int64
	err := w.tx.QueryRowContext(w.ctx, `SELECT id FROM series WHERE variant = $1 AND testbed = $2 AND name = $3`,
		p.variant, p.testbed, m.Name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		if id, err = w.nextID("series"); err == nil {
			_, err = w.tx.ExecContext(w.ctx, `INSERT INTO series (id, variant, testbed, name, unit) VALUES ($1, $2, $3, $4, $5)`,
				id, p.variant, p.testbed, m.Name, m.Unit)
		}
	}
	if err == nil {
		w.known.series[key] = id
	}
	return id, err
}

func (w *writer) issue(p placed, point string, f *Finding) (int64, error) {
	hash := identity(p.test.origin, point, f.Rule, f.Cause, f.Role)
	if id, ok := w.known.issues[hash]; ok {
		return id, nil
	}
	var id int64
	err := w.tx.QueryRowContext(w.ctx, `SELECT id FROM issue WHERE hash = $1
		UNION ALL SELECT issue FROM former_issue WHERE hash = $1`, hash).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		id, err = w.adopt(p.test.origin, point, f, hash)
	}
	if errors.Is(err, sql.ErrNoRows) {
		if id, err = w.nextID("issue"); err == nil {
			_, err = w.tx.ExecContext(w.ctx, `INSERT INTO issue (id, hash, variant, rule, cause, role)
				VALUES ($1, $2, $3, $4, $5, $6)`, id, hash, p.variant, f.Rule, f.Cause, f.Role)
		}
	}
	if err == nil {
		w.known.issues[hash] = id
	}
	return id, err
}

// adopt has a finding about a port continue the one that a former version wrote without the port's role. Its error is
// sql.ErrNoRows if there is none.
func (w *writer) adopt(origin, point string, f *Finding, hash string) (id int64, err error) {
	plain, ok := portless(f.Role)
	if !ok {
		return 0, sql.ErrNoRows
	}
	former := identity(origin, point, f.Rule, f.Cause, plain)
	if err := w.tx.QueryRowContext(w.ctx, `SELECT id FROM issue WHERE hash = $1`, former).Scan(&id); err != nil {
		return 0, err
	}
	return id, cmp.Or(w.exec(`UPDATE issue SET hash = $1, role = $2 WHERE id = $3`, hash, f.Role, id),
		w.exec(`INSERT INTO former_issue (hash, issue) VALUES ($1, $2)`, former, id))
}
