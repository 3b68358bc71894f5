package junitschema

import (
	"strings"
	"testing"
)

const suite = `<testsuite name="s" tests="1" failures="0" errors="0" skipped="0">`

// within returns a document of one suite with the given content.
func within(inside string) string {
	return `<testsuites>` + suite + inside + `</testsuite></testsuites>`
}

func TestWhatBreaksTheSchemaIsFound(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a correct document": {within(`<properties><property name="a" value="b"/></properties>` +
			`<testcase name="c" time="1.250"/><system-out>text</system-out>`), ""},
		"another root": {`<testsuite/>`, "want <testsuites>"},
		"an attribute": {`<testsuites skipped="0"/>`, "attribute skipped is not in the schema"},
		"no name":      {within(`<testcase/>`), "attribute name is missing"},
		"nanoseconds":  {`<testsuites time="1.250000000"/>`, "at most three digits"},
		"an element":   {`<testsuites><case/></testsuites>`, "<case> is not allowed"},
		"text":         {`<testsuites>text</testsuites>`, `text "text"`},
		"order": {within(`<testcase name="c"/><properties><property name="a" value="b"/></properties>`),
			"<properties> comes after <testcase>"},
		"two skips":        {within(`<testcase name="c"><skipped/><skipped/></testcase>`), "<skipped> occurs twice"},
		"empty properties": {within(`<properties/><testcase name="c"/>`), "<property> is missing"},
		"a hidden failure": {within(`<testcase name="c"><failure/></testcase>`), `failures="0": its cases are 1`},
		"half a document":  {`<testsuites>`, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(strings.NewReader(c.text))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}
