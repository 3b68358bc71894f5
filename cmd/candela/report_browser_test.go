package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a headless Chromium that records forbidden actions of pages.
type browser struct {
	t    *testing.T
	ctx  context.Context
	site string // directory that all requests must stay in

	mu         sync.Mutex
	complaints []string
}

// openBrowser starts Chromium, or skips the test if it is missing.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIP: a browser takes seconds; run without -short")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("SKIP: no Chromium; tools/setup installs it")
	}
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profileDir(t)),
		chromedp.WSURLReadTimeout(40 * time.Second),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	t.Cleanup(cancel)
	ctx, closeAll := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(closeAll)
	ctx, closePage := chromedp.NewContext(ctx)
	t.Cleanup(closePage)
	b := &browser{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, b.listen)
	if err := chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable()); err != nil {
		t.Skipf("SKIP-busy: Chromium does not start: %v", err)
	}
	return b
}

// profileDir returns a directory for the profile of Chromium, whose helpers may write to it for a moment after
// it has ended, so it is removed again and again, for a bounded time.
func profileDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "candela-chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		const pause, attempts = 100 * time.Millisecond, 300
		for attempt := 1; ; attempt++ {
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			if attempt == attempts {
				t.Error(err)
				return
			}
			time.Sleep(pause)
		}
	})
	return dir
}

func (b *browser) listen(event any) {
	var complaint string
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, "file://"+b.site) && url != "about:blank" {
			complaint = "request outside the site: " + url
		}
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		complaint = fmt.Sprintf("console: %s", e.Type)
		for _, a := range e.Args {
			complaint += fmt.Sprintf(" %s%s", a.Value, a.Description)
		}
	case *log.EventEntryAdded:
		complaint = fmt.Sprintf("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	}
	if complaint == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, complaint)
}

// do executes actions in the browser. On a machine that is too busy it skips the test.
func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		if b.ctx.Err() != nil && b.t.Context().Err() == nil {
			b.t.Skipf("SKIP-busy: the browser took too long: %v", err)
		}
		b.t.Fatal(err)
	}
}

func (b *browser) open(page string) {
	b.t.Helper()
	b.do(chromedp.Navigate("file://" + filepath.Join(b.site, page)))
}

func value[T any](b *browser, expression string) T {
	b.t.Helper()
	var v T
	b.do(chromedp.Evaluate(expression, &v))
	return v
}

// quiet fails if a complaint was recorded.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Error(c)
	}
	b.complaints = nil
}

// eventually waits until an expression is true. During navigation there is no page to evaluate it.
func (b *browser) eventually(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	for {
		var ok bool
		if err := chromedp.Run(ctx, chromedp.Evaluate(expression, &ok)); err == nil && ok {
			return
		}
		if err := chromedp.Run(ctx, chromedp.Sleep(20*time.Millisecond)); err != nil {
			b.t.Fatalf("does not come true: %s", expression)
		}
	}
}

// browsedSite builds a site with a sweep, passes, a failure, an invalid run, a switch test, and a judged capture.
func browsedSite(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	configs := []string{"quickstart.yml", "dcqcn.yml", "sweep-psn.yml", "broken/nack-plus-one.yml",
		"broken/slow-dumper.yml", "switch-incast-droptail.yml"}
	args := []string{"run", "--out", dir}
	for _, c := range configs {
		args = append(args, filepath.Join("../../configs", c))
	}
	args = append(args, failingSwitchTest(t))
	_, stdout, stderr := candela(t, args...)
	site := filepath.Join(dir, "report")
	if !strings.Contains(stdout, filepath.Join(site, "index.html")) {
		t.Fatalf("run says nothing of its site:\n%s%s", stdout, stderr)
	}
	return site
}

// failingSwitchTest writes a switch test whose hosts do not send NACKs.
func failingSwitchTest(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "without-nacks.yml")
	text := `name: without-nacks
topology: {kind: single-switch, hosts: 5, link: {gbps: 100, delay-ns: 500}}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 12000, header-queue-bytes: 25600}
hosts: {transport: ndp, initial-window: 60, rto-us: 1000, bugs: [forgets-nack]}
workload: [incast: {senders: 4, packets: 80}]
taps: {capture: true}
series-us: 2
`
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestASiteIsOneGlanceAndOneClickToThePacket(t *testing.T) {
	b := openBrowser(t)
	b.site = browsedSite(t)
	pages := []string{"index.html", "sweeps/1.html", "runs/nack-plus-one.html", "runs/dcqcn.html",
		"runs/switch-incast-droptail.html", "runs/slow-dumper.html", "runs/without-nacks.html"}
	b.fits(pages)
	for _, part := range []struct {
		name string
		test func()
	}{
		{"filters", b.filters}, {"from the index to the packet", b.clickThrough}, {"hops of a switch test", b.hops},
		{"plots of a sweep", b.plots},
		{"accessibility", func() { b.accessible(pages, append(pages[:3:3], pages[len(pages)-1])) }},
		{"sites of other commands", func() { b.otherSites(filepath.Dir(b.site)) }},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.t = t
			part.test()
		})
	}
	b.t = t
	b.quiet()
}

// filters filters by verdict, rule, connection and text, and checks that the filters survive a reload.
func (b *browser) filters() {
	b.open("index.html")
	const shown = `document.querySelectorAll("#list > li").length`
	all := value[int](b, shown)
	if all != 16 {
		b.t.Fatalf("%d runs are listed, want 16", all)
	}
	pick := func(id, choice string) string {
		return fmt.Sprintf(`{const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("input"));}`+
			shown, id, choice)
	}
	clear := `document.getElementById("filters").reset()`
	b.do(chromedp.Click(`.chip[data-word=FAIL]`))
	if n := value[int](b, shown); n != 2 {
		b.t.Errorf("%d runs failed, want 2", n)
	}
	b.do(chromedp.Reload())
	if n := value[int](b, shown); n != 2 {
		b.t.Errorf("the filter is forgotten when the page is loaded again: %d runs", n)
	}
	b.do(chromedp.Evaluate(clear, nil))
	b.eventually(fmt.Sprintf("%s === %d", shown, all))
	for _, c := range []struct {
		control, choice string
		want            int
	}{
		{"rule", "gbn.nak-psn", 1}, {"rule", "", all}, {"text", "SWEEP psn", 10}, {"text", "nothing like it", 0},
		{"text", "", all}, {"connection", "1", 2}, {"connection", "3", 1},
	} {
		if n := value[int](b, pick(c.control, c.choice)); n != c.want {
			b.t.Errorf("%s %q shows %d runs, want %d", c.control, c.choice, n, c.want)
		}
	}
}

// clickThrough follows links from the index to a finding and a packet, and copies the packet's display filter.
func (b *browser) clickThrough() {
	b.do(emulation.SetDeviceMetricsOverride(1000, 900, 1, false))
	b.open("index.html#text=nack-plus-one")
	b.do(chromedp.Click(`#list .found a`), chromedp.WaitVisible(`.finding`))
	b.eventually(`location.pathname.endsWith("runs/nack-plus-one.html") && location.hash === "#f1"`)
	b.do(chromedp.Click(`#f1 tr.accused a`))
	b.eventually(`location.hash.startsWith("#f1-p")`)
	seen := value[bool](b, `(() => {const r = document.querySelector(":target").getBoundingClientRect();
		return r.top >= 0 && r.bottom <= innerHeight;})()`)
	if !seen {
		b.t.Error("the packet is not in view")
	}
	filter := value[string](b, `document.querySelector(":target button[data-copy]").dataset.copy`)
	if !strings.HasPrefix(filter, "eth.src in {00:00:") {
		b.t.Errorf("the packet's display filter is %q", filter)
	}
	b.do(chromedp.Click(`:target button[data-copy]`))
	b.eventually(`document.querySelector(":target button[data-copy]").textContent === "copied"`)
	trace := value[string](b, `[...document.querySelectorAll("#about a")]
		.find((a) => a.textContent === "trace.pcap").href`)
	if _, err := os.Stat(strings.TrimPrefix(trace, "file://")); err != nil {
		b.t.Errorf("the link to the trace leads nowhere: %v", err)
	}
}

// hops follows links from the index to a finding of a switch test and a hop, and copies the hop's display filter.
func (b *browser) hops() {
	b.open("index.html#text=nack-missing")
	b.do(chromedp.Click(`#list .found a`), chromedp.WaitVisible(`.finding figure svg`))
	b.eventually(`location.pathname.endsWith("runs/without-nacks.html") && location.hash === "#f1"`)
	heads := value[string](b, `[...document.querySelectorAll("#f1 figure svg .head")].map((e) => e.textContent).join("|")`)
	if !strings.HasPrefix(heads, "host ") || !strings.HasSuffix(heads, "|switch|host 0") {
		b.t.Errorf("the lanes are %q", heads)
	}
	b.do(chromedp.Click(`#f1 tr.accused a`))
	b.eventually(`location.hash.startsWith("#f1-h")`)
	filter := value[string](b, `document.querySelector(":target button[data-copy]").dataset.copy`)
	if !strings.HasPrefix(filter, "frame.number == ") {
		b.t.Errorf("the hop's display filter is %q", filter)
	}
}

// plots selects another measure and follows the link of a cell to its run.
func (b *browser) plots() {
	b.open("sweeps/1.html")
	if n := value[int](b, `document.querySelectorAll("#map-figure a").length`); n != 10 {
		b.t.Errorf("the heat map has %d cells, want 10", n)
	}
	choose := `{const e = document.getElementById("map-metric");
		e.value = [...e.options].find((o) => o.text === "message completion time, mean").value;
		e.dispatchEvent(new Event("change"));}
		document.querySelector("#map-figure a .cellvalue").textContent`
	if text := value[string](b, choose); !strings.HasSuffix(text, " us") {
		b.t.Errorf("a cell says %q, want a time in us", text)
	}
	texts := value[string](b, `[...document.querySelectorAll("#line-figure .title")].map((e) => e.textContent).join("|")`)
	if !strings.HasSuffix(texts, "|traffic.message-size") {
		b.t.Errorf("titles of the axes: %q", texts)
	}
	b.do(chromedp.Evaluate(`setTimeout(() => document.querySelector("#map-figure a").dispatchEvent(
		new MouseEvent("click", {bubbles: true, cancelable: true}))); 0`, nil))
	b.eventually(`location.pathname.endsWith("runs/sweep-psn-p01.html")`)
}

// accessible checks pages with axe-core, and the colours of some of them in dark mode.
func (b *browser) accessible(pages, dark []string) {
	axe, err := os.ReadFile("../../tools/axe/node_modules/axe-core/axe.min.js")
	if err != nil {
		b.t.Skip("SKIP: no axe-core; tools/setup installs it with npm")
	}
	for _, c := range []struct {
		scheme, options string
		pages           []string
	}{
		{"light", `{resultTypes: ["violations"], preload: false}`, pages},
		{"dark", `{runOnly: ["color-contrast"], preload: false}`, dark},
	} {
		b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: c.scheme}}))
		for _, page := range c.pages {
			b.open(page)
			b.do(chromedp.Evaluate(string(axe), nil))
			var found []string
			b.do(chromedp.Evaluate(`axe.run(document, `+c.options+`).then((r) => r.violations.map((v) => v.id + ": " +
				v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")))`, &found,
				func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
			for _, f := range found {
				b.t.Errorf("%s, %s: %s", page, c.scheme, f)
			}
		}
	}
}

// A sweep over loads has panels by size of flows, which fit and are accessible in light and dark.
func TestPanelsOfASweepFitAndAreAccessible(t *testing.T) {
	b := openBrowser(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := candela(t, "run", "--out", dir, "../../configs/switch-fct.yml"); code != 0 {
		t.Fatalf("%s%s", stdout, stderr)
	}
	b.site = filepath.Join(dir, "switch-fct", "report")
	pages := []string{"sweeps/1.html", "runs/switch-fct-p03.html"}
	b.fits(pages)
	b.open(pages[0])
	if n := value[int](b, `document.querySelectorAll("#flows svg.curves").length`); n != 18 {
		t.Errorf("%d panels, want mean and p99 of FCT and slowdown of all flows and three classes, and two distributions", n)
	}
	b.accessible(pages, pages)
	b.quiet()
}
