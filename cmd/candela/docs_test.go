package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pages returns the pages for users, by path from the root of the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	list := make(map[string]string)
	add := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list[strings.TrimPrefix(path, "../../")] = string(data)
	}
	add("../../README.md")
	add("../../CONTRIBUTING.md")
	for _, dir := range []string{"../../docs", "../../configs"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
				add(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func TestEveryLinkOfThePagesLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	found := 0
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d links in all pages, want at least 50: the expression no longer finds them", found)
	}
}

func TestEveryCommandLineOfThePagesIsOneThatCandelaTakes(t *testing.T) {
	line := regexp.MustCompile("(?m)(?:^    |`|&& |\\$ )(?:sudo )?(?:bin/)?candela ([a-z-][^\n`#|;&]*)")
	checked := 0
	for page, text := range pages(t) {
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			if words := strings.Fields(m[1]); !strings.ContainsAny(m[1], "{…") {
				checked++
				checkCommand(t, page, words)
			}
		}
	}
	if checked < 80 {
		t.Errorf("found %d command lines in all pages, want at least 80: the expression no longer finds them", checked)
	}
}

// checkCommand checks that a command and its flags exist; it does not check the arguments.
func checkCommand(t *testing.T, page string, words []string) {
	t.Helper()
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "\\" })
	cmd, rest, err := newRoot().Find(words)
	if err != nil || cmd == cmd.Root() || cmd.HasAvailableSubCommands() && len(rest) > 0 &&
		!strings.HasPrefix(rest[0], "-") {
		t.Errorf("%s: there is no command %q (%v)", page, strings.Join(words, " "), err)
		return
	}
	for _, word := range rest {
		if word == "--" {
			return
		}
		if name, ok := strings.CutPrefix(strings.Trim(word, "[](),.:"), "--"); ok && !hasFlag(cmd, name) {
			t.Errorf("%s: %s has no flag %s", page, cmd.CommandPath(), word)
		}
	}
}

func hasFlag(cmd *cobra.Command, name string) bool {
	name, _, _ = strings.Cut(name, "=")
	return name == "help" || cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil
}

func TestEveryMakeTargetOfThePagesExists(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("(?m)(?:^    |`)make ([a-z][a-z0-9-]*)")
	for page, text := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if m[1] == "modules" {
				continue // in a kernel's source tree
			}
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
				t.Errorf("%s: there is no target %s", page, m[1])
			}
		}
	}
}

func TestTheLayoutOfTheArchitecturePageIsThatOfTheTree(t *testing.T) {
	_, list, ok := strings.Cut(pages(t)["docs/internals/architecture.md"], "\n## Packages\n")
	if !ok {
		t.Fatal("docs/internals/architecture.md has no list of packages")
	}
	list, _, _ = strings.Cut(list, "\n## ")
	var named []string
	for item := range strings.Lines(list) {
		packages, _, ok := strings.Cut(item, ": ")
		if !ok || !strings.HasPrefix(item, "- ") {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z][a-z0-9/]*)(/…)?`").FindAllStringSubmatch(packages, -1) {
			named = append(named, m[1])
			if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
				t.Errorf("the list names %s: %v", m[1], err)
			}
		}
	}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		holdsCode := func() bool {
			found, _ := filepath.Glob(filepath.Join("../..", e.Name(), "*.go"))
			below, _ := filepath.Glob(filepath.Join("../..", e.Name(), "*", "*.go"))
			return len(found)+len(below) > 0
		}
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || !holdsCode() {
			continue
		}
		if !slices.ContainsFunc(named, func(p string) bool { return p == e.Name() || strings.HasPrefix(p, e.Name()+"/") }) {
			t.Errorf("the list says nothing of %s", e.Name())
		}
	}
}
