package rp_test

import (
	"os"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/rp"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(rp.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, rp.Rules(), rp.Causes())
}
