package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes s safe to print on a terminal and in XML: control characters, invalid UTF-8 and characters that change
// the direction of writing become visible escapes. Names and messages may come from an untrusted trace or bundle, and
// an escape sequence in one of them must not overwrite the verdict.
func clean(s string) string {
	if !strings.ContainsFunc(s, suspect) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		switch {
		case c == utf8.RuneError && size <= 1:
			writeEscape(&b, 'x', uint32(s[0]), 2)
		case !suspect(c):
			b.WriteRune(c)
		case c < utf8.RuneSelf:
			writeEscape(&b, 'x', uint32(c), 2)
		case c <= 0xffff:
			writeEscape(&b, 'u', uint32(c), 4)
		default:
			writeEscape(&b, 'U', uint32(c), 8)
		}
		s = s[size:]
	}
	return b.String()
}

func writeEscape(b *strings.Builder, kind byte, c uint32, digits int) {
	const hex = "0123456789abcdef"
	b.WriteByte('\\')
	b.WriteByte(kind)
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b.WriteByte(hex[c>>shift&0xf])
	}
}

// suspect reports characters that move the cursor, hide or reorder text, or that XML 1.0 cannot represent.
func suspect(c rune) bool {
	switch {
	case unicode.IsControl(c), unicode.In(c, unicode.Bidi_Control, unicode.Cf, unicode.Zl, unicode.Zp):
		return true
	case c == 0xfffe, c == 0xffff:
		return true
	}
	return false
}

// cleanLines splits a multi-line text, such as a joined error, into clean lines and drops empty ones.
func cleanLines(s string) []string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimRight(strings.ReplaceAll(line, "\t", "  "), " \r"); line != "" {
			lines = append(lines, clean(line))
		}
	}
	return lines
}

// oneLine joins the lines of a text with "; ".
func oneLine(s string) string { return strings.Join(cleanLines(s), "; ") }

// OneLine formats any s as one line without control characters.
func OneLine(s string) string { return oneLine(s) }
