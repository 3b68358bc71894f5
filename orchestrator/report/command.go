package report

import (
	"strings"
	"unicode/utf8"
)

// ShellWord formats s as one word of a command line, quoted if a shell requires it.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:,=@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

const commandIndent = 7 // "next   "

// command writes a command that can be copied: a line that does not end the command ends in a backslash.
func (p *printer) command(label cell, command string) {
	p.styled(label.text, label.style)
	p.spaces(commandIndent - utf8.RuneCountInString(label.text))
	at := commandIndent
	words := shellWords(oneLine(command))
	for i, word := range words {
		n := utf8.RuneCountInString(word)
		room := p.width - at
		if i < len(words)-1 {
			room -= 2 // a backslash may follow
		}
		switch {
		case i == 0:
		case n+1 > room && at > commandIndent:
			p.styled(" \\", plain)
			p.newline()
			p.spaces(commandIndent + 2)
			at = commandIndent + 2
		default:
			p.spaces(1)
			at++
		}
		p.styled(word, plain)
		at += n
	}
	p.newline()
}

// shellWords splits a command line at the spaces outside quotes.
func shellWords(command string) []string {
	var words []string
	quoted, start := false, 0
	for i, c := range command {
		switch {
		case c == '\'':
			quoted = !quoted
		case c == ' ' && !quoted:
			words = append(words, command[start:i])
			start = i + 1
		}
	}
	return append(words, command[start:])
}
