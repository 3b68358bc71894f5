package netchain

import (
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) { causetest.Table(t, Rules(), Causes()) }
