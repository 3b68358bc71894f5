package nightly

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/smtp"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

// Notifier sends the summary of a night. Its zero value waits as long as a lab wants.
type Notifier struct {
	// Wait is the time before the second try; it doubles. 0: 2 s.
	Wait time.Duration
	// Timeout bounds a try. 0: 30 s.
	Timeout time.Duration
}

const notifyTries = 3

// Notify sends s to everybody that the plan names, if the plan wants that. One that cannot be reached does not keep it
// from the others. Errors name the place in the plan, and neither addresses of webhooks nor passwords.
func (n *Notifier) Notify(ctx context.Context, p *config.NightPlan, s *Summary) error {
	switch p.Notify.When {
	case config.NotifyFailures:
		if s.Exit == orchestrator.ExitPass {
			return nil
		}
	case config.NotifyChanges:
		if !s.Changed() {
			return nil
		}
	case config.NotifyAlways:
	}
	var failed []error
	for i := range p.Notify.Webhooks {
		w := &p.Notify.Webhooks[i]
		if err := n.often(ctx, func(ctx context.Context) error { return post(ctx, p, w, s) }); err != nil {
			failed = append(failed, fmt.Errorf("%s: webhook: %w", w.Where, err))
		}
	}
	for i := range p.Notify.Mail {
		m := &p.Notify.Mail[i]
		if err := n.often(ctx, func(ctx context.Context) error { return mail(ctx, p, m, s) }); err != nil {
			failed = append(failed, fmt.Errorf("%s: mail: %w", m.Where, err))
		}
	}
	return errors.Join(failed...)
}

// finalError is one that another try would only repeat.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func (n *Notifier) often(ctx context.Context, try func(context.Context) error) error {
	wait, timeout := n.Wait, n.Timeout
	if wait == 0 {
		wait = 2 * time.Second
	}
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	for i := 1; ; i++ {
		timed, cancel := context.WithTimeout(ctx, timeout)
		err := try(timed)
		cancel()
		var final finalError
		if err == nil || errors.As(err, &final) {
			return err
		}
		if i == notifyTries {
			return fmt.Errorf("after %d tries: %w", i, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		wait *= 2
	}
}

// trust returns the certificate authorities in a file; nil: the system's.
func trust(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, finalError{err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, finalError{fmt.Errorf("%s contains no certificate", file)}
	}
	return pool, nil
}

// readSecret reads a secret whose file is relative to the plan.
func readSecret(p *config.NightPlan, s config.Secret) (string, error) {
	s.File = p.Path(s.File)
	text, err := s.Read()
	if err != nil {
		return "", finalError{err}
	}
	return text, nil
}

// post sends the summary to a webhook. The address may be a secret: errors have none of it.
func post(ctx context.Context, p *config.NightPlan, w *config.Webhook, s *Summary) error {
	address, err := readSecret(p, w.Secret)
	if err != nil {
		return err
	}
	var body []byte
	if w.Form == config.WebhookSlack {
		body, err = json.Marshal(s.slack())
	} else {
		body, err = json.Marshal(s)
	}
	if err != nil {
		return finalError{err}
	}
	pool, err := trust(p.Path(w.CA))
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSpace(address), bytes.NewReader(body))
	if err != nil || q.URL.Host == "" || q.URL.Scheme != "http" && q.URL.Scheme != "https" {
		return finalError{errors.New("its address is not valid")}
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "candela/"+s.Version)
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	// A redirection would send the summary to a server that the plan does not name.
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(q)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the address
		}
		return err
	}
	const most = 1 << 16
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, most))
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return nil
	case answer.StatusCode >= 500, answer.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("the server answered %s", answer.Status)
	}
	return finalError{fmt.Errorf("the server answered %s", answer.Status)}
}

// slackMessage is what Slack's incoming webhooks take.
type slackMessage struct {
	Text   string       `json:"text"`
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type string    `json:"type"`
	Text slackText `json:"text"`
}

type slackText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Limits of Slack.
const (
	slackBlocks = 50
	slackRunes  = 3000
)

// slack is the summary as a message: the headline, then a block for each thing to act on.
func (s *Summary) slack() *slackMessage {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	m := &slackMessage{Text: escape.Replace(s.Headline())}
	add := func(text string) {
		if len(m.Blocks) == slackBlocks {
			return
		}
		const room = 20 // for the fence
		if runes := []rune(text); len(runes) > slackRunes-room {
			text = string(runes[:slackRunes-room]) + "…"
		}
		m.Blocks = append(m.Blocks, slackBlock{"section", slackText{"mrkdwn", text}})
	}
	add("*" + m.Text + "*")
	var b strings.Builder
	_ = s.Text(&b) // a strings.Builder does not fail
	for i, part := range strings.Split(strings.TrimSpace(b.String()), "\n\n") {
		if i == 0 {
			continue // the headline
		}
		text := []rune(strings.ReplaceAll(part, "```", "'''"))
		const most = 2500 // escapes make it longer
		if len(text) > most {
			text = append(text[:most], '…')
		}
		add("```" + escape.Replace(string(text)) + "```")
	}
	return m
}

// mail sends the summary by SMTP.
func mail(ctx context.Context, p *config.NightPlan, m *config.Mail, s *Summary) (err error) {
	password, err := readSecret(p, m.Secret)
	if err != nil {
		return err
	}
	pool, err := trust(p.Path(m.CA))
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(m.Server)
	if err != nil {
		return finalError{err}
	}
	secure := &tls.Config{ServerName: host, RootCAs: pool, MinVersion: tls.VersionTLS12}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", m.Server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	talk := conn
	if m.TLS == config.MailImplicit {
		talk = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(talk, host)
	if err != nil {
		return err
	}
	return mailAnswer(send(c, m, secure, host, password, s))
}

// send speaks SMTP. Without STARTTLS on the server it fails: the mail and the password would go in the clear.
func send(c *smtp.Client, m *config.Mail, secure *tls.Config, host, password string, s *Summary) error {
	if m.TLS == config.MailStartTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return finalError{errors.New("the server does not offer STARTTLS; tls: none sends without encryption")}
		}
		if err := c.StartTLS(secure); err != nil {
			return err
		}
	}
	if m.User != "" {
		if err := c.Auth(smtp.PlainAuth("", m.User, password, host)); err != nil {
			return fmt.Errorf("log in: %w", err)
		}
	}
	if err := c.Mail(m.From); err != nil {
		return err
	}
	for _, to := range m.To {
		if err := c.Rcpt(to); err != nil {
			return fmt.Errorf("recipient %s: %w", to, err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if err := s.message(w, m); err != nil {
		return errors.Join(err, w.Close())
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the server has it
	return nil
}

// mailAnswer makes what a server refuses for good a final error.
func mailAnswer(err error) error {
	var answer *textproto.Error
	const permanent = 500
	if errors.As(err, &answer) && answer.Code >= permanent {
		return finalError{err}
	}
	return err
}

// message writes the summary as a mail.
func (s *Summary) message(w io.Writer, m *config.Mail) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: <%s>\r\nTo: <%s>\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s.%d@%s>\r\n"+
		"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
		m.From, strings.Join(m.To, ">, <"), mime.QEncoding.Encode("utf-8", s.Headline()), s.Ended.Format(time.RFC1123Z),
		s.Plan, s.Ended.UnixNano(), m.From[strings.LastIndexByte(m.From, '@')+1:])
	q := quotedprintable.NewWriter(&b)
	if err := errors.Join(s.Text(q), q.Close()); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
