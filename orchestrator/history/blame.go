package history

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/orchestrator/history/statistics"
)

// BlameRun is a run that bounds a change.
type BlameRun struct {
	ID      string    `json:"run_id"`
	Night   Night     `json:"night"`
	Started time.Time `json:"started"`
	Verdict Verdict   `json:"verdict"`
	Tool    string    `json:"tool_version"`
}

// Blame says when a test or a finding began to fail, and what changed then.
type Blame struct {
	Subject
	Finding string `json:"finding,omitempty"`
	State   State  `json:"state"` // new, still, flaky or fixed; empty: it never failed
	Failed  int    `json:"failed"`
	Runs    int    `json:"runs"`
	// LastGood and FirstBad bound the change; nil: there is none in the nights that were looked at.
	LastGood *BlameRun `json:"last_good"`
	FirstBad *BlameRun `json:"first_bad"`
	// Earliest and Latest bound the night of the change with 95 % confidence.
	Earliest *Night `json:"earliest,omitempty"`
	Latest   *Night `json:"latest,omitempty"`
	// Environment, Config and Tool are what changed between them.
	Environment []EnvironmentChange `json:"environment"`
	ConfigSame  bool                `json:"config_same"`
	// Lost counts runs between them that were not judged.
	Lost     int      `json:"not_judged_between"`
	Headline string   `json:"headline,omitempty"`
	Rules    []string `json:"rules"`

	lastEnvironment, firstEnvironment int64
}

// BlameList is the answer to since when something fails.
type BlameList struct {
	From   Night   `json:"from"`
	To     Night   `json:"to"`
	Blames []Blame `json:"blames"`
}

// blameRun is a run of the subject, in the order of time.
type blameRun struct {
	BlameRun
	row, environment int64
	config           string
	bad              bool
}

// Blame finds the last good and the first bad run of a test, or of a finding by its identity or the beginning of it,
// and what changed between them.
func (s *Store) Blame(ctx context.Context, what, testbed string, w Window) (*BlameList, error) {
	from, to, err := s.window(ctx, w)
	if err != nil {
		return nil, err
	}
	issue, hash, variants, err := s.blamed(ctx, what)
	if err != nil {
		return nil, err
	}
	courses, err := s.courses(ctx, from, to, variants)
	if err != nil {
		return nil, err
	}
	list := &BlameList{From: from, To: to, Blames: []Blame{}}
	for _, c := range courses {
		if testbed != "" && c.Testbed != testbed {
			continue
		}
		b, err := s.blame(ctx, c, issue, from, to)
		if err != nil {
			return nil, err
		}
		b.Finding = hash
		list.Blames = append(list.Blames, *b)
	}
	if len(list.Blames) == 0 {
		return nil, usagef("%q: no run from night %v to %v has it; --nights looks further back", what, from, to)
	}
	return list, nil
}

// blamed returns the finding or the tests that a person named.
func (s *Store) blamed(ctx context.Context, what string) (issue int64, hash string, variants []int64, err error) {
	if len(what) >= shortID && strings.Trim(what, "0123456789abcdef") == "" {
		var found []int64
		err = s.query(ctx, func(row *sql.Rows) error {
			var variant int64
			err := row.Scan(&issue, &hash, &variant)
			found = append(found, variant)
			return err
		}, `SELECT id, hash, variant FROM issue WHERE hash >= $1 AND hash < $2 UNION
			SELECT i.id, i.hash, i.variant FROM former_issue f JOIN issue i ON i.id = f.issue WHERE f.hash >= $1 AND f.hash < $2
			ORDER BY 2 LIMIT 2`, what, what+"g")
		switch {
		case err != nil:
			return 0, "", nil, err
		case len(found) == 1:
			return issue, hash, found, nil
		case len(found) > 1:
			return 0, "", nil, usagef("finding %s: several findings begin so; give more of it", what)
		}
	}
	variants, err = s.variants(ctx, []string{what})
	return 0, "", variants, err
}

func (s *Store) blame(ctx context.Context, c *course, issue int64, from, to Night) (*Blame, error) {
	runs, err := s.blameRuns(ctx, c, issue, from, to)
	if err != nil {
		return nil, err
	}
	b := &Blame{Subject: c.Subject, Environment: []EnvironmentChange{}, Rules: []string{}}
	var nights []Night
	var results []statistics.Nightly
	for i := range runs {
		r := &runs[i]
		if !r.Verdict.Judged() {
			continue
		}
		if len(nights) == 0 || nights[len(nights)-1] != r.Night {
			nights, results = append(nights, r.Night), append(results, statistics.Nightly{})
		}
		n := &results[len(results)-1]
		n.Runs++
		n.Failed += flag(r.bad)
	}
	if len(results) == 0 {
		return b, nil
	}
	b.bound(runs, nights, results)
	if b.FirstBad != nil {
		if err := s.blameFacts(ctx, b, issue); err != nil {
			return nil, err
		}
	}
	if b.LastGood != nil && b.FirstBad != nil && b.lastEnvironment != b.firstEnvironment {
		if b.Environment, err = s.environmentChanges(ctx, b.lastEnvironment, b.firstEnvironment); err != nil {
			return nil, err
		}
		for i := range b.Environment {
			b.Environment[i].Testbed, b.Environment[i].Tests = c.Testbed, 1
		}
	}
	return b, nil
}

// bound finds the change from which on the test fails as it does now.
func (b *Blame) bound(runs []blameRun, nights []Night, results []statistics.Nightly) {
	segments := statistics.Segments(results)
	at := len(segments) - 1
	now := segments[at]
	// The last change for the worse.
	for at > 0 && segments[at].Rate() <= segments[at-1].Rate() {
		at--
	}
	segment := segments[at]
	b.Failed, b.Runs = now.Failed, now.Runs
	switch {
	case now.Failed == 0 && len(segments) == 1:
		return
	case now.Failed == 0:
		b.State = Fixed
	case now.Failed == now.Runs && now.First == len(results)-1 && now.First > 0:
		b.State = New
	case now.Failed == now.Runs:
		b.State = Still
	case cameAndWent(results[now.First:]):
		b.State = Flaky
	default:
		b.State = New // the last nights fail; it is too early for a segment of its own
	}
	first, begin := nights[segment.First], 0
	if at > 0 {
		earliest, latest := nights[max(segment.Earliest-1, 0)], nights[segment.Latest]
		b.Earliest, b.Latest = &earliest, &latest
		for begin < len(runs) && runs[begin].Night < first {
			begin++
		}
	} else if b.State == New {
		for i := len(runs) - 1; i >= 0; i-- {
			if runs[i].Verdict.Judged() && !runs[i].bad {
				begin = i + 1
				break
			}
		}
	}
	// A change within a night lies between two of its runs.
	for begin > 0 && runs[begin-1].bad && runs[begin-1].Verdict.Judged() {
		begin--
	}
	bad := begin
	for bad < len(runs) && !(runs[bad].bad && runs[bad].Verdict.Judged()) {
		bad++
	}
	if bad == len(runs) {
		return
	}
	r := runs[bad]
	b.FirstBad, b.firstEnvironment = &r.BlameRun, r.environment
	for i := bad - 1; i >= 0; i-- {
		if !runs[i].Verdict.Judged() {
			b.Lost++
			continue
		}
		if !runs[i].bad {
			good := runs[i]
			b.LastGood, b.lastEnvironment = &good.BlameRun, good.environment
			b.ConfigSame = good.config == r.config
			return
		}
	}
	b.Lost = 0
}

func (s *Store) blameRuns(ctx context.Context, c *course, issue int64, from, to Night) (runs []blameRun, err error) {
	bad := make(map[int64]bool)
	if issue != 0 {
		err = s.query(ctx, func(row *sql.Rows) error {
			var id int64
			err := row.Scan(&id)
			bad[id] = true
			return err
		}, `SELECT DISTINCT run FROM finding WHERE issue = $1 AND severity = 1`, issue)
		if err != nil {
			return nil, err
		}
	}
	return runs, s.query(ctx, func(row *sql.Rows) error {
		var r blameRun
		var started int64
		var config []byte
		err := row.Scan(&r.row, &r.ID, &r.Night, &started, &r.Verdict, &r.Tool, &r.environment, &config)
		r.Started, r.config = time.UnixMicro(started).UTC(), string(config)
		if r.bad = r.Verdict == Fail; issue != 0 {
			r.bad = bad[r.row]
		}
		runs = append(runs, r)
		return err
	}, `SELECT id, run_id, night, started, verdict, tool, environment, config FROM run WHERE variant = $1 AND testbed = $2
		AND night >= $3 AND night <= $4 ORDER BY night, started, run_id`, c.variant, c.testbed, int64(from), int64(to))
}

// blameFacts reads what the first bad run violated.
func (s *Store) blameFacts(ctx context.Context, b *Blame, issue int64) error {
	return s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var rule, headline string
		if err := row.Scan(&id, &rule, &headline); err != nil {
			return err
		}
		if issue != 0 && id != issue {
			return nil
		}
		if b.Headline == "" {
			b.Headline = headline
		}
		if !slices.Contains(b.Rules, rule) {
			b.Rules = append(b.Rules, rule)
		}
		return nil
	}, `SELECT i.id, i.rule, f.headline FROM run r JOIN finding f ON f.run = r.id JOIN issue i ON i.id = f.issue
		WHERE r.run_id = $1 AND f.severity = 1 AND f.expected = 0 ORDER BY f.number`, b.FirstBad.ID)
}

// environmentChanges compares two environments.
func (s *Store) environmentChanges(ctx context.Context, a, b int64) ([]EnvironmentChange, error) {
	values := map[int64]map[string]string{a: {}, b: {}}
	err := s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var name, value string
		err := row.Scan(&id, &name, &value)
		values[id][name] = value
		return err
	}, `SELECT environment, name, value FROM property WHERE environment IN ($1, $2)`, a, b)
	list := propertyChanges(values[a], values[b])
	sortChanges(list)
	return list, err
}
