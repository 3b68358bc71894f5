package main

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The display filter of a finding selects exactly the packets of its list in Wireshark.
func TestDisplayFiltersSelectThePacketsOfTheList(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: tshark takes seconds; run without -short")
	}
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("SKIP: no tshark; tools/setup installs it")
	}
	dir := t.TempDir()
	candela(t, "run", "../../configs/broken/nack-plus-one.yml", failingSwitchTest(t), "--out", dir, "--report", "none")
	nic := filepath.Join(dir, "nack-plus-one")
	page := finding(t, nic)
	var want []string
	for _, m := range regexp.MustCompile(`<tr id="f1-p(\d+)"`).FindAllStringSubmatch(page, -1) {
		id, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("00:00:00:00:00:%02x", id))
	}
	selects(t, filepath.Join(nic, "trace.pcap"), filterOf(t, page, "these packets"), "eth.src", want)

	sw := filepath.Join(dir, "without-nacks")
	page = finding(t, sw)
	for _, name := range []string{"before", "behind"} {
		want = nil
		for _, m := range regexp.MustCompile(name+` (\d+)`).FindAllStringSubmatch(page, -1) {
			want = append(want, m[1])
		}
		file := "taps/" + name + ".pcap"
		selects(t, filepath.Join(sw, file), filterOf(t, page, "these packets of "+file), "frame.number", want)
	}
}

// finding returns the first finding of a run's page.
func finding(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(text), `id="f1"`)
	page, _, _ = strings.Cut(page, "</article>")
	if !ok {
		t.Fatalf("%s: the page has no finding", dir)
	}
	return page
}

// filterOf returns the display filter with the given label on a page.
func filterOf(t *testing.T, page, what string) string {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta("Wireshark, "+what) + `</span> <code>([^<]*)`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no filter for %s", what)
	}
	return html.UnescapeString(m[1])
}

func selects(t *testing.T, file, filter, field string, want []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tshark", "-r", file, "-Y", filter, "-T", "fields", "-e", field).Output()
	if err != nil {
		t.Fatalf("tshark %s: %v", filter, err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%s selects %v of %s, the list has %v", filter, got, filepath.Base(file), want)
	}
}
