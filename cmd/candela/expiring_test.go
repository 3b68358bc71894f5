package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
	"candela.dev/candela/orchestrator/config"
)

func TestAnOrchestratorIsWarnedOnceOfItsCertificatesEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	if _, err := pki.Create(dir, "lab", time.Now); err != nil {
		t.Fatal(err)
	}
	old, err := pki.Open(dir, func() time.Time { return time.Now().Add(10*24*time.Hour - pki.Lifetime) })
	if err != nil {
		t.Fatal(err)
	}
	files, err := old.Issue("nightly", transport.Orchestrator, nil)
	if err != nil {
		t.Fatal(err)
	}
	bed := &config.Testbed{Name: "rack",
		Live: &config.Live{Certificates: &config.Certificates{Cert: files.Cert, Key: files.Key, CA: files.CA,
			CRL: files.CRL}}}
	var live livebeds
	var said bytes.Buffer
	live.warn(&said, bed)
	live.warn(&said, bed)
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "nightly.pem expires at") ||
		!strings.Contains(text, "pki renew") {
		t.Errorf("it is told %q", text)
	}
	// After renewal the warning disappears.
	var out bytes.Buffer
	if exit := run(t.Context(), []string{"agent", "pki", "renew", dir}, &out, &out); exit != 0 ||
		!strings.Contains(out.String(), "renewed nightly") {
		t.Errorf("exit %d: %s", exit, out.String())
	}
	if lines := expiring(bed, time.Now()); len(lines) > 0 {
		t.Errorf("after the renewal: %q", lines)
	}
}
