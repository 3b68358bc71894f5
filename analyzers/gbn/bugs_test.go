package gbn_test

import (
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
)

// seeded lists the rule, or several of which one must catch a bug.
var seeded = map[bug]string{
	bugNakNext:         "gbn.nak-psn",
	bugNakPrevious:     "gbn.nak-psn",
	bugNakTwice:        "gbn.nak-repeat",
	bugNakNever:        "gbn.nak-missing",
	bugNakDuplicate:    "gbn.nak-duplicate",
	bugAckLost:         "gbn.ack-beyond",
	bugAckOld:          "gbn.ack-decreasing",
	bugAckNever:        "gbn.ack-missing",
	bugMSNStuck:        "gbn.msn",
	bugMSNEager:        "gbn.msn",
	bugReadShort:       "gbn.read-length",
	bugReadSkip:        "gbn.read-order",
	bugReadOpcode:      "gbn.read-opcode",
	bugRestartNext:     "gbn.retransmit-first",
	bugRestartEarlier:  "gbn.retransmit-first gbn.resend-acknowledged gbn.timeout-start",
	bugSelective:       "gbn.round-gap",
	bugSkipPSN:         "gbn.psn-skip",
	bugIgnoreNak:       "gbn.nak-unanswered",
	bugChangeLength:    "gbn.retransmit-changed",
	bugReadRestartOld:  "gbn.read-restart",
	bugEarlyTimeout:    "gbn.timeout-early",
	bugWrongPad:        "gbn.pad-count",
	bugWrongMiddleSize: "gbn.payload-length",
}

func TestSeededBugsAreCaughtByTheirRule(t *testing.T) {
	for b, rule := range seeded {
		t.Run(string(b), func(t *testing.T) {
			shown, caught := 0, 0
			for seed := uint64(1); seed <= 60; seed++ {
				cfg := simConfig{
					seed: seed, messages: 6, maxPSNs: 12, verbs: verbsFor(b), delayNS: 1000, lossPct: 12, losses: 12,
					timeoutNS: 1_000_000, window: 40, ipsn: 0xfffff0, bug: b,
				}
				s := simulate(cfg)
				if !s.fired {
					continue
				}
				shown++
				found := rules(analyse(t, views(t, s)["mirror"], cfg.known(true)))
				if slices.ContainsFunc(found, func(r string) bool { return strings.Contains(rule, "gbn."+r) }) {
					caught++
				} else if len(found) == 0 {
					t.Logf("seed %d: silent", seed)
				} else {
					t.Logf("seed %d: %v", seed, found)
				}
			}
			if shown < 5 || caught*10 < shown*8 {
				t.Errorf("%s fired in %d runs and was caught by %s in %d", b, shown, rule, caught)
			}
		})
	}
}

func verbsFor(b bug) []packet.Verb {
	switch b {
	case bugReadShort, bugReadSkip, bugReadOpcode, bugReadRestartOld:
		return []packet.Verb{packet.VerbRead}
	}
	return []packet.Verb{packet.VerbWrite, packet.VerbSend}
}

func TestTheLinuxReadReplayIsAWarningOnly(t *testing.T) {
	replays := 0
	for seed := uint64(1); seed <= 100; seed++ {
		cfg := simConfig{
			seed: seed, messages: 4, maxPSNs: 10, verbs: allVerbs, delayNS: 1000, lossPct: 10, losses: 4, timeoutNS: 1_000_000,
			window: 40, kernel: true,
		}
		s := simulate(cfg)
		for view, c := range views(t, s) {
			for _, f := range blamed(view, analyse(t, c, cfg.known(true)).Findings) {
				if f.Rule != string(gbn.RuleReplayOpcode) {
					t.Fatalf("%s: %v\n%s", view, cfg, dump(analyse(t, c, cfg.known(true)).Findings))
				}
				replays++
			}
		}
	}
	if replays < 20 {
		t.Errorf("%d replays only", replays)
	}
}
