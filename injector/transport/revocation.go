package transport

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// revocation is a file with revoked certificates, reloaded when it changes. A list that cannot be read or is not the
// authority's refuses every peer: otherwise revoked ones would be admitted.
type revocation struct {
	path        string
	authorities []*x509.Certificate
	now         func() time.Time

	mu      sync.Mutex
	read    os.FileInfo // the file that list came from
	list    *x509.RevocationList
	revoked map[string]bool // by serial number
}

// newRevocation reads the list for the first time.
func newRevocation(path string, authorities []*x509.Certificate) (*revocation, error) {
	r := &revocation{path: path, authorities: authorities, now: time.Now}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r, r.refresh()
}

// check reports whether a certificate is revoked. No list revokes none.
func (r *revocation) check(cert *x509.Certificate) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refresh(); err != nil {
		return err
	}
	if r.now().After(r.list.NextUpdate) {
		return fmt.Errorf(
			"revocation list %s was to be renewed by %s: nobody is served without a current one; candela agent pki renew",
			r.path, stamp(r.list.NextUpdate))
	}
	if r.revoked[cert.SerialNumber.String()] {
		return fmt.Errorf("certificate %q is revoked", cert.Subject.CommonName)
	}
	return nil
}

// ends returns when the list must be renewed; false if there is none. An unreadable one ends with its predecessor.
func (r *revocation) ends() (time.Time, bool) {
	if r == nil {
		return time.Time{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.refresh() // calls are refused for it
	return r.list.NextUpdate, true
}

func (r *revocation) refresh() error {
	info, err := os.Stat(r.path)
	if err != nil {
		return fmt.Errorf("revocation list: %w", err)
	}
	if r.list != nil && unchanged(info, r.read) {
		return nil
	}
	data, err := os.ReadFile(r.path)
	if err != nil {
		return fmt.Errorf("revocation list: %w", err)
	}
	der := data
	if block, _ := pem.Decode(data); block != nil {
		der = block.Bytes
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("revocation list %s: %w", r.path, err)
	}
	if err := r.signed(list); err != nil {
		return err
	}
	if r.list != nil && list.Number != nil && r.list.Number != nil && list.Number.Cmp(r.list.Number) < 0 {
		return fmt.Errorf("revocation list %s is older than the one before", r.path)
	}
	r.list, r.read, r.revoked = list, info, map[string]bool{}
	for _, e := range list.RevokedCertificateEntries {
		r.revoked[e.SerialNumber.String()] = true
	}
	return nil
}

func (r *revocation) signed(list *x509.RevocationList) error {
	failed := []error{fmt.Errorf("revocation list %s: no authority has signed it", r.path)}
	for _, a := range r.authorities {
		err := list.CheckSignatureFrom(a)
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
