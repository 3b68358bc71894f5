package plan_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
)

// firstTests spell one test in several ways: a READ of 64 KB on 4 connections loses responses 3 and 7 and the
// retransmission of 3, and every tenth response is marked.
var firstTests = map[string]string{
	"block": `name: x
traffic:
  num-connections: 4
  rdma-verb: read
  message-size: 64KB
  data-pkt-events:
    - {qpn: 1..4, psn: [3, 7], type: drop}
    - {qpn: 1..4, psn: 3, iter: 2, type: drop}
    - {qpn: 1..4, every: 10, type: ecn}
`,
	"flow": `name: x
traffic: {num-connections: 4, rdma-verb: read, message-size: 64KB, data-pkt-events: [{qpn: 1..last, psn: 3, iter: 1..2,
  type: drop}, {qpn: 1..last, psn: 7, type: drop}, {qpn: 1..last, every: 10, type: ecn}]}
`,
	"default scope after a comment": `name: x
traffic:
    # four readers
    num-connections: 4
    rdma-verb: read
    message-size: 65536
    data-pkt-events:
      - {qpn: [1, 2, 3, 4], psn: 3, iter: [1, 2], type: drop}
      - {qpn: [1, 2, 3, 4], psn: 7, type: drop}
      - {qpn: [1, 2, 3, 4], psn: [10, 20, 30, 40, 50, 60], type: ecn}
`,
	"windows": "name: x\r\ntraffic:\r\n  rdma-verb: read\r\n  message-size: 64KB\r\n  data-pkt-events:\r\n" +
		"    - {qpn: 1, psn: [3, 7], type: drop}\r\n",
}

func refusal(t *testing.T, text string) error {
	t.Helper()
	test, err := config.Parse("f.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	return plan.RefuseAmbiguous([]*plan.Plan{p}, []byte(text))
}

var correctedLine = regexp.MustCompile(`(?m)^ +([0-9]+) ([+ ]) (.*)$`)

// correct applies the lines of an error to the text, as a user would.
func correct(t *testing.T, text string, err error) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	for _, m := range correctedLine.FindAllStringSubmatch(err.Error(), -1) {
		n, _ := strconv.Atoi(m[1])
		switch {
		case m[2] == "+" && strings.Contains(m[3], "{"):
			lines[n-1] = m[3]
		case m[2] == "+":
			lines = append(lines[:n-1], append([]string{m[3]}, lines[n-1:]...)...)
		case strings.TrimRight(lines[n-1], "\r") != m[3]:
			t.Errorf("line %d is %q, and the error shows %q", n, lines[n-1], m[3])
		}
	}
	return strings.Join(lines, "\n")
}

func TestATestWithAnAmbiguousITERIsRefusedAndTheLinesPrintedCorrectIt(t *testing.T) {
	for name, text := range firstTests {
		t.Run(name, func(t *testing.T) {
			err := refusal(t, text)
			if !errors.Is(err, config.ErrInvalid) {
				t.Fatalf("got %v, want a refusal", err)
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "f.yml:") {
					t.Errorf("a problem does not begin with its place: %s", line)
				}
			}
			corrected := correct(t, text, err)
			if !strings.Contains(corrected, "iter-scope: packet") {
				t.Fatalf("the error shows no correction:\n%v", err)
			}
			if err := refusal(t, corrected); err != nil {
				t.Errorf("the corrected test is refused, too: %v\n%s", err, corrected)
			}
		})
	}
}

func TestATestThatSaysWhatIterCountsIsNotRefused(t *testing.T) {
	for _, scope := range []string{"connection", "message", "packet"} {
		text := strings.Replace(firstTests["block"], "traffic:\n", "traffic:\n  iter-scope: "+scope+"\n", 1)
		if err := refusal(t, text); err != nil {
			t.Errorf("iter-scope %s: %v", scope, err)
		}
	}
	clear := "name: x\ntraffic: {data-pkt-events: [{qpn: 1, psn: 5, type: drop}, {qpn: 1, psn: 5, iter: 2, type: drop}]}"
	if err := refusal(t, clear); err != nil {
		t.Errorf("a test without ambiguity: %v", err)
	}
}

func TestAnAliasIsNotCorrectedInItsPlace(t *testing.T) {
	text := "name: x\ntraffic: &t {message-size: 64KB, data-pkt-events: [{qpn: 1, psn: [3, 7], type: drop}]}\n"
	if err := refusal(t, text); err == nil || !strings.Contains(err.Error(), "\n  traffic.iter-scope: packet") {
		t.Errorf("got %v, want the path of the key", err)
	}
}
