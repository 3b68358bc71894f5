// Package nightly runs a plan: suites on testbeds, with repetitions, retries, a time budget and quarantine. It writes
// every run to the results store, keeps a journal from which a killed night is resumed, and summarises what broke.
//
// Runs take place in worker processes, one for each testbed (several for simulations). A panic in a goroutine of a
// test, a fatal error such as an exhausted memory, and a hang cannot be contained in a process; so a worker that dies
// or hangs costs one run and is replaced. A worker keeps its testbeds between runs.
package nightly

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
)

// Case is a test at a point on a testbed.
type Case struct {
	File      string // as candela run takes it
	Testbed   string // as candela run takes it; empty: the file's own
	Bed       string // name of the testbed, as results have it
	Simulated bool   // a run is a function of configuration and seed
	Test      history.Test
	Point     int    // number of the point of a sweep; 0: none
	Values    string // of the point, as the results store has them
	Seed      uint64 // of the first repetition

	Repetitions int
}

// Title is the name of the case for people.
func (c *Case) Title() string {
	name := c.Test.Name
	if c.Test.ID != "" {
		name = c.Test.ID
	}
	if c.Values != "" {
		name += " " + c.Values
	}
	return name
}

// key identifies the case in a journal.
func (c *Case) key() string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q", []string{c.Test.Key(), c.Bed, c.Values}))
	const size = 8
	return hex.EncodeToString(h[:size])
}

// Refused is a file, or a testbed, that gives no case.
type Refused struct {
	File    string `json:"file"`
	Testbed string `json:"testbed,omitempty"`
	Reason  string `json:"reason"`
	Wrong   bool   `json:"wrong,omitempty"` // the file has errors; otherwise the testbed cannot run it
}

// Options say how to run a plan.
type Options struct {
	Plan  *config.NightPlan
	Cases []Case
	// Refused are the files of the plan that give no case.
	Refused []Refused
	Night   *history.Night // nil: today in UTC, or that of an unfinished night
	Store   *history.Store
	// History is the address of the store, for workers.
	History string
	Version string
	// Command is how this program is called, for the commands of summaries.
	Command string
	// Start starts a worker of a testbed.
	Start func(ctx context.Context, bed string, log *os.File) (Worker, error)
	// Workers is how many simulations run side by side.
	Workers int
	Now     func() time.Time
	// Progress, if set, is told of each attempt, from one goroutine at a time.
	Progress func(done, of int, a *Attempt)
	// Metrics, if set, counts.
	Metrics *Metrics
}

// Attempt is a run of a case, or a try of one.
type Attempt struct {
	Case       string          `json:"case"`
	Repetition int             `json:"repetition"`
	Try        int             `json:"try,omitempty"` // 1: the first retry
	Seed       uint64          `json:"seed"`
	Verdict    history.Verdict `json:"verdict"`
	Reasons    []string        `json:"reasons,omitempty"`
	Run        string          `json:"run_id"`
	Dir        string          `json:"dir,omitempty"` // of the run; empty: it left none
	Started    time.Time       `json:"started"`
	Ended      time.Time       `json:"ended"`
	Unrecorded bool            `json:"unrecorded,omitempty"` // the results store does not have it
	Lost       int64           `json:"frames_lost,omitempty"`

	title, bed string
}

// Title is the name of the attempt's case for people.
func (a *Attempt) Title() string { return a.title }

// Bed is the name of its testbed.
func (a *Attempt) Bed() string { return a.bed }

// night is a night in progress.
type night struct {
	Options
	dir     string
	began   time.Time
	date    history.Night
	journal *journal
	log     *os.File // stderr of workers

	mu      sync.Mutex
	states  []*state // by number of the case
	done    int
	total   int
	failure error // of the store or the journal, the first
	dead    map[string]string
}

// state is what became of a case so far.
type state struct {
	*Case
	key     string
	tries   map[int]int // attempts by repetition
	judged  map[int]bool
	last    map[int]history.Verdict // by repetition
	retries int                     // of failures, done
	planned int                     // of failures, in the queue or running
	passed  int
	failed  int
	invalid int
	broken  int // attempts without a verdict because of the lab
	inRow   int // of these, the latest
	skipped string
	list    []*Attempt
}

// maxBroken is how often a case may break before the rest of it is left out.
const maxBroken = 3

// job is one repetition of a case that is to run.
type job struct {
	state      *state
	repetition int
}

// Run runs a plan and returns what the night came to. The error is about what could not even be attempted.
func Run(ctx context.Context, o Options) (*Summary, error) {
	out := filepath.Join(o.Plan.Path(o.Plan.Out), o.Plan.Name)
	if err := os.MkdirAll(out, 0o777); err != nil {
		return nil, err
	}
	unlock, err := lock(o.Plan, out, o.Now())
	if err != nil {
		return nil, err
	}
	defer unlock()
	n := &night{Options: o, dead: make(map[string]string)}
	if err := n.open(ctx, out); err != nil {
		return nil, err
	}
	defer n.close()
	n.runAll(ctx)
	if n.failure != nil && ctx.Err() == nil {
		n.importMissed(ctx)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stopped: %w; the next candela nightly %s goes on with this night", context.Cause(ctx),
			o.Plan.File())
	}
	s, err := n.summarise(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.retain(); err != nil {
		s.Errors = append(s.Errors, "retention: "+err.Error())
	}
	return s, n.save(s)
}

// open finds the night's directory, of an unfinished night if there is one, and reads its journal.
func (n *night) open(ctx context.Context, out string) error {
	now := n.Now()
	n.began, n.date = now, history.NightOf(now)
	name := ""
	if last := unfinished(out, now, n.Night); last != nil {
		n.began, n.date, name = last.Began, last.Night, last.dir
	} else {
		if n.Night != nil {
			n.date = *n.Night
		}
		var err error
		if name, err = newDir(out, n.date.String()); err != nil {
			return err
		}
	}
	n.dir = name
	n.addCases()
	j, attempts, err := openJournal(filepath.Join(n.dir, journalFile), header{Schema: journalSchema, Plan: n.Plan.Name,
		Night: n.date, Began: n.began, Version: n.Version})
	if err != nil {
		return err
	}
	n.journal = j
	n.log, err = os.OpenFile(filepath.Join(n.dir, "workers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return errors.Join(err, j.close())
	}
	byKey := make(map[string]*state)
	for _, s := range n.states {
		byKey[s.key] = s
	}
	for _, a := range attempts {
		if s := byKey[a.Case]; s != nil {
			s.count(a)
			n.done++
		}
		if a.Unrecorded {
			n.failure = errUnrecorded
		}
	}
	return ctx.Err()
}

// addCases makes the states of all cases. Of two that the results store cannot tell apart the second does not run.
func (n *night) addCases() {
	first := make(map[string]*Case)
	for i := range n.Cases {
		c := &n.Cases[i]
		key := c.key()
		if other := first[key]; other != nil {
			n.Refused = append(n.Refused, Refused{File: c.File, Testbed: c.Bed, Wrong: true, Reason: fmt.Sprintf(
				"%s: %s runs on %s already, from %s: give one of them a metadata.id, or list it once", c.File, c.Title(), c.Bed,
				other.File)})
			continue
		}
		first[key] = c
		n.states = append(n.states, &state{Case: c, key: key, tries: make(map[int]int), judged: make(map[int]bool),
			last: make(map[int]history.Verdict)})
		n.total += c.Repetitions
	}
}

var errUnrecorded = errors.New("runs are not in the results store")

func (n *night) close() {
	_ = n.journal.close() // every line was synced
	_ = n.log.Close()
}

// count adds an attempt to what became of its case.
func (s *state) count(a *Attempt) {
	a.title, a.bed = s.Title(), s.Bed
	s.list = append(s.list, a)
	if s.tries[a.Repetition]++; s.judged[a.Repetition] {
		s.retries++
	}
	s.last[a.Repetition] = a.Verdict
	switch a.Verdict {
	case history.Pass:
		s.passed++
	case history.Fail:
		s.failed++
	case history.Invalid:
		s.invalid++
	default:
		s.broken++
		s.inRow++
		return
	}
	s.inRow = 0
	s.judged[a.Repetition] = true
}

// group is the work on a testbed.
type group struct {
	bed       string
	simulated bool
	queue     []job
	broken    map[string]bool // cases that broke since the last verdict
	last      string          // why
}

// runAll runs what is left of the plan, testbeds side by side.
func (n *night) runAll(ctx context.Context) {
	groups := n.groups(n.failedLast(ctx))
	var all sync.WaitGroup
	for _, g := range groups {
		workers := 1
		if g.simulated {
			workers = max(1, n.Workers)
		}
		for range min(workers, len(g.queue)) {
			all.Go(func() { n.work(ctx, g) })
		}
	}
	all.Wait()
}

// groups returns the jobs of each testbed in the order in which they run: those of the cases that failed last night,
// then the others, each with one repetition after the other. Within a repetition the order is drawn from the plan's
// seed and the date, so that a dependence on the order shows on some night.
func (n *night) groups(failed map[subject]bool) []*group {
	rng := rand.New(rand.NewPCG(n.Plan.Seed, uint64(n.date)))
	shuffled := slices.Clone(n.states)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	byBed := make(map[string]*group)
	var groups []*group
	most := 0
	for _, s := range n.states {
		most = max(most, s.Repetitions)
		if byBed[s.Bed] == nil {
			byBed[s.Bed] = &group{bed: s.Bed, simulated: s.Simulated, broken: make(map[string]bool)}
			groups = append(groups, byBed[s.Bed])
		}
	}
	for _, first := range []bool{true, false} {
		for r := 1; r <= most; r++ {
			for _, s := range shuffled {
				if failed[s.subject()] == first && r <= s.Repetitions && (!s.judged[r] || n.again(s, r)) {
					byBed[s.Bed].queue = append(byBed[s.Bed].queue, job{s, r})
				}
			}
		}
	}
	return groups
}

// again reports whether a failure is to be repeated, and plans that.
func (n *night) again(s *state, repetition int) bool {
	if s.last[repetition] != history.Fail || s.retries+s.planned >= n.Plan.Retries {
		return false
	}
	s.planned++
	return true
}

// subject is what the results store compares.
type subject struct{ key, point, bed string }

func (c *Case) subject() subject { return subject{c.Test.Key(), c.Values, c.Bed} }

// failedLast returns the cases that failed on the latest night before this one. Without an answer the order is that of
// a first night.
func (n *night) failedLast(ctx context.Context) map[subject]bool {
	before := n.date - 1
	last, err := n.Store.List(ctx, history.Filter{To: &before, Limit: 1})
	if err != nil || len(last) == 0 {
		return nil
	}
	failed, err := failedOn(ctx, n.Store, last[0].Night)
	if err != nil {
		return nil
	}
	return failed
}

// next takes a job from the queue; nil: there is none left for this night.
func (n *night) next(ctx context.Context, g *group) *job {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(g.queue) > 0 {
		j := g.queue[0]
		g.queue = g.queue[1:]
		why := ""
		switch {
		case ctx.Err() != nil:
			return nil
		case n.dead[g.bed] != "":
			why = n.dead[g.bed]
		case n.Plan.BudgetMin > 0 && n.Now().Sub(n.began) >= time.Duration(n.Plan.BudgetMin)*time.Minute:
			why = fmt.Sprintf("the budget of %d min was used up", n.Plan.BudgetMin)
		case j.state.broken >= maxBroken && j.state.inRow >= maxBroken:
			why = fmt.Sprintf("it gave no verdict %d times in a row", j.state.inRow)
		default:
			return &j
		}
		j.state.skipped = why
		n.done++
	}
	return nil
}

// work runs jobs until there are none left.
func (n *night) work(ctx context.Context, g *group) {
	var w Worker
	defer func() {
		if w != nil {
			_ = w.Close()
		}
	}()
	for j := n.next(ctx, g); j != nil; j = n.next(ctx, g) {
		a := n.attempt(ctx, &w, j)
		if a == nil {
			return // stopped: the journal does not have it, so the next start repeats it
		}
		n.finished(ctx, g, j, a)
	}
}

// finished records an attempt and decides whether the job runs again.
func (n *night) finished(ctx context.Context, g *group, j *job, a *Attempt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := j.state
	if s.judged[j.repetition] {
		s.planned--
	}
	s.count(a)
	if err := n.record(ctx, s, a); err != nil && n.failure == nil {
		n.failure = err
	}
	if err := n.journal.add(a); err != nil && n.failure == nil {
		n.failure = err
	}
	n.done++
	switch {
	case n.again(s, j.repetition):
		n.done--
		g.queue = slices.Insert(g.queue, 0, *j)
	case !a.Verdict.Judged() && s.broken+s.invalid < maxBroken && s.tries[j.repetition] < maxBroken:
		n.done--
		g.queue = append(g.queue, *j) // later: other tests show whether it is the testbed
	}
	if a.Verdict.Judged() {
		clear(g.broken)
	} else if a.Verdict == history.Broken {
		g.broken[s.key], g.last = true, strings.Join(a.Reasons, "; ")
		if len(g.broken) >= n.Plan.DeadAfter && !g.simulated && n.dead[g.bed] == "" {
			n.dead[g.bed] = fmt.Sprintf("the testbed was given up: %d tests in a row had no verdict, the last because of: %s",
				len(g.broken), g.last)
		}
	}
	if n.Metrics != nil {
		n.Metrics.attempt(a, n.done, n.total)
	}
	if n.Progress != nil {
		n.Progress(n.done, n.total, a)
	}
}

// record writes an attempt to the results store. The run's directory can be imported later.
func (n *night) record(ctx context.Context, s *state, a *Attempt) error {
	run, err := n.stored(s, a)
	if err == nil {
		_, err = n.Store.Ingest(context.WithoutCancel(ctx), run)
	}
	a.Unrecorded = err != nil
	return err
}

// stored returns an attempt as the store keeps it. One without a directory, whose worker died, is known by its case.
func (n *night) stored(s *state, a *Attempt) (*history.Run, error) {
	if a.Dir != "" {
		return history.ReadDir(a.Dir)
	}
	return &history.Run{ID: a.Run, Test: s.Test, Point: s.Values, Testbed: s.Bed, Night: n.date, Started: a.Started,
		Finished: a.Ended, Analysed: a.Ended, Seed: a.Seed, Repetition: a.Repetition, Config: "", Tool: n.Version,
		Verdict: a.Verdict, Reasons: a.Reasons, Environment: map[string]string{"tool": n.Version}}, nil
}

// importMissed tries once more what the store refused.
func (n *night) importMissed(ctx context.Context) {
	n.failure = nil
	for _, s := range n.states {
		for _, a := range s.list {
			if !a.Unrecorded {
				continue
			}
			if err := n.record(ctx, s, a); err != nil && n.failure == nil {
				n.failure = err
			}
		}
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9-]+`)

// runID returns the name of an attempt's directory: readable, unique in the night, and the same if it is tried again
// after a kill.
func (j *job) runID() string {
	const longest = 40
	name := notInNames.ReplaceAllString(strings.ToLower(j.state.Test.Name), "-")
	name = strings.Trim(name[:min(len(name), longest)], "-")
	if name == "" {
		name = "test"
	}
	const short = 6
	id := fmt.Sprintf("%s-%s-r%d", name, j.state.key[:short], j.repetition)
	if try := j.state.tries[j.repetition]; try > 0 {
		id += fmt.Sprintf("-t%d", try)
	}
	return id
}

// seed returns the seed of a repetition. A retry of a simulated test draws another one, because the same seed would
// give the same bytes; on real frames the same seed asks the same question again.
func (j *job) seed() uint64 {
	seed := orchestrator.RepeatSeed(j.state.Seed, j.repetition)
	if try := j.state.tries[j.repetition]; try > 0 && j.state.Simulated {
		const retried = 1 << 20 // beyond every repetition
		return orchestrator.RepeatSeed(seed, retried+try)
	}
	return seed
}
