package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/injector/transport/filelock"
)

// Commands may run concurrently, and may be killed at any time. So each change of the directory is made under a lock
// that the kernel releases with its holder; each file is written to a temporary name, synced, and renamed; and the next
// holder of the lock completes, or removes, what a killed command left. A revocation writes the list of revoked
// certificates first: what is on it is revoked.

const (
	lockFile = ".lock"
	// issuedDir holds every certificate ever issued, by serial number: after a renewal a name has several valid ones.
	issuedDir = "issued"
	// unfinished starts the names of files that are being written.
	unfinished = ".tmp-"
	// formerNewList is what earlier versions wrote a list to.
	formerNewList = revokedList + ".new"
)

// lockPatience bounds the wait for other commands on the same directory; one takes some milliseconds.
const lockPatience = time.Minute

// locked runs f while no other process changes the directory, after completing the work of a killed one.
func (a *Authority) locked(f func() error) (err error) {
	lock, err := filelock.Acquire(filepath.Join(a.dir, lockFile), lockPatience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := a.read(); err != nil { // it may have been renewed
		return err
	}
	if err := a.recover(); err != nil {
		return fmt.Errorf("complete what an earlier command left: %w", err)
	}
	return f()
}

// recover completes or removes what a killed command left.
func (a *Authority) recover() error {
	if err := errors.Join(removeUnfinished(a.dir), removeUnfinished(filepath.Join(a.dir, issuedDir))); err != nil {
		return err
	}
	list, err := a.readList()
	if err != nil {
		return err
	}
	if list, err = a.mergeFormer(list); err != nil {
		return err
	}
	names, err := a.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		cert, err := readCertificate(a.path(name + ".pem"))
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = a.removeOrphan(name)
		case err == nil && listed(list, cert.SerialNumber):
			err = a.retire(name, cert)
		default:
			err = nil // an unreadable certificate cannot be used by anyone
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeUnfinished removes files that were being written when a command was killed.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// mergeFormer takes over what a command of an earlier version was about to revoke when it was killed, if it had written
// the whole list.
func (a *Authority) mergeFormer(list *x509.RevocationList) (*x509.RevocationList, error) {
	path := a.path(formerNewList)
	former, err := parseList(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return list, nil
	case err == nil && former.CheckSignatureFrom(a.cert) == nil:
		if list, err = a.writeList(append(list.RevokedCertificateEntries, former.RevokedCertificateEntries...)); err != nil {
			return nil, err
		}
	}
	return list, os.Remove(path)
}

// names lists the names that have a certificate or a key.
func (a *Authority) names() ([]string, error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".pem")
		if !ok {
			name, ok = strings.CutSuffix(e.Name(), ".key")
		}
		if ok && names.MatchString(name) && !reserved(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}

func reserved(name string) bool { return name == "ca" || name == "revoked" }

// retire renames the files of a revoked certificate, so that its name is free. The certificate is kept for reference.
func (a *Authority) retire(name string, cert *x509.Certificate) error {
	if _, err := os.Stat(a.issuedPath(cert.SerialNumber)); errors.Is(err, os.ErrNotExist) {
		if err := a.keep(cert); err != nil {
			return err
		}
	}
	path := a.path(name + ".pem")
	if err := os.Rename(path, path+".revoked"); err != nil {
		return err
	}
	if err := os.Remove(a.path(name + ".key")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(a.dir)
}

// removeOrphan removes the key of a certificate that was being retired when a command was killed. The key of one that
// was never issued stays, and is replaced when the name gets one.
func (a *Authority) removeOrphan(name string) error {
	retired, err := readCertificate(a.path(name + ".pem.revoked"))
	if err != nil {
		return nil
	}
	der, err := readPEM(a.path(name+".key"), "PRIVATE KEY")
	if err != nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil
	}
	if k, ok := key.(*ecdsa.PrivateKey); !ok || !k.PublicKey.Equal(retired.PublicKey) {
		return nil
	}
	return os.Remove(a.path(name + ".key"))
}

func (a *Authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) issuedPath(serial *big.Int) string {
	return filepath.Join(a.dir, issuedDir, serial.Text(16)+".pem")
}

// keep notes a certificate, before anybody gets it.
func (a *Authority) keep(cert *x509.Certificate) error {
	if err := os.MkdirAll(filepath.Join(a.dir, issuedDir), 0o700); err != nil {
		return err
	}
	return writePEM(a.issuedPath(cert.SerialNumber), "CERTIFICATE", cert.Raw, 0o644)
}

// valid returns the certificates of a name that have not expired, whatever their files are called.
func (a *Authority) valid(name string) (list []*x509.Certificate, err error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(a.dir), issuedDir, "*.pem"))
	if err != nil {
		return nil, err
	}
	for _, path := range append(paths, a.path(name+".pem")) {
		own := path == a.path(name+".pem")
		cert, err := readCertificate(path)
		switch {
		case err == nil && (own || cert.Subject.CommonName == name && a.now().Before(cert.NotAfter)):
			list = append(list, cert)
		case err != nil && own && !errors.Is(err, os.ErrNotExist) && len(list) == 0:
			return nil, err
		}
	}
	return list, nil
}

// escapeGlob makes a path match itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func listed(list *x509.RevocationList, serial *big.Int) bool {
	return slices.ContainsFunc(list.RevokedCertificateEntries,
		func(e x509.RevocationListEntry) bool { return e.SerialNumber.Cmp(serial) == 0 })
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

// writePEM replaces a file: a reader, also after a crash, sees the old one or the new one, never a part.
func writePEM(path, kind string, der []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = errors.Join(f.Chmod(mode), pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Sync())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readPEM(path, kind string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(bytes.TrimSpace(data))
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s in PEM", path, kind)
	}
	return block.Bytes, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	der, err := readPEM(path, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

func parseList(path string) (*x509.RevocationList, error) {
	der, err := readPEM(path, "X509 CRL")
	if err != nil {
		return nil, err
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}
