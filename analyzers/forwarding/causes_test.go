package forwarding_test

import (
	"os"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/forwarding"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(forwarding.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, forwarding.Rules(), forwarding.Causes())
}
