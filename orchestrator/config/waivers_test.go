package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWaiversAreReadStrictly(t *testing.T) {
	rules := []string{"gbn.nak-psn", "cnp.interval"}
	const good = "waivers:\n  - {rule: gbn.nak-psn, dut: {model: cx5, firmware: 16.35.1012}, owner: lab, reference: " +
		"FW-1, expires: 2027-01-31}\n"
	list, err := ParseWaivers("w.yml", []byte(good), rules)
	want := []Waiver{{Rule: "gbn.nak-psn", Model: "cx5", Firmware: "16.35.1012", Owner: "lab", Reference: "FW-1",
		Expires: "2027-01-31", Where: "w.yml:2:5"}}
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, tt := range []struct{ old, new, want string }{
		{"gbn.nak-psn", "gbn.nak-pns",
			`w.yml:2:12: waivers[0].rule: there is no rule "gbn.nak-pns" (did you mean "gbn.nak-psn"?)`},
		{"2027-01-31", "2027-02-30", "waivers[0].expires: 2027-02-30 is not a date"},
		{"2027-01-31", "soon", "waivers[0].expires: is \"soon\"\n  it takes a date such as 2027-03-31"},
		{"owner: lab, ", "", "w.yml:2:5: waivers[0].owner: is missing"},
		{"owner:", "owenr:", `waivers[0].owenr: unknown key (did you mean "owner"?)`},
		{"model: cx5", "modle: cx5", `waivers[0].dut.modle: unknown key (did you mean "model"?)`},
		{"waivers:", "waiver:", `waiver: unknown key (did you mean "waivers"?)`},
	} {
		_, err := ParseWaivers("w.yml", []byte(strings.Replace(good, tt.old, tt.new, 1)), rules)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.new, err, tt.want)
		}
	}
}

func FuzzParseWaivers(f *testing.F) {
	f.Add(
		[]byte("waivers:\n  - {rule: gbn.nak-psn, dut: {model: cx5}, owner: lab, reference: FW-1, expires: 2027-01-31}\n"))
	f.Add([]byte("waivers: [{dut: 1}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ParseWaivers("w.yml", data, nil)
		if err != nil && !strings.HasPrefix(err.Error(), "w.yml:") {
			t.Fatalf("an error without a place: %v", err)
		}
		if err == nil && len(list) == 0 {
			t.Fatal("no error and no waivers")
		}
	})
}
