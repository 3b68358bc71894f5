package upstream

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/trace"
)

//go:embed reproducer.c.tmpl
var programText string

var programTemplate = template.Must(template.New(ProgramFile).Parse(programText))

// opcodes are the work requests that the program can post, as libibverbs calls them.
var opcodes = map[generator.Verb]string{
	generator.Write: "IBV_WR_RDMA_WRITE", generator.WriteImm: "IBV_WR_RDMA_WRITE_WITH_IMM",
	generator.Send: "IBV_WR_SEND", generator.SendImm: "IBV_WR_SEND_WITH_IMM", generator.Read: "IBV_WR_RDMA_READ",
	generator.FetchAdd: "IBV_WR_ATOMIC_FETCH_AND_ADD", generator.CompareSwap: "IBV_WR_ATOMIC_CMP_AND_SWP",
}

// program returns a C program that makes the requests of a test, or why none brings the finding about.
func program(t *config.Test, f *report.Finding) (text []byte, why string, err error) {
	if why = unfit(t, f); why != "" {
		return nil, why, nil
	}
	tr := &t.Traffic
	receives := 0
	if consumes(tr.Verbs[0]) {
		receives = tr.RxDepth
	}
	var b bytes.Buffer
	err = programTemplate.Execute(&b, map[string]any{
		"What": comment(f.Summary()), "Rule": f.Rule, "Clause": comment(f.Citation()),
		"Opcode": opcodes[tr.Verbs[0]], "Messages": tr.Messages, "Size": tr.MessageSize, "MTU": tr.MTU,
		"TxDepth": tr.TxDepth, "RxDepth": receives, "Repost": int64(tr.RxRepostDelay / clock.Microsecond),
		"Timeout": tr.AckTimeout, "Retry": tr.RetryCount, "RNRRetry": tr.RNRRetry, "RNRTimer": tr.MinRNRTimer,
		"Answers": !unanswered(t, f), "HopLimit": tr.HopLimit, "TrafficClass": tr.DSCP<<2 | int(tr.ECN),
	})
	return b.Bytes(), "", err
}

// consumes reports whether a verb uses up receives.
func consumes(v generator.Verb) bool {
	switch v {
	case generator.Send, generator.SendImm, generator.SendInvalidate, generator.WriteImm:
		return true
	default:
		return false
	}
}

// comment keeps text inside a comment of C.
func comment(text string) string { return strings.ReplaceAll(text, "*/", "* /") }

// unfit says why the hosts alone do not bring a finding about; empty: they do.
func unfit(t *config.Test, f *report.Finding) string {
	tr := &t.Traffic
	switch {
	case len(tr.ControlEvents) > 0, len(tr.DataEvents) > 0 && !unanswered(t, f):
		return "the switch has to touch packets"
	case tr.Connections != 1:
		return fmt.Sprintf("the test has %d connections", tr.Connections)
	case len(tr.Verbs) != 1 || opcodes[tr.Verbs[0]] == "":
		return "the test mixes verbs or invalidates keys"
	case tr.Bidirectional:
		return "both hosts make requests"
	case tr.StaleRKey:
		return "requests use keys that are no longer valid"
	}
	return ""
}

// unanswered reports whether all that the events of a test do is to drop the first packet of the connection more often
// than the requester may send it: for the requester that is a peer that does not answer.
func unanswered(t *config.Test, f *report.Finding) bool {
	tr := &t.Traffic
	if f.Role != "requester" || len(tr.DataEvents) == 0 || len(tr.ControlEvents) > 0 {
		return false
	}
	rounds := map[uint16]bool{}
	for i := range tr.DataEvents {
		e := &tr.DataEvents[i]
		if e.Type != trace.EventDrop || e.QPN != 1 || e.PSN != 1 || e.From != config.Requester {
			return false
		}
		rounds[e.Iter] = true
	}
	if rounds[0] { // any
		return true
	}
	for iter := range uint16(tr.RetryCount) + 1 {
		if !rounds[iter+1] {
			return false
		}
	}
	return true
}
