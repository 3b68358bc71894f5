// Package pki is the small certificate authority of a lab: one directory with the authority's key, which stays on the
// orchestrator's machine, the certificates that it has issued, and the list of revoked ones.
//
// A URI in a certificate gives its owner's role (see package transport): candela:role:orchestrator drives agents and
// switches, candela:role:agent and candela:role:switch are those, candela:role:viewer may only read.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/filelock"
)

// Names of an authority's files.
const (
	authorityCert = "ca.pem"
	authorityKey  = "ca.key"
	revokedList   = "revoked.crl"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// Lifetime is how long a certificate is valid.
	Lifetime = 365 * 24 * time.Hour
	// clockSkew is how far the clocks of lab machines may be slow.
	clockSkew = 5 * time.Minute
)

// names of certificates become file names.
var names = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// Authority is an authority in a directory, which several processes may use concurrently.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	now  func() time.Time
}

// Create makes an authority in dir, which it creates. There must be none yet; one whose creation was interrupted is
// replaced.
func Create(dir, name string, now func() time.Time) (*Authority, error) {
	a, err := create(dir, name, now)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	return a, nil
}

func create(dir, name string, now func() time.Time) (_ *Authority, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := onlyOurs(dir); err != nil {
		return nil, err
	}
	lock, err := filelock.Acquire(filepath.Join(dir, lockFile), lockPatience)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	// The certificate is written last: without it nothing can have been issued.
	if _, err := os.Stat(filepath.Join(dir, authorityCert)); err == nil {
		return nil, fmt.Errorf("%s holds one already", dir)
	}
	if err := removeUnfinished(dir); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := authorityTemplate(name, serial, now())
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, key: key, now: now}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if err := writeKey(a.path(authorityKey), key); err != nil {
		return nil, err
	}
	if _, err := a.writeList(nil); err != nil {
		return nil, err
	}
	return a, writePEM(a.path(authorityCert), "CERTIFICATE", der, 0o644)
}

func authorityTemplate(name string, serial *big.Int, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew),
		NotAfter: now.Add(authorityLifetime), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// Open reads the authority in dir.
func Open(dir string, now func() time.Time) (*Authority, error) {
	a := &Authority{dir: dir, now: now}
	err := onlyOurs(dir)
	if err == nil {
		err = a.read()
	}
	if err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	return a, nil
}

// onlyOurs refuses a directory or key that others may read or write.
func onlyOurs(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("directory %s has mode %v: everybody may write there; chmod o-w %s", dir, info.Mode().Perm(), dir)
	}
	key := filepath.Join(dir, authorityKey)
	if info, err := os.Stat(key); err == nil && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s has mode %v: others may read the authority's key; chmod 600 %s", key, info.Mode().Perm(), key)
	}
	return nil
}

// read reads certificate and key.
func (a *Authority) read() error {
	keyDER, err := readPEM(a.path(authorityKey), "PRIVATE KEY")
	if err != nil {
		return err
	}
	cert, err := readCertificate(a.path(authorityCert))
	if err != nil {
		return err
	}
	key, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return fmt.Errorf("%s: %w", authorityKey, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return fmt.Errorf("%s: a %T can't sign", authorityKey, key)
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		return fmt.Errorf("%s is not the key of %s", authorityKey, authorityCert)
	}
	a.cert, a.key = cert, signer
	return nil
}

// until returns the end of a time from now, or that of the authority.
func (a *Authority) until(d time.Duration) time.Time {
	end := a.now().Add(d)
	if end.After(a.cert.NotAfter) {
		return a.cert.NotAfter
	}
	return end
}

// Issue makes a certificate for a role and writes NAME.pem, NAME.key and a new list of revoked certificates to the
// directory. Hosts are the names and addresses of a server; a client needs none.
func (a *Authority) Issue(name string, role transport.Role, hosts []string) (transport.Files, error) {
	files := transport.Files{Cert: a.path(name + ".pem"), Key: a.path(name + ".key"), CA: a.path(authorityCert),
		CRL: a.path(revokedList)}
	var err error
	switch {
	case !names.MatchString(name):
		err = fmt.Errorf("name %q: allowed are lower-case letters, digits, dots and hyphens", name)
	case reserved(name):
		err = fmt.Errorf("name %q is the authority's own", name)
	case !slices.Contains(transport.Roles(), role):
		err = fmt.Errorf("role %q is unknown; allowed are %v", role, transport.Roles())
	case (role == transport.Agent || role == transport.Switch) && len(hosts) == 0:
		err = fmt.Errorf("a server (role %s) needs the names or addresses under which it is reached", role)
	default:
		err = a.locked(func() error { return a.issue(name, role, hosts) })
	}
	if err != nil {
		return files, fmt.Errorf("issue a certificate: %w", err)
	}
	return files, nil
}

func (a *Authority) issue(name string, role transport.Role, hosts []string) error {
	if _, err := os.Stat(a.path(name + ".pem")); err == nil {
		return fmt.Errorf("%s exists; revoke it first, or choose another name", a.path(name+".pem"))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := a.template(name, role, hosts)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	if err := writeKey(a.path(name+".key"), key); err != nil {
		return err
	}
	if err := a.hand(name, der); err != nil {
		return err
	}
	list, err := a.readList()
	if err != nil {
		return err
	}
	_, err = a.writeList(list.RevokedCertificateEntries)
	return err
}

// hand gives a name a certificate.
func (a *Authority) hand(name string, der []byte) error {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	if err := a.keep(cert); err != nil {
		return err
	}
	return writePEM(a.path(name+".pem"), "CERTIFICATE", der, 0o644)
}

func (a *Authority) template(name string, role transport.Role, hosts []string) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: a.now().Add(-clockSkew),
		NotAfter: a.until(Lifetime), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{role.URI()},
	}
	if len(hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t, nil
}

func newSerial() (*big.Int, error) {
	const bits = 127 // RFC 5280, 4.1.2.2: positive and at most 20 octets
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return serial, nil
}
