// Package pki is the small certificate authority of a lab: one directory with the authority's key, which stays with whoever
// orchestrates, the certificates that it has issued, and the list of those that it has revoked.
//
// A certificate says in a URI what its owner may do (see package transport): candela:role:orchestrator drives agents and
// switches, candela:role:agent and candela:role:switch are such, candela:role:viewer may look.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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
	// listLifetime is how long a list of revoked certificates may be used; Issue and Revoke write a new one.
	listLifetime = 365 * 24 * time.Hour
	// clockSkew is how far the clocks of lab machines may be behind.
	clockSkew = 5 * time.Minute
)

// names of certificates become file names.
var names = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// Authority is an authority in a directory.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	now  func() time.Time
}

// Create makes an authority in dir, which it creates. There must be none yet.
func Create(dir, name string, now func() time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, authorityKey)); err == nil {
		return nil, fmt.Errorf("make an authority: %s holds one already", dir)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now().Add(-clockSkew),
		NotAfter: now().Add(authorityLifetime), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	if err := errors.Join(writeKey(filepath.Join(dir, authorityKey), key), writePEM(filepath.Join(dir, authorityCert),
		"CERTIFICATE", der, 0o644)); err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	a, err := Open(dir, now)
	if err != nil {
		return nil, err
	}
	return a, a.writeList(nil)
}

// Open reads the authority in dir.
func Open(dir string, now func() time.Time) (*Authority, error) {
	certDER, err := readPEM(filepath.Join(dir, authorityCert), "CERTIFICATE")
	if err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	keyDER, err := readPEM(filepath.Join(dir, authorityKey), "PRIVATE KEY")
	if err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, fmt.Errorf("open the authority: %s: %w", authorityCert, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return nil, fmt.Errorf("open the authority: %s: %w", authorityKey, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("open the authority: %s: a %T can't sign", authorityKey, key)
	}
	return &Authority{dir: dir, cert: cert, key: signer, now: now}, nil
}

// Issue makes a certificate for a role and writes NAME.pem and NAME.key beside the authority. Hosts are the names and
// addresses under which a server is reached; a client needs none.
func (a *Authority) Issue(name string, role transport.Role, hosts []string) (transport.Files, error) {
	files := transport.Files{
		Cert: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+".key"),
		CA: filepath.Join(a.dir, authorityCert), CRL: filepath.Join(a.dir, revokedList),
	}
	switch {
	case !names.MatchString(name):
		return files, fmt.Errorf("issue a certificate: name %q: allowed are lower-case letters, digits, dots and hyphens", name)
	case name == "ca" || name == "revoked":
		return files, fmt.Errorf("issue a certificate: name %q is the authority's own", name)
	case !slices.Contains(transport.Roles(), role):
		return files, fmt.Errorf("issue a certificate: role %q is unknown; allowed are %v", role, transport.Roles())
	case (role == transport.Agent || role == transport.Switch) && len(hosts) == 0:
		return files, fmt.Errorf("issue a certificate: a server (role %s) needs the names or addresses under which it is reached", role)
	}
	if _, err := os.Stat(files.Cert); err == nil {
		return files, fmt.Errorf("issue a certificate: %s exists; revoke it first, or choose another name", files.Cert)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, fmt.Errorf("issue a certificate: %w", err)
	}
	template, err := a.template(name, role, hosts)
	if err != nil {
		return files, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return files, fmt.Errorf("issue a certificate: %w", err)
	}
	if err := errors.Join(writeKey(files.Key, key), writePEM(files.Cert, "CERTIFICATE", der, 0o644)); err != nil {
		return files, fmt.Errorf("issue a certificate: %w", err)
	}
	return files, nil
}

func (a *Authority) template(name string, role transport.Role, hosts []string) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: a.now().Add(-clockSkew),
		NotAfter: a.now().Add(Lifetime), KeyUsage: x509.KeyUsageDigitalSignature,
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

// Revoke puts the certificate of a name on the list of revoked ones, and renames its files so that the name is free again.
// Servers and clients read the list anew when it changes; copy it to them.
func (a *Authority) Revoke(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("revoke a certificate: there is none called %q", name)
	}
	path := filepath.Join(a.dir, name+".pem")
	der, err := readPEM(path, "CERTIFICATE")
	if err != nil {
		return fmt.Errorf("revoke a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("revoke a certificate: %s: %w", path, err)
	}
	list, err := a.readList()
	if err != nil {
		return fmt.Errorf("revoke a certificate: %w", err)
	}
	entries := append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: a.now()})
	if err := a.writeList(entries); err != nil {
		return fmt.Errorf("revoke a certificate: %w", err)
	}
	return errors.Join(os.Rename(path, path+".revoked"), os.Remove(filepath.Join(a.dir, name+".key")))
}

func (a *Authority) readList() (*x509.RevocationList, error) {
	der, err := readPEM(filepath.Join(a.dir, revokedList), "X509 CRL")
	if err != nil {
		return nil, err
	}
	return x509.ParseRevocationList(der)
}

// writeList replaces the list: whoever reads it meanwhile sees the old one or the new one, never a part.
func (a *Authority) writeList(entries []x509.RevocationListEntry) error {
	number := big.NewInt(a.now().UnixNano()) // lists must have growing numbers
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: number, ThisUpdate: a.now().Add(-clockSkew), NextUpdate: a.now().Add(listLifetime), RevokedCertificateEntries: entries,
	}, a.cert, a.key)
	if err != nil {
		return err
	}
	path := filepath.Join(a.dir, revokedList)
	if err := writePEM(path+".new", "X509 CRL", der, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func newSerial() (*big.Int, error) {
	const bits = 127 // RFC 5280, 4.1.2.2: positive and at most 20 octets
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return serial, nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

// writePEM writes a new file.
func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Close())
}

func readPEM(path, kind string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s in PEM", path, kind)
	}
	return block.Bytes, nil
}
