package conformance_test

import (
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator/conformance"
	"candela.dev/candela/runtimetest"
)

// caughtBy says which rule of the suite each seeded bug breaks.
var caughtBy = map[string]string{
	"retransmit-skips-first":       "retransmit-from-nak",
	"timeout-skips-first":          "timeout-start",
	"restarts-message":             "implied-nak-read",
	"selective-repeat":             "retransmit-consecutive",
	"nack-taken-for-ack":           "nak-reaction-latency",
	"ack-ignored":                  "credits-accepted",
	"rate-cut-when-off":            "rate-off",
	"sends-last-twice":             "timeout-not-early",
	"read-asked-again-whole":       "implied-nak-read",
	"read-asked-again-address":     "read-restart",
	"read-asked-again-length":      "read-restart",
	"implied-nak-ignored":          "implied-nak-read",
	"early-timeout":                "timeout-not-early",
	"invalidate-ignored":           "invalidate-revokes",
	"invalidate-lost":              "retransmit-invalidate",
	"bad-response-accepted":        "bad-response",
	"atomic-executed-again":        "duplicate-atomic-result",
	"atomic-replays-latest":        "duplicate-atomics-results",
	"late-timeout":                 "timeout-not-late",
	"timer-never-off":              "timeout-off",
	"retries-too-often":            "retry-count",
	"gives-up-early":               "retry-exhausted-error",
	"slow-reaction":                "nak-reaction-latency",
	"rnr-no-wait":                  "rnr-timer",
	"rnr-retries-too-often":        "rnr-retry-count",
	"rnr-resends-one":              "rnr-restart",
	"psn-skip":                     "timeout-not-early",
	"wrap-skips-zero":              "psn-wrap",
	"mig-req-changes":              "mig-req-constant",
	"version-set":                  "bth-version",
	"reserved-set":                 "bth-reserved",
	"immediate-changes":            "retransmit-immediate-value",
	"operand-changes":              "retransmit-operands",
	"atomic-misaligned":            "atomic-alignment",
	"fecn-set":                     "marks-not-set",
	"ack-payload":                  "acknowledge-empty",
	"undefined-opcode":             "opcode-defined",
	"payload-changes":              "retransmit-payload",
	"atomic-lost":                  "atomic-result",
	"ack-solicited":                "response-flags",
	"ack-asks-ack":                 "response-flags",
	"ecn-cleared":                  "retransmit-ecn",
	"ack-forgotten":                "acknowledge-unprompted",
	"last-as-middle":               "opcode-sequence-send",
	"immediate-lost":               "retransmit-immediate",
	"short-payload":                "payload-full-mtu",
	"wrong-dma-length":             "dma-length",
	"pad-missing":                  "pad-count",
	"nack-psn-plus-one":            "nak-psn",
	"nack-psn-minus-one":           "nak-psn",
	"no-nack":                      "nak-sequence",
	"double-nack":                  "nak-once",
	"nack-each":                    "nak-once",
	"nack-unprovoked":              "no-nak-in-order",
	"nack-bad-icrc":                "icrc-bad-request",
	"nack-duplicates":              "duplicate-no-nak",
	"nack-fatal-on-gap":            "nak-latency",
	"nack-access-on-duplicate":     "duplicate-no-nak",
	"slow-nack":                    "nak-latency",
	"rnr-names-next":               "rnr-nak",
	"rnr-for-duplicates":           "duplicate-no-rnr",
	"ack-beyond":                   "ack-not-beyond-gap",
	"ack-psn-plus-one":             "ack-not-beyond",
	"ack-goes-back":                "ack-cumulative",
	"never-acknowledges":           "ack-requested",
	"duplicates-ignored":           "duplicate-reack",
	"gap-accepted":                 "nak-sequence-read",
	"wrap-takes-gap-for-duplicate": "nak-psn-wrap",
	"msn-stuck":                    "ack-coalesced-msn",
	"msn-counts-duplicates":        "msn-duplicates",
	"msn-not-coalesced":            "ack-coalesced-msn",
	"reserved-syndrome":            "syndrome-defined",
	"accept-bad-icrc":              "icrc-bad-request",
	"drops-padded":                 "icrc-padded",
	"read-last-missing":            "response-order",
	"read-skips-one":               "read-response-psn",
	"read-opcode":                  "read-response-opcodes",
	"read-short":                   "read-response-length",
	"read-syndrome":                "syndrome-read",
	"read-repeat-ignored":          "duplicate-read",
	"read-replay-from-start":       "duplicate-read-opcodes",
	"read-replay-continues":        "duplicate-read-opcodes",
	"read-replay-forgets-message":  "duplicate-read-in-message",
	"atomic-twice":                 "atomic-answered",
	"atomic-repeat-ignored":        "duplicate-atomic",
	"cnp-unprovoked":               "cnp-unprovoked",
	"cnp-never":                    "cnp-sent",
	"cnp-unpaced":                  "cnp-interval",
	"cnp-too-few":                  "cnp-sent-read",
	"cnp-per-port":                 "cnp-scope",
	"cnp-wrong-qp":                 "cnp-destination-qp",
	"cnp-when-off":                 "cnp-off",
	"cnp-for-loss":                 "cnp-not-for-loss",
	"cnp-no-becn":                  "cnp-format",
	"cnp-no-payload":               "cnp-format",
	"rate-never-cut":               "rate-cut",
	"rate-never-recovers":          "rate-recovery",
	"rate-cut-unasked":             "rate-unprovoked",
	"stuck-icrc":                   "icrc-bad-request-counted",
	"accepts-foreign-rkey":         "access-nak-write",
	"drops-foreign-rkey":           "access-nak-write",
	"access-error-as-invalid":      "access-nak-write",
	"accepts-opcode-sequence":      "invalid-opcode-nak",
	"accepts-dma-length":           "invalid-length-nak",
	"ignores-pkey":                 "partition-checked",
	"p-key-changes":                "partition-checked",
	"answers-after-nak":            "nak-ends-responder",
	"fatal-nak-ignored":            "nak-ends-requester",
	"fatal-nak-retried":            "nak-ends-requester",
	"fatal-nak-wrong-status":       "access-error-status",
	"solicited-everywhere":         "solicited-place",
	"credits-refused":              "credits-accepted",
	"rkey-forgotten":               "retransmit-immediate",
	"nack-restarts-neighbour":      "neighbours-unaffected",
	"drops-marked":                 "icrc-ignores-ecn",
}

// outsideIn are bugs outside the specification: counters are not in packets. The suite reports them in the test of the
// given rule, as violations outside its catalogue.
var outsideIn = map[string]string{
	"stuck-packet-seq-err":    "nak-sequence",
	"stuck-implied-nak":       "implied-nak-read",
	"stuck-cnp-sent":          "cnp-sent",
	"stuck-duplicate-request": "duplicate-reack",
	"stuck-ecn-marked":        "cnp-sent",
	"stuck-rnr-received":      "rnr-timer",
	"double-out-of-sequence":  "nak-sequence",
	"double-cnp-handled":      "rate-cut",
	"double-out-of-buffer":    "rnr-timer",
	"timeout-counted-as-nak":  "timeout-lost-tail",
	"rx-packets-without-bad":  "icrc-bad-request",
	"tx-packets-without-cnps": "cnp-sent",
	// everything-completes and destination-qp say so where all rules are judged
	"ack-wrong-qp":      "neighbours-unaffected",
	"wrap-acks-ignored": "psn-wrap",
	"rnr-timer-short":   "rnr-timer", // gbn.rnr-timer has no rule in the catalogue yet
}

// notStimulated are bugs that need situations that no test of the suite makes; configs/detect has a test of each.
var notStimulated = []string{
	"stale-nack-obeyed", // a NAK that arrives late
	"error-spreads",     // one of several connections that fails

	// the suite sets neither
	"source-port-ignored", "flow-label-ignored",

	"ack-dscp", // the suite sends with DSCP 0
	"cnp-dscp", // the DSCP of CNPs is a setting of the NIC that the suite does not know
}

// noMatterOfTheSuite reports whether a bug concerns packet trimming, which is not in the specification.
func noMatterOfTheSuite(bug string) bool { return strings.HasPrefix(bug, "trim-") }

func TestEverySeededBugFailsTheSuite(t *testing.T) {
	for i, bug := range rdma.Catalogue() {
		id, normative := caughtBy[bug.Name]
		if !normative {
			id = outsideIn[bug.Name]
		}
		switch {
		case noMatterOfTheSuite(bug.Name), slices.Contains(notStimulated, bug.Name):
			continue
		case id == "":
			t.Errorf("%s: nobody says which rule of the suite it breaks, or why none", bug.Name)
			continue
		case !runtimetest.Sampled(i):
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			rules := []conformance.Rule{rule(t, id)}
			r := judgeRules(t, newSuite(t, "spec", bug.Name), rules)
			if failed := slices.Contains(withStatus(r, conformance.Fail), id); failed != normative {
				t.Errorf("%s fails: %v, want %v", id, failed, normative)
			}
			if r.OK() {
				t.Error("the suite finds nothing")
			}
		})
	}
}
