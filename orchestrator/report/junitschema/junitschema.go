// Package junitschema checks JUnit XML against the structure of junit-10.xsd, the schema of Jenkins' xUnit plugin.
// Where versions of that schema differ, it requires what all of them accept. Only tests use it.
package junitschema

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// element describes the valid content of an element.
type element struct {
	children []string // in this order
	single   []string // children that occur at most once
	least    string   // required child; empty: none
	required []string // attributes
	optional []string
	text     bool // it may hold text
}

var result = element{optional: []string{"message", "type"}, text: true}

var elements = map[string]element{
	"testsuites": {children: []string{"testsuite"}, optional: []string{"name", "time", "tests", "failures", "errors"}},
	"testsuite": {children: []string{"properties", "testcase", "system-out", "system-err"},
		single:   []string{"properties", "system-out", "system-err"},
		required: []string{"name", "tests", "failures", "errors"},
		optional: []string{"time", "skipped", "timestamp", "hostname", "id", "package"}},
	"properties": {children: []string{"property"}, least: "property"},
	"property":   {required: []string{"name", "value"}},
	"testcase": {children: []string{"skipped", "error", "failure", "system-out", "system-err"},
		single: []string{"skipped"}, required: []string{"name"}, optional: []string{"classname", "time"}},
	"skipped": result, "error": result, "failure": result,
	"system-out": {text: true}, "system-err": {text: true},
}

// seconds is the format of a time in the schema.
var seconds = regexp.MustCompile(`^[0-9]{1,3}(,?[0-9]{3})*(\.[0-9]{0,3})?$`)

type node struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []node     `xml:",any"`
	Text     string     `xml:",chardata"`
}

// Check returns the violations of the schema and the counts that contradict their cases.
func Check(r io.Reader) error {
	var root node
	if err := xml.NewDecoder(r).Decode(&root); err != nil {
		return err
	}
	if root.XMLName.Local != "testsuites" {
		return fmt.Errorf("the document is <%s>: want <testsuites>", root.XMLName.Local)
	}
	return errors.Join(append(root.check("testsuites"), counted(&root)...)...)
}

func (n *node) attr(name string) (string, bool) {
	i := slices.IndexFunc(n.Attrs, func(a xml.Attr) bool { return a.Name.Local == name })
	if i < 0 {
		return "", false
	}
	return n.Attrs[i].Value, true
}

func (n *node) check(path string) (errs []error) {
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(path+": "+format, args...)) }
	e, ok := elements[n.XMLName.Local]
	if !ok {
		say("the element is not in the schema")
		return errs
	}
	for _, name := range e.required {
		if _, ok := n.attr(name); !ok {
			say("attribute %s is missing", name)
		}
	}
	for _, a := range n.Attrs {
		name := a.Name.Local
		if !slices.Contains(e.required, name) && !slices.Contains(e.optional, name) {
			say("attribute %s is not in the schema", name)
		}
		if name == "time" && !seconds.MatchString(a.Value) {
			say("time %q: want seconds with at most three digits after the point", a.Value)
		}
	}
	if !e.text && strings.TrimSpace(n.Text) != "" {
		say("text %q", strings.TrimSpace(n.Text))
	}
	last, seen := 0, map[string]int{}
	for i := range n.Children {
		name := n.Children[i].XMLName.Local
		at := slices.Index(e.children, name)
		switch {
		case at < 0:
			say("<%s> is not allowed in it", name)
		case at < last:
			say("<%s> comes after <%s>", name, e.children[last])
		case seen[name] > 0 && slices.Contains(e.single, name):
			say("<%s> occurs twice", name)
		default:
			last = at
		}
		seen[name]++
		errs = append(errs, n.Children[i].check(fmt.Sprintf("%s/%s[%d]", path, name, seen[name]))...)
	}
	if e.least != "" && seen[e.least] == 0 {
		say("<%s> is missing", e.least)
	}
	return errs
}

// counted compares the counts of each suite with its cases, and those of the document with the suites.
func counted(root *node) (errs []error) {
	total := map[string]int{}
	for i := range root.Children {
		s := &root.Children[i]
		n := map[string]int{}
		for j := range s.Children {
			if c := &s.Children[j]; c.XMLName.Local == "testcase" {
				n["tests"]++
				n[c.outcome()]++
			}
		}
		errs = append(errs, s.compare(n, "tests", "failures", "errors", "skipped")...)
		for name, count := range n {
			total[name] += count
		}
	}
	return append(errs, root.compare(total, "tests", "failures", "errors")...)
}

// outcome returns the count that a case adds to. An error takes precedence over a failure.
func (n *node) outcome() string {
	for _, kind := range [][2]string{{"error", "errors"}, {"failure", "failures"}, {"skipped", "skipped"}} {
		if slices.ContainsFunc(n.Children, func(c node) bool { return c.XMLName.Local == kind[0] }) {
			return kind[1]
		}
	}
	return "passed"
}

func (n *node) compare(want map[string]int, names ...string) (errs []error) {
	for _, name := range names {
		if got, ok := n.attr(name); ok && got != strconv.Itoa(want[name]) {
			errs = append(errs, fmt.Errorf("<%s> says %s=%q: its cases are %d", n.XMLName.Local, name, got, want[name]))
		}
	}
	return errs
}
