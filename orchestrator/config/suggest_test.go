package config

import (
	"slices"
	"strings"
	"testing"
)

func TestAnUnknownNameOfManyIsAnsweredWithAll(t *testing.T) {
	names := strings.Fields(strings.Repeat("no-nack ack-goes-back timer-never-off ", 20))
	for i := range names {
		names[i] += strings.Repeat("x", i/3) // makes all names different
	}
	said := NoSuch("seeded bug", "nope", names).Error()
	lines := strings.Split(said, "\n")
	if lines[0] != `there is no seeded bug "nope"` || len(lines) != 2 || !strings.HasPrefix(lines[1], "  ") {
		t.Errorf("said in %d lines: %s", len(lines), said) // the caller wraps the second line
	}
	words := strings.FieldsFunc(said, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
	for _, name := range names {
		if !slices.Contains(words, name) {
			t.Errorf("%s is not named: %s", name, said)
		}
	}
	if got := NoSuch("seeded bug", "no-nak",
		names).Error(); got != `there is no seeded bug "no-nak" (did you mean "no-nack"?)` {
		t.Error(got)
	}
}

func TestGuessesAreMadeForSlipsOnly(t *testing.T) {
	keys := []string{"mtu", "message-size", "min-retransmit-timeout", "max-retransmit-retry", "rnr-retry",
		"dcqcn-rp-enable"}
	for got, want := range map[string]string{
		"mtuu": "mtu", "tmu": "mtu", "MTU": "mtu", "message_size": "message-size", "Message Size": "message-size",
		"mesage-size": "message-size",
		"timeout":     "min-retransmit-timeout", "retry": "", "x": "", "": "", "dcqcn-np-enable": "dcqcn-rp-enable",
		"size-of-messages": "",
	} {
		if want != "" {
			want = " (did you mean \"" + want + "\"?)"
		}
		if guess := didYouMean(got, keys); guess != want {
			t.Errorf("%q: guessed %q, want %q", got, guess, want)
		}
	}
}

func TestEditDistanceCountsSlips(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "axc", 1},
		{"kitten", "sitting", 3}} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := editDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
