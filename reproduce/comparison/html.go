package comparison

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

const pageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title><style>
:root{color-scheme:light dark;--ground:#fff;--line:#dcdcd6;--text:#1c1d1f;--pale:#6b6e75;--good:#1a7a3c;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--ground:#16181b;--line:#34383e;--text:#e4e5e7;
--pale:#9a9fa8;--good:#4cc27a;--bad:#f2726a}}
body{font:14px/1.45 system-ui,"Segoe UI","Liberation Sans",sans-serif;margin:2em auto;max-width:100em;padding:0 1.5em;
background:var(--ground);color:var(--text)}
h1{font-size:22px;font-weight:600}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%%}td,th{padding:.25em .7em .25em 0;border-bottom:1px solid var(--line);
text-align:left;vertical-align:top}th{font-weight:500;color:var(--pale)}th.n,td.n{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}
td.id{white-space:nowrap}td.what{min-width:18em}td.note{min-width:12em;color:var(--pale)}
.PASS{color:var(--good)}.FAIL{color:var(--bad);font-weight:bold}.info{color:var(--pale)}
figure{display:inline-block;width:40em;max-width:100%%;margin:1em .5em 0 0;background:#fff}
figcaption{background:var(--ground)}
</style></head><body>
<h1>%s</h1><p>%s</p>
`

// WriteHTML writes the table and all plots as one self-contained page.
func (r *Results) WriteHTML(w io.Writer) error {
	var b strings.Builder
	title := html.EscapeString(r.Paper)
	fmt.Fprintf(&b, pageHead, title, title, html.EscapeString(r.Headline()))
	noted := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.cells().note != "" })
	b.WriteString("<div class=\"scroll\"><table><tr><th>id<th>what<th class=\"n\">paper<th class=\"n\">measured<th " +
		"class=\"n\">deviation<th class=\"n\">tolerance<th>verdict<th>basis")
	if noted {
		b.WriteString("<th>note")
	}
	b.WriteString("<th>reason for the basis</tr>\n")
	for i := range r.Rows {
		b.WriteString("<tr>")
		c := r.Rows[i].cells()
		fmt.Fprintf(&b, "<td class=\"id\">%s<td class=\"what\">%s", html.EscapeString(c.id),
			html.EscapeString(r.Rows[i].described()))
		for _, figure := range []string{c.paper, c.measured, c.deviation, c.tolerance} {
			fmt.Fprintf(&b, "<td class=\"n\">%s", html.EscapeString(figure))
		}
		fmt.Fprintf(&b, "<td class=\"%s\">%s<td>%s", c.verdict, c.verdict, html.EscapeString(string(c.basis)))
		if noted {
			fmt.Fprintf(&b, "<td class=\"note\">%s", html.EscapeString(c.note))
		}
		fmt.Fprintf(&b, "<td class=\"note\">%s", html.EscapeString(c.why))
		b.WriteString("</tr>\n")
	}
	fmt.Fprintf(&b, "</table></div>\n<p class=\"info\">%s</p>\n", html.EscapeString(r.legend()))
	for i := range r.Plots {
		b.WriteString("<figure>\n")
		if err := r.Plots[i].WriteSVG(&b); err != nil {
			return err
		}
		fmt.Fprintf(&b, "<figcaption class=\"info\">%s.svg</figcaption></figure>\n", html.EscapeString(r.Plots[i].Name))
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
