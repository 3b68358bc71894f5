package orchestrator

import "testing"

func TestFileNamesAreQuotedForTheShell(t *testing.T) {
	for name, want := range map[string]string{
		"runs/a-1.pcap": "runs/a-1.pcap", "": "''", "my file.pcap": "'my file.pcap'", "a;b": "'a;b'", "$(x)": "'$(x)'",
		"it's": `'it'\''s'`, "ä": "'ä'",
	} {
		if got := shellWord(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
