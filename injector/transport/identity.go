package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// Files names PEM files: this side's certificate chain and key, the authorities that must have issued the other side's,
// and the list of revoked certificates (none if empty). Certificate, key and list are reloaded when they change.
type Files struct {
	Cert, Key, CA string
	CRL           string
	// ServerRole is the role that the other side's certificate must have when this side dials; empty: any, as for
	// third-party switches.
	ServerRole Role
}

// identity is what one side shows, and what it holds the other side to.
type identity struct {
	files       Files
	authorities []*x509.Certificate
	pool        *x509.CertPool
	revoked     *revocation // nil: no list
	now         func() time.Time
	log         *slog.Logger

	mu     sync.Mutex
	cert   *tls.Certificate
	read   [2]os.FileInfo // the files that cert came from
	looked time.Time      // when those were looked at
}

// load reads the files.
func (f Files) load(log *slog.Logger) (*identity, error) {
	if f.Cert == "" || f.Key == "" || f.CA == "" {
		return nil, errors.New("mutual TLS needs a certificate, a key and an authority file")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	own := &identity{files: f, now: time.Now, log: log}
	if err := own.refresh(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	if own.authorities, err = parseAll(data); err != nil {
		return nil, fmt.Errorf("authority %s: %w", f.CA, err)
	}
	if len(own.authorities) == 0 {
		return nil, fmt.Errorf("authority %s: it holds no PEM certificate", f.CA)
	}
	own.pool = x509.NewCertPool()
	for _, a := range own.authorities {
		own.pool.AddCert(a)
	}
	if f.CRL != "" {
		if own.revoked, err = newRevocation(f.CRL, own.authorities); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// refresh reads certificate and key if their files have changed. The caller holds the lock, or there is no other
// goroutine.
func (own *identity) refresh() error {
	var now [2]os.FileInfo
	for i, path := range []string{own.files.Cert, own.files.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("certificate %s with key %s: %w", own.files.Cert, own.files.Key, err)
		}
		now[i] = info
	}
	if own.cert != nil && unchanged(now[0], own.read[0]) && unchanged(now[1], own.read[1]) {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(own.files.Cert, own.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", own.files.Cert, own.files.Key, err)
	}
	own.cert, own.read = &cert, now
	return nil
}

func unchanged(a, b os.FileInfo) bool {
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

// current returns the certificate: the previous one while its files cannot be read, for instance when one of two is
// replaced.
func (own *identity) current() *tls.Certificate {
	own.mu.Lock()
	defer own.mu.Unlock()
	before := own.cert
	now := own.now()
	if now.Sub(own.looked) < recheck {
		return before
	}
	own.looked = now
	switch err := own.refresh(); {
	case err != nil:
		own.log.Warn("the certificate's files have changed and can't be read; the one before is used", "error", err)
	case own.cert != before:
		own.log.Info("the certificate was replaced", "file", own.files.Cert, "expires", own.cert.Leaf.NotAfter)
	}
	return own.cert
}

// client returns what a client dials with.
func (own *identity) client() credentials.TransportCredentials {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: own.pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.current(), nil },
		VerifyConnection: func(state tls.ConnectionState) error {
			return errors.Join(own.files.checkServer(state.PeerCertificates[0]), own.revoked.check(state.PeerCertificates[0]))
		},
	}
	return &lasting{credentials.NewTLS(config), own}
}

// lasting are credentials that end a connection when the server's certificate expires.
type lasting struct {
	credentials.TransportCredentials
	own *identity
}

// ClientHandshake is that of TLS.
func (l *lasting) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo,
	error) {
	conn, auth, err := l.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return conn, auth, err
	}
	info, ok := auth.(credentials.TLSInfo)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("a %T is not of TLS", auth), conn.Close())
	}
	return &expiring{Conn: conn, own: l.own, chains: info.State.VerifiedChains}, auth, nil
}

// Clone copies the credentials.
func (l *lasting) Clone() credentials.TransportCredentials {
	return &lasting{l.TransportCredentials.Clone(), l.own}
}

// expiring is a client's connection. Every call writes to it, and every message is read from it.
type expiring struct {
	net.Conn
	own    *identity
	chains [][]*x509.Certificate

	mu      sync.Mutex
	checked time.Time // when the list of revoked certificates was looked at
	why     error     // the connection was ended
}

// recheck is how often a connection checks the list of revoked certificates, and a side its own files.
const recheck = time.Second

// check closes the connection if the server's certificate is no longer valid, and then returns the same error.
func (e *expiring) check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why != nil {
		return e.why
	}
	now := e.own.now()
	err := valid(e.chains, now)
	if err == nil && now.Sub(e.checked) >= recheck {
		err = e.own.revoked.check(e.chains[0][0])
		e.checked = now
	}
	if err != nil {
		e.why = errors.Join(fmt.Errorf("of the server: %w", err), e.Close())
	}
	return e.why
}

// Read does not return data that arrived after the certificate had expired.
func (e *expiring) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	if invalid := e.check(); invalid != nil {
		return 0, invalid
	}
	return n, err
}

// Write writes while the certificate is valid.
func (e *expiring) Write(b []byte) (int, error) {
	if err := e.check(); err != nil {
		return 0, err
	}
	return e.Conn.Write(b)
}

// valid reports why none of the chains is valid now.
func valid(chains [][]*x509.Certificate, now time.Time) (failed error) {
	if len(chains) == 0 {
		return errors.New("no verified certificate")
	}
	for _, chain := range chains {
		var err error
		for _, cert := range chain {
			if err = validNow(cert, now); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

func validNow(cert *x509.Certificate, now time.Time) error {
	switch {
	case now.After(cert.NotAfter):
		return fmt.Errorf("certificate %q has expired at %s: candela agent pki renew", cert.Subject.CommonName,
			stamp(cert.NotAfter))
	case now.Before(cert.NotBefore):
		return fmt.Errorf("certificate %q is valid from %s only: compare the clocks of both machines",
			cert.Subject.CommonName,
			stamp(cert.NotBefore))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// parseAll returns the certificates of a PEM file.
func parseAll(data []byte) (list []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return list, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, cert)
	}
}
