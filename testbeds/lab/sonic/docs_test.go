package sonic_test

import (
	"os"
	"strings"
	"testing"

	"candela.dev/candela/testbeds/lab/sonic"
)

func TestTheExamplesOfTheDocumentationAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guide/sonic.md")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for block := range strings.SplitSeq(string(page), "\n\n") {
		if !strings.HasPrefix(block, "    {\n") {
			continue
		}
		if _, err := sonic.ParseDocument([]byte(block)); err != nil {
			t.Errorf("%v in:\n%s", err, block)
		}
		read++
	}
	if read != 2 {
		t.Errorf("%d examples, want 2", read)
	}
}
