package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const goodPlan = `name: lab
suites:
  - path: suites/nic
  - {path: suites/switch, testbeds: [virtual, lab-2.yml], repetitions: 3}
testbeds: lab-1.yml
repetitions: 20
budget-min: 480min
quarantine:
  - {test: drop-*, reason: FW-12, owner: anna, expires: "2027-01-31"}
notify:
  webhooks: [{url-env: HOOK, form: slack}]
  mail: [{server: "mail.lab:587", from: night@lab.example, to: anna@lab.example, user: night, password-file: pw}]
`

func TestANightlyPlanIsReadStrictly(t *testing.T) {
	p, err := ParseNightPlan("etc/plan.yml", []byte(goodPlan))
	if err != nil {
		t.Fatal(err)
	}
	want := &NightPlan{
		Name: "lab", Suites: []NightSuite{{Path: "suites/nic", Where: "etc/plan.yml:3:5"},
			{Path: "suites/switch", Testbeds: []string{"virtual", "lab-2.yml"}, Repetitions: 3, Where: "etc/plan.yml:4:5"}},
		Testbeds: []string{"lab-1.yml"}, Repetitions: 20, Seed: 1, BudgetMin: 480, TimeoutS: 1800, Retries: 2, DeadAfter: 3,
		Out: "nights", Retention: Retention{PassingPerWeek: 1, Compress: true},
		Quarantine: []Quarantine{{Test: "drop-*", Reason: "FW-12", Owner: "anna", Expires: "2027-01-31",
			Where: "etc/plan.yml:9:5"}},
		Notify: Notify{Webhooks: []Webhook{{Secret: Secret{Env: "HOOK"}, Form: WebhookSlack, Where: "etc/plan.yml:11:14"}},
			Mail: []Mail{{Server: "mail.lab:587", From: "night@lab.example", To: []string{"anna@lab.example"}, User: "night",
				Secret: Secret{File: "pw"}, Where: "etc/plan.yml:12:10"}}},
	}
	if diff := cmp.Diff(want, p, cmpopts.IgnoreUnexported(NightPlan{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, want := range map[string]string{"virtual": "virtual", "lab-1.yml": filepath.Join("etc", "lab-1.yml"),
		"leaf-spine": "leaf-spine", "/x.yml": "/x.yml"} {
		if got := p.Testbed(name, []string{"leaf-spine"}); got != want {
			t.Errorf("testbed %s: %s, want %s", name, got, want)
		}
	}
	for _, tt := range []struct{ old, new, want string }{
		{"repetitions: 20", "repetitions: 0", "plan.yml:6:14: repetitions: 0 is out of range"},
		{"budget-min: 480min", "budget: 480", `plan.yml:7:1: budget: unknown key (did you mean "budget-min"?)`},
		{"budget-min: 480min", "budget-min: 480KB", "budget-min"},
		{`"2027-01-31"`, "2027-02-30", "plan.yml:9:57: quarantine[0].expires: 2027-02-30 is not a date"},
		{", owner: anna", "", "quarantine[0].owner: is missing"},
		{"{url-env: HOOK, ", "{", "plan.yml:11:14: notify.webhooks[0]: its address is given 0 times"},
		{"{url-env: HOOK, ", "{url-env: HOOK, url: https://x.example/, ", "its address is given 2 times"},
		{"form: slack", "form: teams", "notify.webhooks[0].form"},
		{", user: night", "", "notify.mail[0]: there is a password and no user"},
		{", password-file: pw", "", "there is a user and no password"},
		{"password-file: pw", "password-file: pw, tls: none", "a password needs encryption"},
		{"password-file: pw", "password: secret", "notify.mail[0].password: unknown key"},
		{"path: suites/nic", "{}", "suites[0].path: is missing"},
		{"testbeds: lab-1.yml", "testbeds: {}", "testbeds"},
	} {
		text := strings.Replace(goodPlan, tt.old, tt.new, 1)
		if tt.new == "{}" {
			text = strings.Replace(goodPlan, "- path: suites/nic", "- {}", 1)
		}
		if _, err := ParseNightPlan("plan.yml", []byte(text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.new, err, tt.want)
		}
	}
}

func TestTheSchemaOfPlansAcceptsAPlan(t *testing.T) {
	schema := mustSchema(t, NightlyJSONSchema())
	if wrong := checkSchema(schema, asJSON(t, []byte(goodPlan)), ""); wrong != nil {
		t.Errorf("%v", wrong)
	}
	for _, text := range []string{"name: x", "{name: x, suites: [{path: a}], retry: 1}"} {
		if checkSchema(schema, asJSON(t, []byte(text)), "") == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}

func FuzzParseNightPlan(f *testing.F) {
	f.Add([]byte(goodPlan))
	f.Add([]byte("name: x\nsuites: [{path: [}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseNightPlan("p.yml", data)
		if err != nil && !strings.HasPrefix(err.Error(), "p.yml:") {
			t.Fatalf("an error without a place: %v", err)
		}
		if err == nil && (p.Name == "" || len(p.Suites) == 0) {
			t.Fatal("no error and no plan")
		}
	})
}
