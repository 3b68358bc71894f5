package pki

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"time"
)

// listLifetime is how long a list of revoked certificates is valid. With an expired list every peer is refused; each
// command writes a new list.
const listLifetime = 365 * 24 * time.Hour

// Revoke puts all certificates of a name on the list of revoked ones, and renames its files so that the name is free.
// Revoking a name twice is not an error. Servers and clients reload the list when it changes; copy it to them.
func (a *Authority) Revoke(name string) error {
	if !names.MatchString(name) || reserved(name) {
		return fmt.Errorf("revoke a certificate: there is none called %q", name)
	}
	if err := a.locked(func() error { return a.revoke(name) }); err != nil {
		return fmt.Errorf("revoke a certificate: %w", err)
	}
	return nil
}

func (a *Authority) revoke(name string) error {
	list, err := a.readList()
	if err != nil {
		return err
	}
	certs, err := a.valid(name)
	if err != nil {
		return err
	}
	if len(certs) == 0 {
		retired, err := readCertificate(a.path(name + ".pem.revoked"))
		if err == nil && listed(list, retired.SerialNumber) {
			return nil
		}
		return fmt.Errorf("there is none called %q: %w", name, os.ErrNotExist)
	}
	entries := list.RevokedCertificateEntries
	for _, c := range certs {
		entries = append(entries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: a.now()})
	}
	if _, err := a.writeList(entries); err != nil {
		return err
	}
	// From here on it is revoked; if this command is killed the next one does the rest.
	cert, err := readCertificate(a.path(name + ".pem"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return a.retire(name, cert)
}

// readList reads the list. Without it nothing is issued, since revoked certificates are unknown.
func (a *Authority) readList() (*x509.RevocationList, error) {
	list, err := parseList(a.path(revokedList))
	if err == nil {
		err = list.CheckSignatureFrom(a.cert)
	}
	if err != nil {
		return nil, fmt.Errorf("the list of revoked certificates: %w; every server has a copy (--crl): bring one back", err)
	}
	return list, nil
}

// writeList replaces the list and returns the new one.
func (a *Authority) writeList(entries []x509.RevocationListEntry) (*x509.RevocationList, error) {
	number, end := big.NewInt(a.now().UnixNano()), a.until(listLifetime)
	if before, err := parseList(a.path(revokedList)); err == nil {
		// Lists need increasing numbers, and a clock that was set back must not shorten their validity.
		if before.Number != nil && before.Number.Cmp(number) >= 0 {
			number = new(big.Int).Add(before.Number, big.NewInt(1))
		}
		if before.NextUpdate.After(end) {
			end = before.NextUpdate
		}
	}
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: number, ThisUpdate: a.now().Add(-clockSkew), NextUpdate: end, RevokedCertificateEntries: once(entries),
	}, a.cert, a.key)
	if err != nil {
		return nil, err
	}
	if err := writePEM(a.path(revokedList), "X509 CRL", der, 0o644); err != nil {
		return nil, err
	}
	return x509.ParseRevocationList(der)
}

// once removes entries of serial numbers that came before.
func once(entries []x509.RevocationListEntry) (list []x509.RevocationListEntry) {
	seen := make(map[string]bool)
	for _, e := range entries {
		if s := e.SerialNumber.String(); !seen[s] {
			seen[s] = true
			list = append(list, e)
		}
	}
	return slices.Clip(list)
}
