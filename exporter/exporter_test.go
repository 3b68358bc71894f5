package exporter_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"candela.dev/candela/exporter"
)

func TestRDMACountersAreThoseOfSysfs(t *testing.T) {
	root := t.TempDir()
	if n := testutil.CollectAndCount(&exporter.RDMA{Root: root}); n != 0 {
		t.Errorf("%d counters of a machine without RDMA", n)
	}
	dir := filepath.Join(root, "mlx5_0/ports/1/hw_counters")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"out_of_sequence": "17\n", "np_cnp_sent": "3\n", "lifespan": "10\n",
		"odd": "n/a\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const want = `# HELP candela_rdma_hw_counter Counter in ports/N/hw_counters of an RDMA device, as the driver counts it.
# TYPE candela_rdma_hw_counter counter
candela_rdma_hw_counter{counter="np_cnp_sent",device="mlx5_0",port="1"} 3
candela_rdma_hw_counter{counter="out_of_sequence",device="mlx5_0",port="1"} 17
`
	if err := testutil.CollectAndCompare(&exporter.RDMA{Root: root}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestServeAnswersUntilItIsStopped(t *testing.T) {
	at, stop, err := exporter.Serve(t.Context(), "127.0.0.1:0", exporter.New("v1", "test"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := exporter.Serve(t.Context(), at.String(), exporter.New("v1", "test")); err == nil ||
		!strings.HasPrefix(err.Error(), "metrics: ") {
		t.Errorf("a second server on %v: %v", at, err)
	}
	answer, err := http.Get("http://" + at.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if !strings.Contains(string(text), `candela_build_info{command="test",version="v1"} 1`) {
		t.Errorf("%s", text)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + at.String() + "/metrics"); err == nil {
		t.Error("it answers after it was stopped")
	}
}
