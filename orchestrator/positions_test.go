package orchestrator_test

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

// TestEveryPositionIsRecoveredAcrossTheWrap loses each data packet of two ten-packet messages: once, twice, and with
// the first NAK or ACK that follows. PSNs wrap within the first message.
func TestEveryPositionIsRecoveredAcrossTheWrap(t *testing.T) {
	const packets = 20
	for _, verb := range []string{"write", "send", "read"} {
		for _, also := range []struct{ name, data, control string }{
			{name: "once"},
			{name: "twice", data: "    - {qpn: 1, psn: %[1]d, iter: 2, type: drop}\n"},
			{name: "with the next", data: "    - {qpn: 1, psn: %[2]d, iter: 1, type: drop}\n"},
			{name: "with the first NAK", control: "    - {qpn: 1, packet: nak, nth: 1, type: drop}\n"},
			{name: "with the first ACK", control: "    - {qpn: 1, packet: ack, nth: 1, type: drop}\n"},
		} {
			if verb == "read" && also.control != "" {
				continue // READ has neither: a repeated request replaces the NAK
			}
			t.Run(verb+" "+also.name, func(t *testing.T) {
				t.Parallel()
				for psn := 1; psn <= packets; psn++ {
					if strings.Contains(also.data, "[2]") && psn == packets {
						continue
					}
					text := positionTest(verb, psn, also.data, also.control)
					if problem := notRecovered(runScenario(t, text, 0), also.control == ""); problem != "" {
						t.Fatalf("psn %d: %s\n%s", psn, problem, text)
					}
				}
			})
		}
	}
}

func positionTest(verb string, psn int, data, control string) string {
	text := fmt.Sprintf(`name: position
traffic:
  rdma-verb: %s
  num-msgs-per-qp: 2
  message-size: 10240
  mtu: 1024
  min-retransmit-timeout: 8
  initial-psn: {requester: 16777210, responder: 16777212}
  data-pkt-events:
    - {qpn: 1, psn: %d, iter: 1, type: drop}
`, verb, psn)
	if data != "" {
		text += strings.NewReplacer("%[1]d", fmt.Sprint(psn), "%[2]d", fmt.Sprint(psn+1)).Replace(data)
	}
	if control != "" {
		text += "  control-pkt-events:\n" + control
	}
	return text
}

// notRecovered returns a problem that contradicts a complete recovery. If a control packet is lost, too, the data event
// may hit no packet: after a lost ACK the second message starts in round 2.
func notRecovered(o *orchestrator.Outcome, mustFire bool) string {
	if problem := blamed(o); problem != "" {
		return problem
	}
	if mustFire && o.Report.Events[0].Hits != 1 {
		return fmt.Sprintf("the first event fired %d times", o.Report.Events[0].Hits)
	}
	for _, c := range o.Report.Connections {
		if !c.OK {
			return c.Outcome
		}
	}
	return ""
}
