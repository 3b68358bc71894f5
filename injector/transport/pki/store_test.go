package pki_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
)

// asCommand gives this process, a copy of the test, its task: "revoke|issue|renew DIR NAME".
const asCommand = "CANDELA_TEST_PKI"

func TestMain(m *testing.M) {
	if task := os.Getenv(asCommand); task != "" {
		if err := command(task); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func command(task string) error {
	var what, dir, name string
	if _, err := fmt.Sscan(task, &what, &dir, &name); err != nil {
		return err
	}
	a, err := pki.Open(dir, time.Now)
	if err != nil {
		return err
	}
	switch what {
	case "revoke":
		return a.Revoke(name)
	case "issue":
		_, err := a.Issue(name, transport.Viewer, nil)
		return err
	}
	_, err = a.Renew([]string{name}, 0)
	return err
}

func start(t *testing.T, what, dir, name string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asCommand+"="+what+" "+dir+" "+name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// revokedSerials reads the list as anybody would.
func revokedSerials(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "revoked.crl"))
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(data)
	if block == nil || len(rest) > 0 {
		t.Fatalf("revoked.crl is no PEM: %q", data)
	}
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	var serials []string
	for _, e := range list.RevokedCertificateEntries {
		serials = append(serials, e.SerialNumber.String())
	}
	return serials
}

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("%s is no PEM", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issued makes n certificates and returns names and serial numbers.
func issued(t *testing.T, a *pki.Authority, dir string, n int) (names, serials []string) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		issue(t, a, name, transport.Viewer, nil)
		names, serials = append(names, name),
			append(serials, certificate(t, filepath.Join(dir, name+".pem")).SerialNumber.String())
	}
	return names, serials
}

// tidy wants nothing left of commands that were killed.
func tidy(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".tmp-") || strings.HasSuffix(e.Name(), ".new") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestConcurrentRevocationsAllReachTheList(t *testing.T) {
	a, dir := create(t)
	names, serials := issued(t, a, dir, 24)
	var all sync.WaitGroup
	for _, name := range names {
		cmd := start(t, "revoke", dir, name)
		all.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("revoke %s: %v", name, err)
			}
		})
	}
	all.Wait()
	got := revokedSerials(t, dir)
	for i, s := range serials {
		if !slices.Contains(got, s) {
			t.Errorf("%s (serial %s) is not on the list", names[i], s)
		}
	}
	if len(got) != len(serials) {
		t.Errorf("%d entries for %d certificates", len(got), len(serials))
	}
}

// TestKilledRevocationsLoseNothing kills commands at random times. What a command has reported stays revoked, and what
// it has not reported can be revoked afterwards.
func TestKilledRevocationsLoseNothing(t *testing.T) {
	a, dir := create(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	names, serials := issued(t, a, dir, 24)
	var mu sync.Mutex
	var reported []string
	killed := 0
	var all sync.WaitGroup
	for round, name := range names {
		cmd := start(t, "revoke", dir, name)
		other := start(t, []string{"issue", "renew"}[round%2], dir, fmt.Sprintf("other%d", round/2))
		patience := time.Duration(random.IntN(40)) * time.Millisecond
		for _, c := range []*exec.Cmd{cmd, other} {
			all.Go(func() {
				timer := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
				err := c.Wait()
				timer.Stop()
				mu.Lock()
				defer mu.Unlock()
				switch {
				case c.ProcessState.ExitCode() < 0:
					killed++
				case c == cmd && err == nil:
					reported = append(reported, serials[round])
				case c == cmd:
					t.Errorf("revoke %s: %v", name, err)
				}
			})
		}
		if round%4 == 3 {
			all.Wait()
		}
	}
	all.Wait()
	t.Logf("%d reported, %d killed", len(reported), killed)
	if killed == 0 || len(reported) == 0 {
		t.Logf("the machine was too fast or too slow for the kills to fall into the work")
	}
	got := revokedSerials(t, dir)
	for _, s := range reported {
		if !slices.Contains(got, s) {
			t.Errorf("serial %s was reported as revoked, and is not on the list", s)
		}
	}
	for _, name := range names {
		if err := a.Revoke(name); err != nil {
			t.Errorf("revoke %s again: %v", name, err)
		}
	}
	got = revokedSerials(t, dir)
	for i, s := range serials {
		if !slices.Contains(got, s) {
			t.Errorf("%s (serial %s) is not on the list", names[i], s)
		}
		for _, file := range []string{".pem", ".key"} {
			if _, err := os.Stat(filepath.Join(dir, names[i]+file)); err == nil {
				t.Errorf("%s%s is still there", names[i], file)
			}
		}
	}
	tidy(t, dir)
}

func TestOfConcurrentIssuesOfOneNameOneSucceeds(t *testing.T) {
	a, dir := create(t)
	_, serials := issued(t, a, dir, 6)
	var all sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 6 {
		same, other, revoking := start(t, "issue", dir, "same"), start(t, "issue", dir, fmt.Sprintf("m%d", i)),
			start(t, "revoke", dir, fmt.Sprintf("n%d", i))
		all.Go(func() {
			if same.Wait() == nil {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
		all.Go(func() {
			if err := other.Wait(); err != nil {
				t.Errorf("another name: %v", err)
			}
		})
		all.Go(func() {
			if err := revoking.Wait(); err != nil {
				t.Errorf("a revocation beside: %v", err)
			}
		})
	}
	all.Wait()
	if won != 1 {
		t.Errorf("%d commands say that they have issued the same name", won)
	}
	for _, name := range []string{"same", "m0", "m5"} {
		if _, err := (transport.Files{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+".key"),
			CA: filepath.Join(dir, "ca.pem"), CRL: filepath.Join(dir, "revoked.crl")}).Deadlines(time.Now()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := revokedSerials(t, dir); len(got) != len(serials) {
		t.Errorf("%d of %d are on the list", len(got), len(serials))
	}
}

// TestWhatAKilledCommandLeftIsCompleted creates each state that a command leaves if it is killed between two steps.
func TestWhatAKilledCommandLeftIsCompleted(t *testing.T) {
	copied := func(t *testing.T, from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, leave := range map[string]func(t *testing.T, a *pki.Authority, file func(string) string){
		"a part of a list": func(t *testing.T, _ *pki.Authority, file func(string) string) {
			if err := os.WriteFile(file("revoked.crl.new"), []byte("-----BEGIN X509 CRL-----\nMII"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"a whole list that has no name yet": func(t *testing.T, a *pki.Authority, file func(string) string) {
			copied(t, file("revoked.crl"), file("before"))
			copied(t, file("one.pem"), file("kept.pem"))
			copied(t, file("one.key"), file("kept.key"))
			if err := a.Revoke("one"); err != nil {
				t.Fatal(err)
			}
			for _, r := range [][2]string{{"revoked.crl", "revoked.crl.new"}, {"before", "revoked.crl"}, {"kept.pem", "one.pem"},
				{"kept.key", "one.key"}} {
				if err := os.Rename(file(r[0]), file(r[1])); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a list, and the files of a revoked certificate": func(t *testing.T, a *pki.Authority, file func(string) string) {
			copied(t, file("one.pem"), file("kept"))
			copied(t, file("one.key"), file("kept2"))
			if err := a.Revoke("one"); err != nil {
				t.Fatal(err)
			}
			copied(t, file("kept"), file("one.pem"))
			copied(t, file("kept2"), file("one.key"))
		},
		"the key of a revoked certificate": func(t *testing.T, a *pki.Authority, file func(string) string) {
			copied(t, file("one.key"), file("kept"))
			if err := a.Revoke("one"); err != nil {
				t.Fatal(err)
			}
			copied(t, file("kept"), file("one.key"))
		},
		"a part of a file": func(t *testing.T, _ *pki.Authority, file func(string) string) {
			if err := os.WriteFile(file(".tmp-123"), []byte("-----"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the key of a certificate that was never issued": func(t *testing.T, _ *pki.Authority, file func(string) string) {
			copied(t, file("one.key"), file("two.key"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, dir := create(t)
			issue(t, a, "one", transport.Viewer, nil)
			serial := certificate(t, filepath.Join(dir, "one.pem")).SerialNumber.String()
			leave(t, a, func(name string) string { return filepath.Join(dir, name) })
			issue(t, a, "two", transport.Viewer, nil)
			if err := a.Revoke("one"); err != nil {
				t.Errorf("revoke: %v", err)
			}
			if got := revokedSerials(t, dir); !slices.Equal(got, []string{serial}) {
				t.Errorf("revoked are %v, want %s alone", got, serial)
			}
			for _, file := range []string{"one.pem", "one.key"} {
				if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
					t.Errorf("%s is still there", file)
				}
			}
			tidy(t, dir)
			issue(t, a, "one", transport.Viewer, nil)
		})
	}
}

func TestAnAuthorityWhoseMakingWasCutShortIsMadeAnew(t *testing.T) {
	_, dir := create(t)
	if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	a, err := pki.Create(dir, "lab", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	issue(t, a, "one", transport.Viewer, nil)
}

// An empty list in place of a lost one would admit everybody who was ever revoked.
func TestALostListIsNotReplaced(t *testing.T) {
	a, dir := create(t)
	issue(t, a, "one", transport.Viewer, nil)
	if err := os.Remove(filepath.Join(dir, "revoked.crl")); err != nil {
		t.Fatal(err)
	}
	if err := a.Revoke("one"); err == nil || !strings.Contains(err.Error(), "bring one back") {
		t.Errorf("revoke: %v", err)
	}
	if _, err := a.Renew(nil, 0); err == nil {
		t.Error("a list was made from nothing")
	}
}

func TestARenewedCertificateKeepsItsKeyAndIsRevokedWithTheOneBefore(t *testing.T) {
	now := time.Now()
	dir := filepath.Join(t.TempDir(), "lab")
	a, err := pki.Create(dir, "lab", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	issue(t, a, "host", transport.Agent, loopback)
	before := certificate(t, filepath.Join(dir, "host.pem"))
	if done, err := a.Renew(nil, transport.Ahead); err != nil || len(done.Names) != 0 || done.Authority {
		t.Errorf("nothing expires: %+v, %v", done, err)
	}
	now = now.Add(pki.Lifetime - 20*24*time.Hour)
	files := transport.Files{Cert: filepath.Join(dir, "host.pem"), Key: filepath.Join(dir, "host.key"),
		CA:  filepath.Join(dir, "ca.pem"),
		CRL: filepath.Join(dir, "revoked.crl")}
	list, err := files.Deadlines(now)
	if err != nil || len(list) != 2 || list[0].What != "certificate" || list[1].What != "revocation list" {
		t.Errorf("what expires soon: %v, %v", list, err)
	}
	done, err := a.Renew(nil, transport.Ahead)
	if err != nil || !slices.Equal(done.Names, []string{"host"}) {
		t.Fatalf("%+v, %v", done, err)
	}
	after := certificate(t, filepath.Join(dir, "host.pem"))
	if k, ok := after.PublicKey.(*ecdsa.PublicKey); !ok || !k.Equal(before.PublicKey) ||
		after.SerialNumber.Cmp(before.SerialNumber) == 0 ||
		!after.NotAfter.After(before.NotAfter) || after.URIs[0].String() != before.URIs[0].String() ||
		len(after.IPAddresses) != 1 {
		t.Errorf("renewed: %+v", after)
	}
	if list, err := files.Deadlines(now); err != nil || len(list) != 0 {
		t.Errorf("after the renewal: %v, %v", list, err)
	}
	if err := a.Revoke("host"); err != nil {
		t.Fatal(err)
	}
	got := revokedSerials(t, dir)
	for _, c := range []*x509.Certificate{before, after} {
		if !slices.Contains(got, c.SerialNumber.String()) {
			t.Errorf("serial %v is not revoked", c.SerialNumber)
		}
	}
	if _, err := a.Renew([]string{"host"}, 0); err == nil {
		t.Error("a revoked certificate is renewed")
	}
}

func TestAnAuthorityThatExpiresIsRenewedWithItsKey(t *testing.T) {
	now := time.Now()
	dir := filepath.Join(t.TempDir(), "lab")
	a, err := pki.Create(dir, "lab", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	before := certificate(t, filepath.Join(dir, "ca.pem"))
	now = before.NotAfter.Add(-100 * 24 * time.Hour)
	issue(t, a, "host", transport.Agent, loopback)
	if c := certificate(t, filepath.Join(dir, "host.pem")); c.NotAfter.After(before.NotAfter) {
		t.Errorf("a certificate outlives its authority: %v", c.NotAfter)
	}
	done, err := a.Renew(nil, transport.Ahead)
	if err != nil || !done.Authority {
		t.Fatalf("%+v, %v", done, err)
	}
	after := certificate(t, filepath.Join(dir, "ca.pem"))
	issue(t, a, "host-2", transport.Agent, loopback)
	for _, ca := range []*x509.Certificate{before, after} {
		if err := certificate(t, filepath.Join(dir, "host-2.pem")).CheckSignatureFrom(ca); err != nil {
			t.Errorf("held to the authority's certificate until %v: %v", ca.NotAfter, err)
		}
	}
}

func TestADirectoryThatOthersMayReadOrWriteIsRefused(t *testing.T) {
	_, dir := create(t)
	for path, modes := range map[string][2]os.FileMode{dir: {0o777, 0o755}, filepath.Join(dir, "ca.key"): {0o640, 0o600}} {
		for i, mode := range modes {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if _, err := pki.Open(dir, time.Now); (err == nil) != (i == 1) {
				t.Errorf("%s with mode %v: %v", path, mode, err)
			}
		}
	}
}
