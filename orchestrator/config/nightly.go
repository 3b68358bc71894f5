package config

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// NightPlan is what a nightly lab runs. Relative paths are relative to the directory of the plan.
type NightPlan struct {
	Name        string
	Suites      []NightSuite
	Testbeds    []string // of suites that name none; empty: those of the tests
	Repetitions int
	Seed        uint64
	BudgetMin   int // minutes; 0: no limit
	TimeoutS    int // seconds of a run
	Retries     int
	DeadAfter   int
	Strict      bool
	Out         string
	History     string // empty: history.db in Out
	Waivers     string // file; empty: none
	Quarantine  []Quarantine
	Retention   Retention
	Notify      Notify

	file string
}

// NightSuite is a part of a plan: tests, where and how often.
type NightSuite struct {
	Path        string // a file, or a directory with .yml files
	Testbeds    []string
	Repetitions int // 0: that of the plan

	Where string // "plan.yml:3:5"
}

// Quarantine excuses the failures of a test until a date. The test still runs.
type Quarantine struct {
	Test    string // id, name, or FILE#NAME; * is any text
	Testbed string // empty: all
	Reason  string
	Owner   string
	Expires string // last day, YYYY-MM-DD

	Where string
}

// Retention says what stays of the captures of passing runs.
type Retention struct {
	PassingPerWeek int
	Compress       bool
}

// Notify says whom a night's summary goes to.
type Notify struct {
	When     NotifyWhen
	Webhooks []Webhook
	Mail     []Mail
}

// NotifyWhen is when a summary is sent.
type NotifyWhen uint8

// Values of NotifyWhen.
const (
	NotifyAlways NotifyWhen = iota
	NotifyFailures
	NotifyChanges
)

// String returns the word of the plan.
func (w NotifyWhen) String() string { return [...]string{"always", "failures", "changes"}[w] }

// Webhook is an address that the summary is posted to. Its address may be a secret, so it may come from the environment
// or a file.
type Webhook struct {
	Secret
	Form  WebhookForm
	CA    string // PEM file; empty: the system's
	Where string
}

// WebhookForm is the body of a webhook.
type WebhookForm uint8

// Values of WebhookForm.
const (
	WebhookJSON WebhookForm = iota
	WebhookSlack
)

// String returns the word of the plan.
func (f WebhookForm) String() string { return [...]string{"json", "slack"}[f] }

// Mail is a mail server and who gets the summary.
type Mail struct {
	Server string // HOST:PORT
	TLS    MailTLS
	CA     string
	From   string
	To     []string
	User   string
	Secret // password
	Where  string
}

// MailTLS is how a connection to a mail server is encrypted.
type MailTLS uint8

// Values of MailTLS.
const (
	MailStartTLS MailTLS = iota
	MailImplicit
	MailPlain
)

// String returns the word of the plan.
func (t MailTLS) String() string { return [...]string{"starttls", "implicit", "none"}[t] }

// Secret is a value that no log shows: itself, a variable of the environment, or a file.
type Secret struct{ Value, Env, File string }

// Read returns the secret.
func (s *Secret) Read() (string, error) {
	switch {
	case s.Env != "":
		v, ok := os.LookupEnv(s.Env)
		if !ok || v == "" {
			return "", fmt.Errorf("the variable %s is not set", s.Env)
		}
		return v, nil
	case s.File != "":
		const longest = 1 << 16
		info, err := os.Stat(s.File)
		if err == nil && info.Size() > longest {
			err = fmt.Errorf("%s has %d bytes, not those of a secret", s.File, info.Size())
		}
		if err != nil {
			return "", err
		}
		data, err := os.ReadFile(s.File)
		for len(data) > 0 && (data[len(data)-1] == '\n' || data[len(data)-1] == '\r') {
			data = data[:len(data)-1]
		}
		return string(data), err
	}
	return s.Value, nil
}

// given counts the ways in which a secret is given.
func (s *Secret) given() (n int) {
	for _, v := range []string{s.Value, s.Env, s.File} {
		if v != "" {
			n++
		}
	}
	return n
}

var (
	pathText     = text{newPattern(`^[^\x00-\x1f]{1,1000}$`), "a path"}
	hookForm     = text{newPattern(`^https?://[^\x00-\x20]{1,1000}$`), "an address such as https://lab.example/hook"}
	variableForm = text{newPattern(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`), "a name of a variable of the environment"}
	serverForm   = text{newPattern(`^[^\x00-\x20/@]{1,250}:[0-9]{1,5}$`), "HOST:PORT"}
	mailForm     = text{newPattern(`^[^\x00-\x20<>,;"]{1,100}@[^\x00-\x20<>,;"@]{1,200}$`), "a mail address"}
)

const (
	maxSuites      = 1000
	maxRepetitions = 100_000
	maxBudgetMin   = 7 * 24 * 60
	maxTimeoutS    = 7 * 24 * 3600
	maxRetries     = 100
	maxRecipients  = 100
)

func nightlySchema() *object {
	beds := list[string]{of: fileForm, max: maxSuites, omit: true, single: true}
	suite := &object{
		title: "suites", doc: "Tests, where they run and how often.",
		fields: []field{
			{key: "path", doc: "A test, or a directory: the .yml files directly in it.", kind: pathText, required: true,
				at: at(func(s *NightSuite) *string { return &s.Path })},
			{key: "testbeds", doc: "Testbeds as for candela run; each runs every test.", kind: beds, defDoc: "the plan's",
				at: at(func(s *NightSuite) *[]string { return &s.Testbeds })},
			{key: "repetitions", doc: "How often each test runs.", kind: optionalInteger{integer{min: 1, max: maxRepetitions}},
				defDoc: "the plan's", at: at(func(s *NightSuite) *int { return &s.Repetitions })},
		},
	}
	return &object{
		title: "A nightly plan",
		doc:   "What `candela nightly` runs. Relative paths are relative to the directory of the plan.",
		fields: []field{
			{key: "name", doc: "Name of the plan, and of its directory in out.", kind: nameForm, required: true,
				at: at(func(p *NightPlan) *string { return &p.Name })},
			{key: "suites", doc: "Tests, where they run and how often.", required: true,
				kind: list[NightSuite]{of: suite, min: 1, max: maxSuites},
				at:   at(func(p *NightPlan) *[]NightSuite { return &p.Suites })},
			{key: "testbeds", doc: "Testbeds of suites that name none. They are used side by side.", kind: beds,
				defDoc: "that of each test", at: at(func(p *NightPlan) *[]string { return &p.Testbeds })},
			{key: "repetitions", doc: "How often each test runs, with seeds derived from its own.",
				kind: integer{min: 1, max: maxRepetitions}, def: "1",
				at: at(func(p *NightPlan) *int { return &p.Repetitions })},
			{key: "seed", doc: "Behind the order of the tests, together with the date.",
				kind: integer{min: 0, max: math.MaxInt64}, def: "1", at: at(func(p *NightPlan) *uint64 { return &p.Seed })},
			{key: "budget-min", doc: "Minutes after which no run starts; runs in progress end. 0: no limit.",
				kind: integer{min: 0, max: maxBudgetMin, unit: "min"}, def: "0",
				at: at(func(p *NightPlan) *int { return &p.BudgetMin })},
			{key: "timeout-s", doc: "Seconds after which a run is stopped and counts as a failure of the lab.",
				kind: integer{min: 1, max: maxTimeoutS, unit: "s"}, def: "1800",
				at: at(func(p *NightPlan) *int { return &p.TimeoutS })},
			{key: "retries", doc: "How many more runs a test that fails gets, to tell flaky from failing: on real frames with " +
				"the same seed, in a simulation with others.", kind: integer{min: 0, max: maxRetries}, def: "2",
				at: at(func(p *NightPlan) *int { return &p.Retries })},
			{key: "dead-after", doc: "After how many tests in a row without a verdict a real testbed is given up for the night.",
				kind: integer{min: 1, max: maxRepetitions}, def: "3", at: at(func(p *NightPlan) *int { return &p.DeadAfter })},
			{key: "strict", doc: "Warnings fail, too.", kind: boolean{}, def: "false",
				at: at(func(p *NightPlan) *bool { return &p.Strict })},
			{key: "out", doc: "Directory for the directories of the nights.", kind: pathText, def: "nights",
				at: at(func(p *NightPlan) *string { return &p.Out })},
			{key: "history", doc: "Results store: a file, or postgres://HOST/DATABASE.", kind: optionalText{pathText},
				defDoc: "history.db in out", at: at(func(p *NightPlan) *string { return &p.History })},
			{key: "waivers", doc: "File of known violations that do not fail.", kind: optionalText{pathText},
				at: at(func(p *NightPlan) *string { return &p.Waivers })},
			{key: "quarantine", doc: "Tests whose failures do not fail the night.",
				kind: list[Quarantine]{of: quarantineSchema(), max: maxSuites, omit: true},
				at:   at(func(p *NightPlan) *[]Quarantine { return &p.Quarantine })},
			{key: "retention", doc: "Which captures stay. Those of runs that did not pass all do.", def: "{}",
				kind: retentionSchema(), at: at(func(p *NightPlan) *Retention { return &p.Retention })},
			{key: "notify", doc: "Whom the summary of the night goes to.", def: "{}", kind: notifySchema(),
				at: at(func(p *NightPlan) *Notify { return &p.Notify })},
		},
	}
}

func quarantineSchema() *object {
	return &object{
		title: "quarantine",
		doc: "A test whose failures are known. It runs, and is reported apart. After the last day the test counts again, " +
			"and the night ends with an error that names the owner.",
		fields: []field{
			{key: "test", doc: "Its `metadata.id`, its name, or FILE#NAME; * is any text.", kind: lineForm, required: true,
				at: at(func(q *Quarantine) *string { return &q.Test })},
			{key: "testbed", doc: "Only on this testbed.", kind: optionalText{lineForm}, defDoc: "all",
				at: at(func(q *Quarantine) *string { return &q.Testbed })},
			{key: "reason", doc: "Why, and where that is tracked.", kind: lineForm, required: true,
				at: at(func(q *Quarantine) *string { return &q.Reason })},
			{key: "owner", doc: "Who answers for it.", kind: lineForm, required: true,
				at: at(func(q *Quarantine) *string { return &q.Owner })},
			{key: "expires", doc: "The last day on which it holds.", kind: dateForm, required: true,
				at: at(func(q *Quarantine) *string { return &q.Expires })},
		},
	}
}

func retentionSchema() *object {
	const most = 1_000_000
	return &object{
		title: "retention", doc: "Captures of passing runs. Documents and reports stay.",
		fields: []field{
			{key: "passing-per-week", doc: "Passing runs of a test, on a testbed and in a week, whose captures stay.",
				kind: integer{min: 0, max: most}, def: "1", at: at(func(r *Retention) *int { return &r.PassingPerWeek })},
			{key: "compress", doc: "Compress what stays with zstd; candela and Wireshark read it so.", kind: boolean{},
				def: "true", at: at(func(r *Retention) *bool { return &r.Compress })},
		},
	}
}

func notifySchema() *object {
	webhook := &object{
		title: "webhooks",
		doc:   "An address that the summary is posted to. Exactly one of url, url-env and url-file is given.",
		fields: append(secretFields("url", "Address", hookForm, func(of any) *Secret { return &of.(*Webhook).Secret }),
			field{key: "form", doc: "Body: the summary as JSON, or a message as Slack takes it.",
				kind: enum[WebhookForm]{values: []WebhookForm{WebhookJSON, WebhookSlack}}, def: "json",
				at: at(func(w *Webhook) *WebhookForm { return &w.Form })},
			field{key: "ca", doc: "PEM file of certificate authorities to trust.", kind: optionalText{pathText},
				defDoc: "the system's", at: at(func(w *Webhook) *string { return &w.CA })}),
	}
	mail := &object{
		title: "mail", doc: "A mail server and who gets the summary.",
		fields: append([]field{
			{key: "server", doc: "Address of the server.", kind: serverForm, required: true,
				at: at(func(m *Mail) *string { return &m.Server })},
			{key: "tls", doc: "Encryption: after STARTTLS, from the start, or none.",
				kind: enum[MailTLS]{values: []MailTLS{MailStartTLS, MailImplicit, MailPlain}}, def: "starttls",
				at: at(func(m *Mail) *MailTLS { return &m.TLS })},
			{key: "ca", doc: "PEM file of certificate authorities to trust.", kind: optionalText{pathText},
				defDoc: "the system's", at: at(func(m *Mail) *string { return &m.CA })},
			{key: "from", doc: "Sender.", kind: mailForm, required: true, at: at(func(m *Mail) *string { return &m.From })},
			{key: "to", doc: "Recipients.", kind: list[string]{of: mailForm, min: 1, max: maxRecipients, single: true},
				required: true, at: at(func(m *Mail) *[]string { return &m.To })},
			{key: "user", doc: "User; without it nobody logs in.", kind: optionalText{lineForm},
				at: at(func(m *Mail) *string { return &m.User })},
		}, secretFields("password", "Password", text{}, func(of any) *Secret { return &of.(*Mail).Secret })...),
	}
	return &object{
		title: "notify", doc: "Whom the summary of the night goes to.",
		fields: []field{
			{key: "when", doc: "Always, if something does not pass, or if that differs from the last night.",
				kind: enum[NotifyWhen]{values: []NotifyWhen{NotifyAlways, NotifyFailures, NotifyChanges}}, def: "always",
				at: at(func(n *Notify) *NotifyWhen { return &n.When })},
			{key: "webhooks", doc: "Addresses that it is posted to.",
				kind: list[Webhook]{of: webhook, max: maxRecipients, omit: true},
				at:   at(func(n *Notify) *[]Webhook { return &n.Webhooks })},
			{key: "mail", doc: "Mail.", kind: list[Mail]{of: mail, max: maxRecipients, omit: true},
				at: at(func(n *Notify) *[]Mail { return &n.Mail })},
		},
	}
}

// secretFields are the keys of a secret. A password is never written in a plan, which has no form for it.
func secretFields(name, what string, form text, of func(any) *Secret) (fields []field) {
	if form.form != nil {
		fields = append(fields, field{key: name, doc: what + ".", kind: optionalText{form},
			at: func(parent any) any { return &of(parent).Value }})
	}
	return append(fields,
		field{key: name + "-env", doc: "Variable of the environment with it.", kind: optionalText{variableForm},
			at: func(parent any) any { return &of(parent).Env }},
		field{key: name + "-file", doc: "File with it.", kind: optionalText{pathText},
			at: func(parent any) any { return &of(parent).File }})
}

// NightlyJSONSchema is [JSONSchema] for nightly plans.
func NightlyJSONSchema() []byte { return schemaDocument(nightlySchema(), "candela nightly plan") }

// LoadNightPlan reads and checks a nightly plan.
func LoadNightPlan(file string) (*NightPlan, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return ParseNightPlan(file, data)
}

// ParseNightPlan checks the plan in data; file is its name in messages, and its directory that of relative paths.
func ParseNightPlan(file string, data []byte) (*NightPlan, error) {
	d := newDecoder(file, Options{})
	p := &NightPlan{file: file}
	if d.decodeRoot(data, nightlySchema(), p) {
		p.check(d)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *NightPlan) check(d *decoder) {
	where := func(path string) string {
		pos := d.of(path)
		return fmt.Sprintf("%s:%d:%d", d.file, pos.Line, pos.Col)
	}
	for i := range p.Suites {
		p.Suites[i].Where = where("suites[" + itoa(i) + "]")
	}
	for i := range p.Quarantine {
		q, path := &p.Quarantine[i], "quarantine["+itoa(i)+"]"
		q.Where = where(path)
		if _, err := time.Parse(time.DateOnly, q.Expires); err != nil && d.fine(path+".expires") {
			d.problemAt(path+".expires", q.Expires+" is not a date", "")
		}
	}
	for i := range p.Notify.Webhooks {
		w, path := &p.Notify.Webhooks[i], "notify.webhooks["+itoa(i)+"]"
		w.Where = where(path)
		if w.given() != 1 && d.fine(path) {
			d.problemAt(path, "its address is given "+itoa(w.given())+" times", "give one of url, url-env and url-file")
		}
		if u, err := url.Parse(w.Value); w.Value != "" && (err != nil || u.Host == "") && d.fine(path+".url") {
			d.problemAt(path+".url", "is not an address", "")
		}
	}
	for i := range p.Notify.Mail {
		m, path := &p.Notify.Mail[i], "notify.mail["+itoa(i)+"]"
		m.Where = where(path)
		switch n := m.given(); {
		case !d.fine(path):
		case n > 1:
			d.problemAt(path, "the password is given twice", "give one of password-env and password-file")
		case n == 1 && m.User == "":
			d.problemAt(path, "there is a password and no user", "")
		case n == 0 && m.User != "":
			d.problemAt(path, "there is a user and no password", "give one of password-env and password-file")
		case n == 1 && m.TLS == MailPlain:
			d.problemAt(path+".tls", "a password needs encryption", "leave tls out, or set it to starttls or implicit")
		}
	}
}

// Path returns a path of the plan as this process takes it.
func (p *NightPlan) Path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(p.file), name)
}

// Testbed returns a testbed as candela run takes it: built-in descriptions by name, files by path.
func (p *NightPlan) Testbed(name string, builtin []string) string {
	if embedded(name) != nil || slices.Contains(builtin, name) {
		return name
	}
	return p.Path(name)
}

// File returns the path of the plan.
func (p *NightPlan) File() string { return p.file }

// optionalInteger is an integer that may be absent; it is then 0.
type optionalInteger struct{ integer }
