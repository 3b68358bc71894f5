package comparison

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEachRowIsCountedOnceByWhatItsAgreementIsWorth(t *testing.T) {
	good := func(id string) Row { return NewRow(id, "x", "", 1, 1, 0, 1) }
	bad := func(id string) Row { return NewRow(id, "x", "", 1, 1, 0, 2) }
	origins := []Origin{FromMechanism(""), FromConstant("a"), FromChoice("b"), Unjudged("c")}
	rows := map[string]Summary{
		"mechanism":                  {Mechanism: 1},
		"profile constant":           {Constant: 1},
		"chosen":                     {Chosen: 1},
		"not judged":                 {NotJudged: 1},
		"mechanism missed":           {Missed: 1},
		"profile constant missed":    {Missed: 1},
		"chosen missed":              {Missed: 1},
		"not judged, another number": {NotJudged: 1, NotJudgedMisses: 1},
	}
	all, want := &Results{}, Summary{}
	for i, name := range []string{"mechanism", "profile constant", "chosen", "not judged"} {
		for _, missed := range []bool{false, true} {
			row, key := good("T1"), name
			if missed {
				row, key = bad("T1"), name+" missed"
				if name == "not judged" {
					key = "not judged, another number"
				}
			}
			one := &Results{}
			one.Add(origins[i], row)
			all.Add(origins[i], row)
			expected := rows[key]
			expected.Rows = 1
			if got := one.Summary(); got != expected {
				t.Errorf("%s: %+v, want %+v", key, got, expected)
			}
			want.Rows++
			want.Mechanism += expected.Mechanism
			want.Constant += expected.Constant
			want.Chosen += expected.Chosen
			want.Missed += expected.Missed
			want.NotJudged += expected.NotJudged
			want.NotJudgedMisses += expected.NotJudgedMisses
		}
	}
	s := all.Summary()
	if s != want || s.Mechanism+s.Constant+s.Chosen+s.Missed+s.NotJudged != s.Rows {
		t.Errorf("%+v, want %+v", s, want)
	}
	if all.Failed() != s.Missed {
		t.Errorf("%d failed, %d missed", all.Failed(), s.Missed)
	}
}

func TestResultsSayWhatTheirAgreementIsWorth(t *testing.T) {
	r := sample()
	var b strings.Builder
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Headline string
		Summary  Summary
		Rows     []struct {
			Basis Basis
			Why   string
		}
		Plots []Plot
	}
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatal(err)
	}
	if back.Headline != r.Headline() || back.Summary != r.Summary() || len(back.Plots) != 1 || len(back.Rows) != 3 ||
		back.Rows[0].Basis != Constant || back.Rows[0].Why != "NackGeneration" || back.Rows[2].Basis != NotJudged {
		t.Errorf("%+v", back)
	}
	if !strings.Contains(r.Tables()[0].Note, "1 measure a profile constant back") {
		t.Errorf("the report's table says %q", r.Tables()[0].Note)
	}
}

// A reproduction may compare with other things than its paper: rows and headline say with what.
func TestRowsSayWhoGivesTheValue(t *testing.T) {
	r := new(Results)
	for i, s := range []Source{PaperStatement, SpecCalibration, SpecCalibration, Hardware} {
		r.Add(FromMechanism("").Of(s), NewRow("A1", string('a'+rune(i)), "", 1, 1, 0, 1))
	}
	if want := "4 values (1 paper statements, 2 spec calibrations, 1 of hardware, not reproducible here), 0 runs: "; !strings.
		HasPrefix(r.Headline(), want) {
		t.Errorf("headline %q", r.Headline())
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), "b (spec)") ||
		!strings.Contains(b.String(), "(hw): of hardware") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if got := r.Tables()[0].Rows[3].Cells[3]; got != "d, "+string(Hardware) {
		t.Errorf("the report's table says %q", got)
	}
}

func TestARowWithoutABasisIsABug(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a row without a basis was added")
		}
	}()
	new(Results).Add(Origin{}, NewRow("T1", "x", "", 1, 1, 0, 1))
}
