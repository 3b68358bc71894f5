package pki

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Renewed says what a renewal has made.
type Renewed struct {
	List      time.Time // until when the list of revoked certificates may be used
	Names     []string  // that have a new certificate
	Authority bool      // whether the authority has one, too
}

// Renew writes a new list of revoked certificates, and new certificates for the given names, or without names for all
// whose certificate expires within a time. Keys do not change: only NAME.pem has to be copied, and the previous
// certificate stays valid until it expires or the name is revoked. The authority's certificate is renewed if it would
// expire before a new certificate; machines with the previous one accept everything until that expires, because the key
// is the same.
func (a *Authority) Renew(list []string, within time.Duration) (done Renewed, err error) {
	err = a.locked(func() (err error) {
		if a.cert.NotAfter.Sub(a.now()) < Lifetime+within {
			if err := a.renewOwn(); err != nil {
				return err
			}
			done.Authority = true
		}
		if done.Names, err = a.renewAll(list, within); err != nil {
			return err
		}
		before, err := a.readList()
		if err != nil {
			return err
		}
		now, err := a.writeList(before.RevokedCertificateEntries)
		if err == nil {
			done.List = now.NextUpdate
		}
		return err
	})
	if err != nil {
		return done, fmt.Errorf("renew: %w", err)
	}
	return done, nil
}

// renewAll renews the certificates of the given names, all of which must exist, or of all that expire within a time.
func (a *Authority) renewAll(given []string, within time.Duration) (done []string, err error) {
	all, err := a.names()
	if err != nil {
		return nil, err
	}
	for _, name := range given {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no certificate called %q", name)
		}
	}
	for _, name := range all {
		if len(given) > 0 && !slices.Contains(given, name) {
			continue
		}
		cert, err := readCertificate(a.path(name + ".pem"))
		if err != nil {
			if len(given) > 0 {
				return done, err
			}
			continue // a key without certificate, or nothing of ours
		}
		if len(given) == 0 && cert.NotAfter.Sub(a.now()) >= within {
			continue
		}
		if err := a.renew(name, cert); err != nil {
			return done, fmt.Errorf("%s: %w", name, err)
		}
		done = append(done, name)
	}
	return done, nil
}

// renew makes a certificate that differs only in its validity and its serial number.
func (a *Authority) renew(name string, old *x509.Certificate) error {
	if err := old.CheckSignatureFrom(a.cert); err != nil {
		return fmt.Errorf("another authority has issued it: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	// A clock that was set back must not shorten it.
	end := a.until(Lifetime)
	if old.NotAfter.After(end) {
		end = old.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: old.Subject, NotBefore: a.now().Add(-clockSkew), NotAfter: end, KeyUsage: old.KeyUsage,
		ExtKeyUsage: old.ExtKeyUsage, URIs: old.URIs, IPAddresses: old.IPAddresses, DNSNames: old.DNSNames,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, old.PublicKey, a.key)
	if err != nil {
		return err
	}
	return a.hand(name, der)
}

// renewOwn gives the authority a certificate with the same key and name.
func (a *Authority) renewOwn() error {
	serial, err := newSerial()
	if err != nil {
		return err
	}
	template := authorityTemplate(a.cert.Subject.CommonName, serial, a.now())
	template.Subject = a.cert.Subject
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return err
	}
	if err := writePEM(a.path(authorityCert), "CERTIFICATE", der, 0o644); err != nil {
		return err
	}
	return a.read()
}
