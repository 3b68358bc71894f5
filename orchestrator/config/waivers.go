package config

import (
	"fmt"
	"os"
	"time"
)

// Waiver excuses a known violation of one device until a date. It changes the judgement of a violation, never how a
// test runs.
type Waiver struct {
	Rule            string
	Model, Firmware string // of the device; an empty firmware matches all
	Owner           string // the person or team responsible
	Reference       string // the report of the defect
	Expires         string // last day of validity, YYYY-MM-DD

	Where string // "waivers.yml:3:5"
}

type waiverFile struct{ waivers []Waiver }

var (
	lineForm = text{newPattern(`^[^\x00-\x1f]{1,200}$`), "a line of text"}
	dateForm = text{newPattern(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`), "a date such as 2027-03-31"}
)

func waiversSchema() *object {
	device := &object{
		title: "dut", doc: "The device that has the defect.",
		fields: []field{
			{key: "model", doc: "Model of the NIC; in tests of switches that of the switch, or the transport of the hosts.",
				kind: wordForm, required: true, at: at(func(w *Waiver) *string { return &w.Model })},
			{key: "firmware", doc: "Its firmware; without it all.", kind: lineForm,
				at: at(func(w *Waiver) *string { return &w.Firmware })},
		},
	}
	waiver := &object{
		title: "waivers", doc: "A known violation that does not fail a run.",
		fields: []field{
			{key: "rule", doc: "The rule that is violated.", kind: ruleForm, required: true,
				at: at(func(w *Waiver) *string { return &w.Rule })},
			{key: "dut", doc: "The device.", kind: device, required: true, at: parent},
			{key: "owner", doc: "Who answers for it.", kind: lineForm, required: true,
				at: at(func(w *Waiver) *string { return &w.Owner })},
			{key: "reference", doc: "Where the defect is tracked.", kind: lineForm, required: true,
				at: at(func(w *Waiver) *string { return &w.Reference })},
			{key: "expires", doc: "The last day on which it holds.", kind: dateForm, required: true,
				at: at(func(w *Waiver) *string { return &w.Expires })},
		},
	}
	return &object{
		title: "The waivers file", doc: "Known violations and until when they are excused.",
		fields: []field{
			{key: "waivers", doc: "The waivers.", required: true, kind: list[Waiver]{of: waiver, min: 1, max: 1000},
				at: at(func(f *waiverFile) *[]Waiver { return &f.waivers })},
		},
	}
}

// LoadWaivers reads and checks a file of waivers. rules are the valid ids; nil: any id is valid.
func LoadWaivers(file string, rules []string) ([]Waiver, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read waivers: %w", err)
	}
	return ParseWaivers(file, data, rules)
}

// ParseWaivers checks the waivers in data; file is its name in messages.
func ParseWaivers(file string, data []byte, rules []string) ([]Waiver, error) {
	d := newDecoder(file, Options{Rules: rules})
	var f waiverFile
	d.decodeRoot(data, waiversSchema(), &f)
	for i := range f.waivers {
		w, path := &f.waivers[i], "waivers["+itoa(i)+"]"
		pos := d.of(path)
		w.Where = fmt.Sprintf("%s:%d:%d", file, pos.Line, pos.Col)
		if _, err := time.Parse(time.DateOnly, w.Expires); err != nil && d.fine(path+".expires") {
			d.problemAt(path+".expires", w.Expires+" is not a date", "")
		}
		if rules != nil && d.fine(path+".rule") {
			d.known(path+".rule", w.Rule, rules, "rule")
		}
	}
	return f.waivers, d.err()
}
