package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
)

// A Subject is what is compared: a test at a point, on a testbed.
type Subject struct {
	Key     string `json:"test_key"` // first key of the test
	Test    string `json:"test"`
	Point   string `json:"point,omitempty"`
	Testbed string `json:"testbed"`
	Owner   string `json:"owner,omitempty"`
}

func (s *Subject) title() string { return title(s.Test, "", s.Point) }

// key identifies a subject.
func (s *Subject) key() [3]string { return [3]string{s.Key, s.Point, s.Testbed} }

// outcomes are the runs of a subject on one side.
type outcomes struct {
	subject                         Subject
	night                           Night
	passed, failed, invalid, broken int
	issues                          map[string]*occurrence // by identity
	samples                         map[string]*sample     // by name of metric
	environments                    []string               // hashes, sorted
	reason                          string                 // of a run that was not judged

	variant, testbed int64 // rows; 0: not from the store
}

func (o *outcomes) judged() int { return o.passed + o.failed }

// occurrence counts the judged runs with a finding.
type occurrence struct {
	row                  int64
	rule, cause, role    string
	counting, waived     int
	waiver, headline, in string
}

type sample struct {
	row                    int64
	unit                   string
	n                      int
	median, center, spread float64
	positive               bool
	values                 []float64
}

// A side is one of two sets of runs that are compared.
type side struct {
	label        string
	subjects     map[[3]string]*outcomes
	properties   map[string]map[string]string // of environments, by hash
	night        Night                        // 0: not from the store
	lastGreen    bool                         // resolved against the other side
	environments []int64                      // only these; nil: all
	runs         int
}

// refProperties are properties of environments by the word of a reference: fw:28.39.1002.
var refProperties = map[string][]string{
	"fw": {"firmware", "fw"}, "firmware": {"firmware", "fw"}, "driver": {"driver"}, "kernel": {"kernel"},
	"os": {"os", "os-version", "switch-os", "build-version"}, "tool": {"tool"},
}

const refWords = "a directory, last-night, last-green, night-2026-11-20, run:ID, or fw:, driver:, kernel:, os: or " +
	"tool: with a version"

// resolve returns what a reference names, not yet loaded. s may be nil: then only directories can be named.
func (s *Store) resolve(ctx context.Context, ref string) (*side, error) {
	b := &side{label: ref, subjects: map[[3]string]*outcomes{}, properties: map[string]map[string]string{}}
	if info, err := os.Stat(ref); err == nil && info.IsDir() {
		return b, s.readDirs(ctx, b, ref)
	}
	if s == nil {
		return nil, usagef("%q: there is no such directory, and a reference to the results store needs one: give --history "+
			"or set CANDELA_HISTORY", ref)
	}
	word, value, _ := strings.Cut(ref, ":")
	night, isNight := strings.CutPrefix(ref, "night-")
	var err error
	switch {
	case ref == "last-green":
		b.lastGreen = true
	case ref == "last-night":
		b.night, err = s.latestNight(ctx)
	case isNight:
		if b.night, err = ParseNight(night); err == nil {
			err = s.checkNight(ctx, b.night)
		} else {
			err = usageError{err}
		}
	case word == "run" && value != "":
		return b, s.readRun(ctx, b, value)
	case refProperties[word] != nil && value != "":
		err = s.withProperty(ctx, b, refProperties[word], value)
	default:
		err = usagef("%q: want %s", ref, refWords)
	}
	return b, err
}

func (s *Store) latestNight(ctx context.Context) (Night, error) {
	var night sql.NullInt64
	if err := s.db.QueryRowContext(ctx, `SELECT max(night) FROM run`).Scan(&night); err != nil {
		return 0, s.explain("read", err)
	}
	if !night.Valid {
		return 0, usagef("the results store %s has no run yet", s.place)
	}
	return Night(night.Int64), nil
}

// checkNight refuses a night without runs and names the nearest that have some.
func (s *Store) checkNight(ctx context.Context, n Night) error {
	var before, exact, after sql.NullInt64
	for _, q := range []struct {
		text string
		to   *sql.NullInt64
	}{
		{`SELECT max(night) FROM run WHERE night < $1`, &before}, {`SELECT max(night) FROM run WHERE night = $1`, &exact},
		{`SELECT min(night) FROM run WHERE night > $1`, &after},
	} {
		if err := s.db.QueryRowContext(ctx, q.text, int64(n)).Scan(q.to); err != nil {
			return s.explain("read", err)
		}
	}
	if exact.Valid {
		return nil
	}
	var near []string
	for _, v := range []sql.NullInt64{before, after} {
		if v.Valid {
			near = append(near, Night(v.Int64).String())
		}
	}
	return usagef("night %v: the results store has no run of it; the nearest nights are: %s", n,
		cmp.Or(strings.Join(near, ", "), "none"))
}

// withProperty chooses the latest night with runs whose environment has a value.
func (s *Store) withProperty(ctx context.Context, b *side, names []string, value string) error {
	known := make(map[string]bool)
	err := s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var name string
		if err := row.Scan(&id, &name); err != nil {
			return err
		}
		if isProperty(name, names) {
			b.environments = append(b.environments, id)
		}
		return nil
	}, `SELECT environment, name FROM property WHERE value = $1 ORDER BY environment`, value)
	if err != nil {
		return err
	}
	b.environments = slices.Compact(b.environments)
	if len(b.environments) == 0 {
		err := s.query(ctx, func(row *sql.Rows) error {
			var name, value string
			err := row.Scan(&name, &value)
			if isProperty(name, names) {
				known[value] = true
			}
			return err
		}, `SELECT DISTINCT name, value FROM property ORDER BY value, name`)
		return cmp.Or(err, usagef("%s: no run of the results store has it; it has: %s", b.label,
			cmp.Or(strings.Join(sortedKeys(known), ", "), "none")))
	}
	var night sql.NullInt64
	err = s.db.QueryRowContext(ctx, `SELECT max((SELECT max(t.night) FROM tally t WHERE t.environment = e.id AND
		t.runs > 0)) FROM environment e WHERE e.id IN (`+numbers(b.environments)+`)`).Scan(&night)
	b.night = Night(night.Int64)
	b.label += " (night " + b.night.String() + ")"
	return s.explain("read", err)
}

// isProperty reports whether a property, COMPONENT.NAME or COMPONENT.INTERFACE/NAME, has one of the names, also as the
// ending of a longer one: rdma-firmware.
func isProperty(full string, names []string) bool {
	name := full[strings.LastIndexAny(full, "./")+1:]
	return slices.ContainsFunc(names, func(n string) bool { return name == n || strings.HasSuffix(name, "-"+n) })
}

// load reads the runs of a side from the store.
func (s *Store) load(ctx context.Context, b *side) error {
	var w where
	w.add("r.night = ?", int64(b.night))
	if b.environments != nil {
		w.add("r.environment IN (" + numbers(b.environments) + ")")
	}
	return cmp.Or(s.loadRuns(ctx, b, countedRuns, w), s.loadFindings(ctx, b, w), s.loadMetrics(ctx, b))
}

// loadGreen reads, for each subject of the other side, the latest night before it on which all its judged runs passed.
func (s *Store) loadGreen(ctx context.Context, b, other *side) error {
	end := other.night
	if end == 0 {
		latest, err := s.latestNight(ctx)
		if err != nil {
			return err
		}
		end = latest + 1
	}
	wanted := make(map[[2]int64]bool)
	for _, o := range other.subjects {
		wanted[[2]int64{o.variant, o.testbed}] = true
	}
	green := make(map[Night][][2]int64)
	// Most tests were green last night; a few have to be looked for far back.
	for _, step := range []Night{3, 30, 400} {
		if len(wanted) == 0 {
			break
		}
		if err := s.greenNights(ctx, end-step, end, wanted, green); err != nil {
			return err
		}
	}
	for night, pairs := range green {
		part := &side{subjects: map[[3]string]*outcomes{}, properties: b.properties, night: night}
		var w where
		w.add("r.night = ?", int64(night))
		variants := make([]int64, 0, len(pairs))
		for _, p := range pairs {
			variants = append(variants, p[0])
		}
		slices.Sort(variants)
		w.add("r.variant IN (" + numbers(slices.Compact(variants)) + ")")
		err := cmp.Or(s.loadRuns(ctx, part, countedRuns, w), s.loadFindings(ctx, part, w), s.loadMetrics(ctx, part))
		if err != nil {
			return err
		}
		for key, o := range part.subjects {
			if slices.Contains(pairs, [2]int64{o.variant, o.testbed}) {
				b.subjects[key], b.runs = o, b.runs+o.judged()+o.invalid+o.broken
			}
		}
	}
	return nil
}

func (s *Store) greenNights(ctx context.Context, from, to Night, wanted map[[2]int64]bool,
	green map[Night][][2]int64) error {
	latest := make(map[[2]int64]Night)
	err := s.query(ctx, func(row *sql.Rows) error {
		var k [2]int64
		var night Night
		var passed, failed int
		if err := row.Scan(&night, &k[0], &k[1], &passed, &failed); err != nil {
			return err
		}
		if wanted[k] && passed > 0 && failed == 0 {
			latest[k] = max(latest[k], night)
		}
		return nil
	}, `SELECT night, variant, testbed, sum(CASE WHEN verdict = 0 THEN runs ELSE 0 END),
		sum(CASE WHEN verdict = 1 THEN runs ELSE 0 END) FROM tally WHERE night >= $1 AND night < $2
		GROUP BY night, variant, testbed`, int64(from), int64(to))
	for k, night := range latest {
		green[night] = append(green[night], k)
		delete(wanted, k)
	}
	return err
}

// countedRuns is what loadRuns reads of nights, oneRun what it reads of one run.
const (
	countedRuns = `tally r`
	oneRun      = `(SELECT run.*, 1 AS runs FROM run) r`
)

// loadRuns reads how many runs there are of each outcome, from one of the tables above.
func (s *Store) loadRuns(ctx context.Context, b *side, from string, w where) error {
	type group struct{ variant, testbed int64 }
	groups := make(map[group]*outcomes)
	environments := make(map[int64]bool)
	environmentsOf := make(map[group]map[int64]bool)
	err := s.query(ctx, func(row *sql.Rows) error {
		var g group
		var verdict Verdict
		var environment int64
		var n int
		if err := row.Scan(&g.variant, &g.testbed, &verdict, &environment, &n); err != nil || n == 0 {
			return err
		}
		o := groups[g]
		if o == nil {
			o = &outcomes{night: b.night, issues: map[string]*occurrence{}, samples: map[string]*sample{},
				variant: g.variant, testbed: g.testbed}
			groups[g], environmentsOf[g] = o, make(map[int64]bool)
		}
		switch verdict {
		case Pass:
			o.passed += n
		case Fail:
			o.failed += n
		case Invalid:
			o.invalid += n
		default:
			o.broken += n
		}
		if verdict.Judged() || environment != 0 {
			environments[environment], environmentsOf[g][environment] = true, true
		}
		b.runs += n
		return nil
	}, `SELECT r.variant, r.testbed, r.verdict, r.environment, r.runs FROM `+from+w.String()+
		` ORDER BY r.variant, r.testbed`, w.args...)
	if err != nil {
		return err
	}
	hashes := make(map[int64]string)
	if err := s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var hash string
		err := row.Scan(&id, &hash)
		hashes[id] = hash
		return err
	}, `SELECT id, hash FROM environment WHERE id IN (`+numbers(idsOf(environments))+`)`); err != nil {
		return err
	}
	variants := make(map[int64]bool)
	for g := range groups {
		variants[g.variant] = true
	}
	subjects, err := s.subjects(ctx, idsOf(variants))
	if err != nil {
		return err
	}
	beds, err := s.testbeds(ctx)
	if err != nil {
		return err
	}
	for g, o := range groups {
		o.subject = subjects[g.variant]
		o.subject.Testbed = beds[g.testbed]
		for id := range environmentsOf[g] {
			o.environments = append(o.environments, hashes[id])
		}
		slices.Sort(o.environments)
		b.subjects[o.subject.key()] = o
	}
	return s.loadReasons(ctx, b, w)
}

func idsOf(set map[int64]bool) []int64 {
	ids := make([]int64, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// subjects returns the tests of variants, without testbed.
func (s *Store) subjects(ctx context.Context, variants []int64) (map[int64]Subject, error) {
	all := make(map[int64]Subject, len(variants))
	err := s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var u Subject
		var name, metadata string
		err := row.Scan(&id, &u.Key, &name, &metadata, &u.Point, &u.Owner)
		u.Test = title(name, metadata, "")
		all[id] = u
		return err
	}, `SELECT v.id, t.origin, t.name, t.metadata_id, v.point, t.owner FROM variant v JOIN test t ON t.id = v.test
		WHERE v.id IN (`+numbers(variants)+`)`)
	return all, err
}

func (s *Store) testbeds(ctx context.Context) (map[int64]string, error) {
	beds := make(map[int64]string)
	return beds, s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var name string
		err := row.Scan(&id, &name)
		beds[id] = name
		return err
	}, `SELECT id, name FROM testbed`)
}

// loadReasons finds why runs were not judged.
func (s *Store) loadReasons(ctx context.Context, b *side, w where) error {
	w.conditions = append(slices.Clone(w.conditions), "r.verdict NOT IN (0, 1)")
	byRow := make(map[[2]int64]*outcomes, len(b.subjects))
	for _, o := range b.subjects {
		byRow[[2]int64{o.variant, o.testbed}] = o
	}
	return s.query(ctx, func(row *sql.Rows) error {
		var k [2]int64
		var reasons string
		err := row.Scan(&k[0], &k[1], &reasons)
		if o := byRow[k]; o != nil && o.reason == "" {
			o.reason, _, _ = strings.Cut(reasons, "\n")
		}
		return err
	}, `SELECT r.variant, r.testbed, r.reasons FROM run r`+w.String()+` ORDER BY r.started, r.run_id`, w.args...)
}

func (s *Store) loadFindings(ctx context.Context, b *side, w where) error {
	byRow := make(map[[2]int64]*outcomes, len(b.subjects))
	for _, o := range b.subjects {
		byRow[[2]int64{o.variant, o.testbed}] = o
	}
	// CROSS JOIN: SQLite keeps the order of tables, of which the first has the few runs. The violations of a run that
	// passed are expected or waived; each half has an index.
	w.conditions = append(slices.Clone(w.conditions), "f.run = r.id", "i.id = f.issue", "f.severity = 1", "f.expected = 0")
	half := func(condition string) string {
		part := w
		part.conditions = append(slices.Clone(w.conditions), condition)
		return `SELECT r.id, r.run_id, r.variant, r.testbed, i.id, i.hash, i.rule, i.cause, i.role, w.text, f.headline,
			r.started, f.number FROM run r CROSS JOIN finding f CROSS JOIN issue i LEFT JOIN waiver w ON w.id = f.waiver` +
			part.String()
	}
	type seen struct {
		run   int64
		issue string
	}
	counted := make(map[seen]bool)
	return s.query(ctx, func(row *sql.Rows) error {
		var run, issue int64
		var k [2]int64
		var hash string
		var x occurrence
		var waiver sql.NullString
		var started, number int64
		err := row.Scan(&run, &x.in, &k[0], &k[1], &issue, &hash, &x.rule, &x.cause, &x.role, &waiver, &x.headline,
			&started, &number)
		o := byRow[k]
		if err != nil || o == nil {
			return err
		}
		at := o.issues[hash]
		if at == nil {
			x.row, x.waiver = issue, waiver.String
			at = &x
			o.issues[hash] = at
		}
		// A run counts once, and as waived only if each of its findings is.
		switch {
		case !waiver.Valid && !counted[seen{run, hash}]:
			counted[seen{run, hash}] = true
			at.counting++
		case waiver.Valid && !counted[seen{-run, hash}]:
			counted[seen{-run, hash}] = true
			at.waived++
		}
		return nil
	}, half("r.verdict = 1")+` UNION ALL `+half("r.verdict = 0 AND f.waiver IS NOT NULL")+` ORDER BY 12, 2, 13`, w.args...)
}

func (s *Store) loadMetrics(ctx context.Context, b *side) error {
	byRow := make(map[[2]int64]*outcomes, len(b.subjects))
	for _, o := range b.subjects {
		byRow[[2]int64{o.variant, o.testbed}] = o
	}
	return s.query(ctx, func(row *sql.Rows) error {
		var k [2]int64
		var name string
		var m sample
		var positive int
		var data []byte
		err := row.Scan(&m.row, &k[0], &k[1], &name, &m.unit, &m.n, &m.median, &m.center, &m.spread, &positive, &data)
		if o := byRow[k]; o != nil {
			m.positive, m.values = positive != 0, samplesOf(data)
			o.samples[name] = &m
		}
		return err
	}, `SELECT s.id, s.variant, s.testbed, s.name, s.unit, n.n, n.median, n.center, n.spread, n.positive, n.samples
		FROM nightly n JOIN series s ON s.id = n.series WHERE n.night = $1`, int64(b.night))
}

// loadProperties reads the environments that differ.
func (s *Store) loadProperties(ctx context.Context, sides ...*side) error {
	missing := make(map[string]bool)
	for _, b := range sides {
		for _, o := range b.subjects {
			for _, hash := range o.environments {
				if sides[0].properties[hash] == nil {
					missing[hash] = true
				}
			}
		}
	}
	if len(missing) == 0 || s == nil {
		return nil
	}
	quoted := make([]string, 0, len(missing))
	for _, hash := range sortedKeys(missing) {
		if strings.Trim(hash, "0123456789abcdef") == "" {
			quoted = append(quoted, "'"+hash+"'")
		}
	}
	return s.query(ctx, func(row *sql.Rows) error {
		var hash, name, value string
		err := row.Scan(&hash, &name, &value)
		for _, b := range sides {
			if b.properties[hash] == nil {
				b.properties[hash] = make(map[string]string)
			}
			b.properties[hash][name] = value
		}
		return err
	}, `SELECT e.hash, p.name, p.value FROM environment e JOIN property p ON p.environment = e.id
		WHERE e.hash IN (`+strings.Join(quoted, ",")+`)`)
}

// readDirs reads the runs in a directory.
func (s *Store) readDirs(ctx context.Context, b *side, dir string) error {
	dirs, err := Runs([]string{dir})
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		r, err := ReadDir(dir)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return err
		}
		if err := s.take(ctx, b, r); err != nil {
			return err
		}
	}
	b.summarise()
	return nil
}

// take adds a run that is not in the store.
func (s *Store) take(ctx context.Context, b *side, r *Run) error {
	u := Subject{Key: r.Test.origin(), Test: title(r.Test.Name, r.Test.ID, ""), Point: r.Point, Testbed: r.Testbed,
		Owner: r.Test.Owner}
	var variant, testbed int64
	if s != nil {
		for _, key := range append([]string{r.Test.Key()}, r.Test.Was...) {
			var origin string
			err := s.db.QueryRowContext(ctx, `SELECT t.origin, v.id, b.id FROM test_name n JOIN test t ON t.id = n.test
				JOIN variant v ON v.test = t.id AND v.point = $2 JOIN testbed b ON b.name = $3 WHERE n.name = $1`, key, r.Point,
				r.Testbed).Scan(&origin, &variant, &testbed)
			if err == nil {
				u.Key = origin
				break
			} else if !errors.Is(err, sql.ErrNoRows) {
				return s.explain("read", err)
			}
		}
	}
	o := b.subjects[u.key()]
	if o == nil {
		o = &outcomes{subject: u, night: r.Night, issues: map[string]*occurrence{}, samples: map[string]*sample{},
			variant: variant, testbed: testbed}
		b.subjects[u.key()] = o
	}
	b.runs++
	o.add(r)
	names, parts := sortedKeys(r.Environment), []string(nil)
	for _, name := range names {
		parts = append(parts, name, r.Environment[name])
	}
	hash := digest(parts...)
	b.properties[hash] = r.Environment
	if !slices.Contains(o.environments, hash) {
		o.environments = append(o.environments, hash)
		slices.Sort(o.environments)
	}
	return nil
}

func (o *outcomes) add(r *Run) {
	switch r.Verdict {
	case Pass:
		o.passed++
	case Fail:
		o.failed++
	case Invalid:
		o.invalid++
	default:
		o.broken++
	}
	if !r.Verdict.Judged() {
		if o.reason == "" && len(r.Reasons) > 0 {
			o.reason = r.Reasons[0]
		}
		return
	}
	counted := make(map[string]bool)
	complaints := r.complaints()
	for i := range complaints {
		f := &complaints[i]
		if f.Severity != analyzers.Violation || f.Expected || r.Verdict == Pass && f.Waiver == "" {
			continue
		}
		hash := identity(o.subject.Key, r.Point, f.Rule, f.Cause, f.Role)
		at := o.issues[hash]
		if at == nil {
			at = &occurrence{rule: f.Rule, cause: f.Cause, role: f.Role, waiver: f.Waiver, headline: f.Headline, in: r.ID}
			o.issues[hash] = at
		}
		key := hash + f.Waiver
		if f.Waiver == "" && !counted[key] {
			at.counting++
		} else if !counted[key] {
			at.waived++
		}
		counted[key] = true
	}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		at := o.samples[m.Name]
		if at == nil {
			at = &sample{unit: m.Unit}
			o.samples[m.Name] = at
		}
		at.values = append(at.values, m.P50)
	}
}

// summarise computes what the store keeps of a night.
func (b *side) summarise() {
	for _, o := range b.subjects {
		for _, m := range o.samples {
			n := summary(m.values)
			m.n, m.median, m.center, m.spread, m.positive = n.n, n.median, n.center, n.spread, n.positive
		}
	}
}

// readRun reads one run of the store as a side.
func (s *Store) readRun(ctx context.Context, b *side, id string) error {
	key, err := s.findRun(ctx, id)
	if err != nil {
		return err
	}
	var w where
	w.add("r.id = ?", key)
	if err := s.db.QueryRowContext(ctx, `SELECT night FROM run WHERE id = $1`, key).Scan(&b.night); err != nil {
		return s.explain("read", err)
	}
	if err := cmp.Or(s.loadRuns(ctx, b, oneRun, w), s.loadFindings(ctx, b, w)); err != nil {
		return err
	}
	for _, o := range b.subjects {
		err = cmp.Or(err, s.query(ctx, func(row *sql.Rows) error {
			var name string
			var m sample
			var value float64
			err := row.Scan(&m.row, &name, &m.unit, &value)
			m.values = []float64{value}
			o.samples[name] = &m
			return err
		}, `SELECT s.id, s.name, s.unit, m.p50 FROM metric m JOIN series s ON s.id = m.series WHERE m.run = $1`, key))
	}
	b.summarise()
	return err
}
