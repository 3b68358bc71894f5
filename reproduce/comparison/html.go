package comparison

import (
	"fmt"
	"html"
	"io"
	"strings"
)

const pageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%s</title><style>
body{font:14px/1.4 sans-serif;margin:2em auto;max-width:80em;color:#222}
table{border-collapse:collapse}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
td.n{text-align:right;white-space:nowrap}.PASS{color:#080}.FAIL{color:#b00;font-weight:bold}.info{color:#777}
figure{display:inline-block;width:45em;max-width:100%%;margin:1em .5em 0 0}
</style></head><body>
<h1>%s</h1><p>%s</p>
`

// WriteHTML writes the table and all plots as one page that needs nothing else.
func (r *Results) WriteHTML(w io.Writer) error {
	var b strings.Builder
	title := html.EscapeString(r.Paper)
	fmt.Fprintf(&b, pageHead, title, title, html.EscapeString(r.tally()))
	b.WriteString("<table><tr><th>id<th>what<th>paper<th>measured<th>deviation<th>tolerance<th>verdict<th>note</tr>\n")
	for i := range r.Rows {
		b.WriteString("<tr>")
		for column, cell := range r.Rows[i].cells() {
			class := ""
			switch column {
			case 2, 3, 4, 5:
				class = ` class="n"`
			case 6:
				class = ` class="` + cell + `"`
			}
			fmt.Fprintf(&b, "<td%s>%s</td>", class, html.EscapeString(cell))
		}
		b.WriteString("</tr>\n")
	}
	fmt.Fprintf(&b, "</table>\n<p class=\"info\">%s</p>\n", html.EscapeString(legend))
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
