package report

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
)

// sixtyFour is a run in which 64 queue pairs have one bug, and two of them a second one.
func sixtyFour() *Report {
	r := &Report{Name: "many queue pairs", Verdict: analyzers.Fail, Packets: 6400, PacketIDs: "mirror"}
	add := func(c int, rule, cause, headline, message string) {
		f := Finding{Around: []string{fmt.Sprintf("#%d nak psn 6", c)}}
		f.Analyzer, f.Rule, f.Cause, f.Headline, f.Message = "gbn", rule, cause, headline, message
		f.Severity, f.Connection, f.Packets, f.TimeNS = analyzers.Violation, c, []uint64{uint64(c)}, int64(c)*1000
		f.Expected, f.Actual = "data psn 6", "nothing"
		r.Findings = append(r.Findings, f)
	}
	for c := 1; c <= 64; c++ {
		add(c, "gbn.nak-unanswered", "never-retransmitted",
			fmt.Sprintf("Requester of qpn %d never retransmitted psn 6 after the NAK at 2.4 us.", c), "A NAK is answered.")
		if c > 62 {
			add(c, "gbn.msn", "wrong-count", fmt.Sprintf("Responder of qpn %d counted 1 message.", c), "The MSN counts.")
		}
	}
	return r
}

func TestOneBugOnSixtyFourQueuePairsFitsAPage(t *testing.T) {
	var text strings.Builder
	if err := Text(&text, sixtyFour(), TextOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	out := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"FAIL 64 connections; first: Requester of qpn 1 never retransmitted psn 6 after the NAK at 2.4 us. rule",
		"rule gbn.nak-unanswered: A NAK is answered.",
		"around #1 nak psn 6",
		"FAIL 2 connections; first: Responder of qpn 63 counted 1 message.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if n := strings.Count(text.String(), "\n"); n > 40 {
		t.Errorf("%d lines:\n%s", n, text.String())
	}
	var all strings.Builder
	if err := Text(&all, sixtyFour(), TextOptions{Width: 80, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(all.String(), "FAIL Requester of qpn "); n != 64 {
		t.Errorf("verbose lists %d of 64 findings", n)
	}
}

func TestTheOthersOfAGroupAreOnThePageAndInJUnitOnce(t *testing.T) {
	var page, junit strings.Builder
	if err := HTML(&page, sixtyFour()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), `<article class="finding"`); n != 2 {
		t.Errorf("%d articles, want 2", n)
	}
	for _, c := range []int{1, 2, 64} {
		if want := fmt.Sprintf("Requester of qpn %d never", c); !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := JUnit(&junit, []*Report{sixtyFour()}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(junit.String(), "<failure"); n != 3 { // the verdict has one, too
		t.Errorf("%d failures in JUnit, want 3", n)
	}
	if want := `message="64 connections; first: Requester of qpn 1 never`; !strings.Contains(junit.String(), want) {
		t.Errorf("JUnit lacks %s", want)
	}
}
