package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

func waiver(rule, model, expires string) string {
	return "waivers:\n  - {rule: " + rule + ", dut: {model: " + model + "}, owner: lab, reference: FW-1234, expires: " +
		expires + "}\n"
}

func TestAWaivedViolationIsReportedAndDoesNotFail(t *testing.T) {
	broken := writeTest(t, "name: broken\nresponder: {nic: {bugs: [double-nack]}}\n"+
		"traffic: {message-size: 10240, data-pkt-events: [{qpn: 1, psn: 5, type: drop}]}\n")
	for _, tt := range []struct {
		name, waivers string
		status        orchestrator.Exit
		stdout        string
		stderr        string
	}{
		{"waived", waiver("gbn.nak-repeat", "spec", "2999-12-31"), orchestrator.ExitPass,
			"waived: FW-1234, lab, until 2999-12-31", ""},
		{"expired", waiver("gbn.nak-repeat", "spec", "2020-01-01"), orchestrator.ExitFail, "gbn.nak-repeat",
			"expired on 2020-01-01"},
		{"of another device", waiver("gbn.nak-repeat", "cx9", "2999-12-31"), orchestrator.ExitFail, "gbn.nak-repeat",
			"excused nothing"},
		{"of another rule", waiver("gbn.nak-missing", "spec", "2999-12-31"), orchestrator.ExitFail, "gbn.nak-repeat",
			"excused nothing"},
		{"of no rule", waiver("gbn.nak-repaet", "spec", "2999-12-31"), orchestrator.ExitUsage, "",
			`there is no rule "gbn.nak-repaet" (did you mean "gbn.nak-repeat"?)`},
		{"never", waiver("gbn.nak-repeat", "spec", "2999-02-31"), orchestrator.ExitUsage, "", "is not a date"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file, junit := filepath.Join(dir, "waivers.yml"), filepath.Join(dir, "junit.xml")
			if err := os.WriteFile(file, []byte(tt.waivers), 0o644); err != nil {
				t.Fatal(err)
			}
			status, stdout, stderr := candela(t, "run", broken, "--out", dir, "--waivers", file, "--junit", junit)
			stdout = strings.Join(strings.Fields(stdout), " ") // independent of line breaks
			if status != tt.status || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) ||
				tt.stderr == "" && stderr != "" {
				t.Fatalf("exit status %d, want %d\n%s\n%s", status, tt.status, stdout, stderr)
			}
			if tt.name != "waived" {
				return
			}
			data, err := os.ReadFile(junit)
			if err != nil || !strings.Contains(string(data), "<skipped") {
				t.Errorf("junit.xml has no skipped test (%v):\n%s", err, data)
			}
			if status, stdout, _ := candela(t, "analyze", filepath.Join(dir, "broken"), "--waivers",
				file); status != orchestrator.ExitPass {
				t.Errorf("analyze: exit status %d\n%s", status, stdout)
			}
		})
	}
}

func TestAWaivedViolationOfASwitchIsReportedAndDoesNotFail(t *testing.T) {
	broken := writeTest(t, "name: broken\ntopology: {kind: single-switch, hosts: 4}\n"+
		"switch-under-test: {model: sai, bugs: [wrong-dscp], trim-size: 256, trim-dscp: 48, trim-queue: 5, "+
		"profiles: [{action: trim, queues: [0], limit-bytes: 20000}]}\n"+
		"hosts: {transport: raw}\nworkload: [{incast: {senders: 2, packets: 50}}]\n")
	for _, tt := range []struct {
		name, waivers  string
		status         orchestrator.Exit
		stdout, stderr string
	}{
		{"waived by the switch's model", waiver("sai.dscp", "sai", "2999-12-31"), orchestrator.ExitPass,
			"waived: FW-1234, lab, until 2999-12-31", ""},
		{"of the hosts' transport, which the rule is not about", waiver("sai.dscp", "raw", "2999-12-31"),
			orchestrator.ExitFail, "sai.dscp",
			"excused nothing"},
		{"expired", waiver("sai.dscp", "sai", "2020-01-01"), orchestrator.ExitFail, "sai.dscp", "expired on 2020-01-01"},
		{"of another model", waiver("sai.dscp", "tofino", "2999-12-31"), orchestrator.ExitFail, "sai.dscp",
			"excused nothing"},
		{"of another rule", waiver("sai.queue", "sai", "2999-12-31"), orchestrator.ExitFail, "sai.dscp", "excused nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file, junit := filepath.Join(dir, "waivers.yml"), filepath.Join(dir, "junit.xml")
			if err := os.WriteFile(file, []byte(tt.waivers), 0o644); err != nil {
				t.Fatal(err)
			}
			status, stdout, stderr := candela(t, "run", broken, "--out", dir, "--waivers", file, "--junit", junit)
			stdout = strings.Join(strings.Fields(stdout), " ") // independent of line breaks
			if status != tt.status || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) ||
				tt.stderr == "" && stderr != "" {
				t.Fatalf("exit status %d, want %d\n%s\n%s", status, tt.status, stdout, stderr)
			}
			if tt.status != orchestrator.ExitPass {
				return
			}
			data, err := os.ReadFile(junit)
			if err != nil || !strings.Contains(string(data), "<skipped") {
				t.Errorf("junit.xml has no skipped test (%v):\n%s", err, data)
			}
			if status, stdout, _ := candela(t, "analyze", filepath.Join(dir, "broken"), "--waivers",
				file); status != orchestrator.ExitPass {
				t.Errorf("analyze: exit status %d\n%s", status, stdout)
			}
			if status, stdout, _ := candela(t, "analyze", filepath.Join(dir, "broken")); status != orchestrator.ExitFail {
				t.Errorf("analyze without waivers: exit status %d\n%s", status, stdout)
			}
		})
	}
}
