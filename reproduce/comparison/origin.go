package comparison

import (
	"encoding/json"
	"fmt"
	"io"
)

// Basis is why a model yields a value: what agreement with the paper is worth.
type Basis string

// Bases. The zero Basis is unset.
const (
	// Mechanism: no parameter of the model is the value; it follows from what the model does.
	Mechanism Basis = "mechanism"
	// Constant: a parameter of the model or of the test is the value. The row shows that the harness measures it back
	// through host, link, switch, trace and analyzer.
	Constant Basis = "profile constant"
	// Chosen: a parameter was fitted to this value, the value follows from how the test is built, or the bound is ours.
	Chosen Basis = "chosen"
	// NotJudged: the paper gives no value for what was measured, or gives it for another set-up.
	NotJudged Basis = "not judged"
)

// Bases lists all bases in the order of the headline.
func Bases() []Basis { return []Basis{Mechanism, Constant, Chosen, NotJudged} }

// letter is the basis in the table for people.
func (b Basis) letter() string {
	switch b {
	case Mechanism:
		return "m"
	case Constant:
		return "p"
	case Chosen:
		return "c"
	case NotJudged:
	}
	return ""
}

// Source is who gives the value that a row compares with, of reproductions that compare with several.
type Source string

// Sources. The zero Source is the paper of the reproduction.
const (
	PaperStatement  Source = "paper statement"
	PublishedData   Source = "published data"   // behind the figures, from a simulator of the authors
	SpecCalibration Source = "spec calibration" // by a simulator of whoever wrote the specification
	Hardware        Source = "hardware (not reproducible here)"
)

// Origin is the basis of a row and its reason.
type Origin struct {
	basis  Basis
	why    string
	source Source
}

// Of returns the origin of a row whose expected value is from s.
func (o Origin) Of(s Source) Origin {
	o.source = s
	return o
}

// FromMechanism is the origin of a value that follows from a mechanism; why may be empty.
func FromMechanism(why string) Origin { return Origin{basis: Mechanism, why: why} }

// FromConstant is the origin of a value that is a parameter, which why names.
func FromConstant(why string) Origin { return Origin{basis: Constant, why: why} }

// FromChoice is the origin of a value or bound that was chosen; why says which and how.
func FromChoice(why string) Origin { return Origin{basis: Chosen, why: why} }

// Unjudged is the origin of a value that is shown and not judged; why says why not.
func Unjudged(why string) Origin { return Origin{basis: NotJudged, why: why} }

// Skipped is the origin of a value that this machine did not measure; why says why not.
func Skipped(why string) Origin { return Unjudged(skip + why) }

// skip begins the reason of a row that was not measured here.
const skip = "SKIP: "

// Summary counts the rows of a reproduction. Each row is counted once: Mechanism, Constant and Chosen are within their
// tolerance.
type Summary struct {
	Rows      int `json:"rows"`
	Mechanism int `json:"mechanism"`
	Constant  int `json:"profile_constant"`
	Chosen    int `json:"chosen"`
	Missed    int `json:"missed"`
	NotJudged int `json:"not_judged"`
	// NotJudgedMisses are those of NotJudged whose value differs from the paper's.
	NotJudgedMisses int `json:"not_judged_that_differ"`
	// Rows by source, of reproductions that compare with several.
	PaperStatements int `json:"paper_statements,omitempty"`
	Published       int `json:"published_data,omitempty"`
	Calibrations    int `json:"spec_calibrations,omitempty"`
	Hardware        int `json:"hardware,omitempty"`
}

// Summary counts the rows.
func (r *Results) Summary() Summary {
	s := Summary{Rows: len(r.Rows)}
	for i := range r.Rows {
		row := &r.Rows[i]
		switch row.Source {
		case PaperStatement:
			s.PaperStatements++
		case PublishedData:
			s.Published++
		case SpecCalibration:
			s.Calibrations++
		case Hardware:
			s.Hardware++
		}
		switch {
		case row.Informative:
			s.NotJudged++
			if !row.Pass {
				s.NotJudgedMisses++
			}
		case !row.Pass:
			s.Missed++
		case row.Basis == Mechanism:
			s.Mechanism++
		case row.Basis == Constant:
			s.Constant++
		default:
			s.Chosen++
		}
	}
	return s
}

// Headline is the summary in words.
func (r *Results) Headline() string {
	s := r.Summary()
	values := fmt.Sprintf("%d values of the paper", s.Rows)
	switch {
	case s.Published > 0:
		values = fmt.Sprintf("%d values (%d published data, %d paper statements, %d spec calibrations, %d of hardware, not "+
			"reproducible here)", s.Rows, s.Published, s.PaperStatements, s.Calibrations, s.Hardware)
	case s.PaperStatements+s.Calibrations+s.Hardware > 0:
		values = fmt.Sprintf("%d values (%d paper statements, %d spec calibrations, %d of hardware, not reproducible here)",
			s.Rows, s.PaperStatements, s.Calibrations, s.Hardware)
	}
	return fmt.Sprintf("%s, %d runs: %d follow from a mechanism, %d measure a profile constant back "+
		"through the chain, %d were chosen, %d missed, %d not judged (%d of them differ from the paper)",
		values, r.Runs, s.Mechanism, s.Constant, s.Chosen, s.Missed, s.NotJudged, s.NotJudgedMisses)
}

// WriteJSON writes results.json.
func (r *Results) WriteJSON(w io.Writer) error {
	type fields Results // without methods
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Headline string  `json:"headline"`
		Summary  Summary `json:"summary"`
		*fields
	}{r.Headline(), r.Summary(), (*fields)(r)})
}
