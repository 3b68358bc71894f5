package nightly_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/nightly"
)

var quick = nightly.Notifier{Wait: time.Millisecond, Timeout: time.Minute}

func aSummary() *nightly.Summary {
	night := history.NightOf(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
	return &nightly.Summary{Schema: nightly.SummarySchema, Plan: "lab", Night: night, Version: "v1",
		Exit: orchestrator.ExitFail, Ended: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC), Runs: 3,
		Counts: map[nightly.State]int{nightly.Failing: 1, nightly.Passing: 2},
		Tests: []nightly.Test{{Subject: history.Subject{Test: "drop", Testbed: "lab-1", Owner: "anna & <bert>"},
			State: nightly.Failing, Change: history.New, Failed: 3, Runs: 3, Since: &night, Rules: []string{"gbn.nak-psn"},
			Headline: "The NAK has PSN 6, want 5.", Suspects: []string{"device"}, Packets: "17", Dir: "/n/drop",
			Changes: []history.EnvironmentChange{{Name: "responder.firmware", A: "28.39", B: "28.41"}},
			Show:    "candela trace show /n/drop --around 17", Reproduce: "candela run /n/drop/config.yml"}}}
}

func notifyPlan(t *testing.T, notify string) *config.NightPlan {
	t.Helper()
	p, err := config.ParseNightPlan(filepath.Join(t.TempDir(), "plan.yml"),
		[]byte("name: lab\nsuites: [{path: s}]\nnotify:\n"+notify))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAWebhookGetsTheSummaryAndTriesAgain(t *testing.T) {
	var bodies []string
	refuse := 2
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get("Content-Type")+" "+string(body))
	}))
	defer server.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOOK", server.URL+"/services/secret")
	p := notifyPlan(t, fmt.Sprintf("  webhooks: [{url-env: HOOK, ca: %s}, {url-env: HOOK, ca: %s, form: slack}]\n", ca, ca))
	if err := quick.Notify(t.Context(), p, aSummary()); err != nil || len(bodies) != 2 {
		t.Fatalf("%v, %d messages", err, len(bodies))
	}
	var s nightly.Summary
	if err := json.Unmarshal([]byte(strings.TrimPrefix(bodies[0], "application/json ")), &s); err != nil ||
		s.Tests[0].Reproduce != "candela run /n/drop/config.yml" || s.Tests[0].Owner != "anna & <bert>" {
		t.Errorf("%v: %s", err, bodies[0])
	}
	var m struct {
		Text   string
		Blocks []struct{ Text struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(bodies[1], "application/json ")), &m); err != nil ||
		!strings.HasPrefix(m.Text, "candela lab, night 2026-11-20: 1 failing (1 new), 2 passing") || len(m.Blocks) != 2 ||
		!strings.Contains(m.Blocks[1].Text.Text, "anna &amp; &lt;bert&gt;") ||
		!strings.Contains(m.Blocks[1].Text.Text, "responder.firmware 28.39 → 28.41") {
		t.Errorf("%v: %s", err, bodies[1])
	}
}

func TestErrorsOfNotificationsAreBoundedAndHideAddresses(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		switch {
		case strings.HasSuffix(r.URL.Path, "/elsewhere"):
			http.Redirect(w, r, "/services/taken", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/refused"):
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tt := range []struct {
		address, want string
		calls         int
	}{
		{server.URL + "/secret/refused", "the server answered 403 Forbidden", 1},
		{server.URL + "/secret/elsewhere", "the server answered 302 Found", 1},
		{server.URL + "/secret/broken", "after 3 tries: the server answered 502 Bad Gateway", 3},
		{closed.URL + "/secret", "after 3 tries: dial tcp", 0},
		{"https://\x7f/secret", "its address is not valid", 0},
		{"", "the variable HOOK is not set", 0},
	} {
		calls = 0
		t.Setenv("HOOK", tt.address)
		err := quick.Notify(t.Context(), notifyPlan(t, "  webhooks: [{url-env: HOOK}]\n"), aSummary())
		if err == nil || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), "plan.yml:4:14: webhook: ") || strings.Contains(err.Error(), "secret") || calls != tt.calls {
			t.Errorf("%s: %v, %d calls", tt.address, err, calls)
		}
	}
	good := aSummary()
	good.Exit, good.Tests = orchestrator.ExitPass, nil
	t.Setenv("HOOK", closed.URL)
	for _, when := range []string{"failures", "changes"} {
		p := notifyPlan(t, "  when: "+when+"\n  webhooks: [{url-env: HOOK}]\n")
		if err := quick.Notify(t.Context(), p, good); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if err := quick.Notify(t.Context(), p, aSummary()); err == nil {
			t.Errorf("%s: a new failure is not sent", when)
		}
	}
}

// mailServer is aiosmtpd with STARTTLS and a login, which prints what it gets.
const mailServer = `
import asyncio, ssl, sys
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult
class Handler:
    async def handle_DATA(self, server, session, envelope):
        sys.stdout.buffer.write(b'MAIL %s %s %s\n' % (envelope.mail_from.encode(), ','.join(envelope.rcpt_tos).encode(),
            envelope.content.hex().encode()))
        sys.stdout.flush()
        return '250 OK'
def check(server, session, envelope, mechanism, data):
    return AuthResult(success=data.login == b'night' and data.password == b'pass word')
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
class Server(Controller):
    def factory(self):
        return SMTP(self.handler, tls_context=context, require_starttls=True, authenticator=check, auth_required=True)
c = Server(Handler(), hostname='127.0.0.1', port=int(sys.argv[3]))
c.start()
print('READY', flush=True)
sys.stdin.read()
c.stop()
`

// certificate writes a certificate of 127.0.0.1 and its key.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY",
		Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestMailGoesEncryptedToARealServer(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.Command(python, "-c", "import aiosmtpd").Run() != nil {
		t.Skip("SKIP: aiosmtpd is missing; tools/setup installs Debian's python3-aiosmtpd")
	}
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	server := exec.CommandContext(t.Context(), python, "-c", mailServer, cert, key, port)
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = server.Wait()
	}()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "READY\n" {
		t.Fatalf("%v %s", err, line)
	}
	good := filepath.Join(dir, "password")
	if err := os.WriteFile(good, []byte("pass word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const form = "  mail: [{server: \"127.0.0.1:%s\", from: n@lab.example, to: [a@lab.example, b@lab.example], ca: %s, " +
		"user: night, password-file: %s}]\n"
	if err := quick.Notify(t.Context(), notifyPlan(t, fmt.Sprintf(form, port, cert, good)), aSummary()); err != nil {
		t.Fatal(err)
	}
	line, err := lines.ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) != 4 || words[1] != "n@lab.example" || words[2] != "a@lab.example,b@lab.example" {
		t.Fatalf("%v %s", err, line)
	}
	var raw []byte
	if _, err := fmt.Sscanf(words[3], "%x", &raw); err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	if err != nil || !strings.Contains(head, "Subject: candela lab, night 2026-11-20: 1 failing (1 new), 2 passing") ||
		!strings.Contains(string(text), "28.39 → 28.41") || !strings.Contains(string(text), "reproduce   candela run") {
		t.Errorf("%v\n%s\n\n%s", err, head, text)
	}
	t.Setenv("BAD", "wrong-secret")
	for _, tt := range []struct{ old, new, want string }{
		{"password-file: " + good, "password-env: BAD", "mail: log in: 535"},
		{", ca: " + cert, "", "certificate signed by unknown authority"},
		{"user: night", "tls: implicit, user: night", "first record does not look like a TLS handshake"},
	} {
		p := notifyPlan(t, strings.Replace(fmt.Sprintf(form, port, cert, good), tt.old, tt.new, 1))
		err := quick.Notify(t.Context(), p, aSummary())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", tt.new, err, tt.want)
		}
	}
}
