package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// commandSite is the site that a command writes.
type commandSite struct {
	name  string
	args  []string // SITE is replaced by the site's directory, DIR by the test's
	site  string   // relative to the directory of the test
	pages []string // pages to check besides the index; pages of runs by glob
	shows []string // texts on the index
}

func commandSites(runs string) []commandSite {
	return []commandSite{
		{"conform", []string{"conform", "--bugs", "nack-psn-plus-one", "--out", "DIR/conform", "--report", "SITE"}, "conform/report",
			[]string{"runs/tail-loss.html"}, []string{"Conformance of spec", "Rules of the specification", "9.7.5.2"}},
		{"detect", []string{"detect", "--bugs", "nack-psn-plus-one,no-nack", "--profiles", "spec", "--scenarios", "5",
			"--configs", "../../configs", "--report", "SITE"}, "detect", nil,
			[]string{"Detection of seeded bugs", "gbn.nak-missing", "random scenarios"}},
		{"fuzz", []string{"fuzz", "../../configs/broken/nack-plus-one.yml", "--runs", "20", "--corpus", "DIR/corpus",
			"--report", "SITE"}, "fuzz", []string{"runs/*.html"}, []string{"Exploration", "Transitions", "gbn.nak-psn"}},
		{"diff", []string{"diff", filepath.Join(runs, "quickstart"), filepath.Join(runs, "nack-plus-one"), "--report", "SITE"},
			"diff", nil, []string{"Differences of", "responder.bugs", "median in quickstart"}},
		{"reproduce", []string{"reproduce", "trimming", "T2", "--quick", "--report", "SITE"}, "reproduce", nil,
			[]string{"reproduce trimming T2 --quick", "Figures"}},
	}
}

// otherSites checks the sites of commands that make many runs.
func (b *browser) otherSites(runs string) {
	dir, err := filepath.EvalSymlinks(b.t.TempDir())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func(site string) { b.site = site }(b.site)
	for _, c := range commandSites(runs) {
		b.do(chromedp.Navigate("about:blank")) // what the last page of another site still asks for belongs to that
		b.site = filepath.Join(dir, c.site)
		for i, arg := range c.args {
			c.args[i] = strings.NewReplacer("SITE", b.site, "DIR", dir).Replace(arg)
		}
		_, _, stderr := candela(b.t, c.args...)
		if _, err := os.Stat(filepath.Join(b.site, "index.html")); err != nil {
			b.t.Fatalf("%s wrote no site: %v\n%s", c.name, err, stderr)
		}
		pages := []string{"index.html"}
		for _, pattern := range c.pages {
			matches, err := filepath.Glob(filepath.Join(b.site, pattern))
			if err != nil || len(matches) == 0 {
				b.t.Fatalf("%s: no page %s: %v", c.name, pattern, err)
			}
			pages = append(pages, "runs/"+filepath.Base(matches[0]))
		}
		b.fits(pages)
		b.open("index.html")
		text := value[string](b, "document.body.innerText")
		for _, want := range c.shows {
			if !strings.Contains(text, want) {
				b.t.Errorf("%s: the index lacks %q", c.name, want)
			}
		}
		b.linked()
		b.accessible(pages[:1], nil) // pages of runs equal those of candela run
	}
}

// fits checks that pages do not scroll horizontally.
func (b *browser) fits(pages []string) {
	b.t.Helper()
	for _, width := range []int64{400, 1000, 1600} {
		b.do(emulation.SetDeviceMetricsOverride(width, 900, 1, false))
		for _, page := range pages {
			b.open(page)
			if w := value[int64](b, "document.documentElement.scrollWidth"); w > width {
				b.t.Errorf("%s scrolls sideways at %d px: it is %d px wide", page, width, w)
			}
		}
	}
}

// linked checks that the links of the page lead to existing files and anchors.
func (b *browser) linked() {
	b.t.Helper()
	links := value[[]string](b, `[...document.querySelectorAll("a[href], img[src], script[src], link[href]")]
		.map((e) => e.href || e.src)`)
	seen := map[string]bool{}
	for _, link := range links {
		if seen[link] {
			continue
		}
		seen[link] = true
		path, place, _ := strings.Cut(strings.TrimPrefix(link, "file://"), "#")
		text, err := os.ReadFile(path)
		if err == nil && place != "" && !strings.Contains(string(text), fmt.Sprintf("id=%q", place)) {
			err = fmt.Errorf("no place %s in it", place)
		}
		if err != nil {
			b.t.Errorf("the link %s leads nowhere: %v", link, err)
		}
	}
	if broken := value[int](b, `[...document.images].filter((i) => !i.complete || i.naturalWidth === 0).length`); broken > 0 {
		b.t.Errorf("%d pictures are not shown", broken)
	}
}
