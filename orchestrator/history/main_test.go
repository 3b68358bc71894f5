package history_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/runtimetest"
)

// server is the PostgreSQL of the package's tests.
var server runtimetest.Postgres

func TestMain(m *testing.M) {
	if os.Getenv(writerVariable) != "" {
		os.Exit(writeUntilKilled())
	}
	status := m.Run()
	server.Stop()
	os.Exit(status)
}

// postgres returns the address of a new database, or skips the test.
func postgres(t testing.TB) string {
	t.Helper()
	return server.Database(t)
}

// engines runs a test on both engines.
func engines(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "history.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgres(t)) })
}

func open(t testing.TB, address string) *history.Store {
	t.Helper()
	s, err := history.Open(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
