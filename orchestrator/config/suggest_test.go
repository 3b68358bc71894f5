package config

import "testing"

func TestGuessesAreMadeForSlipsOnly(t *testing.T) {
	keys := []string{"mtu", "message-size", "min-retransmit-timeout", "max-retransmit-retry", "rnr-retry", "dcqcn-rp-enable"}
	for got, want := range map[string]string{
		"mtuu": "mtu", "tmu": "mtu", "MTU": "mtu", "message_size": "message-size", "Message Size": "message-size", "mesage-size": "message-size",
		"timeout": "min-retransmit-timeout", "retry": "", "x": "", "": "", "dcqcn-np-enable": "dcqcn-rp-enable", "size-of-messages": "",
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
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "axc", 1}, {"kitten", "sitting", 3}} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := editDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
