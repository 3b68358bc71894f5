package trace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTsharkReadsOurTraces(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed (Debian package tshark)")
	}
	file, c := story(t)
	path := filepath.Join(t.TempDir(), "trace.pcap")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	// tshark would take the payload, zeros, for RPC over RDMA and complain.
	out, err := exec.Command(tshark, "-r", path, "--disable-protocol", "rpcordma", "-o", "ip.check_checksum:TRUE", "-T",
		"fields", "-e", "frame.time_epoch", "-e", "eth.src", "-e", "eth.dst",
		"-e", "ip.ttl", "-e", "ip.checksum.status", "-e", "udp.dstport", "-e", "infiniband.bth.opcode", "-e",
		"infiniband.bth.psn",
		"-e", "_ws.malformed").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	var want []string
	checked, _, err := Check(t.Context(), memorySource(path, file), Options{Connections: c})
	if err != nil {
		t.Fatal(err)
	}
	mac := func(v uint64) string {
		var b [6]byte
		putUint48(b[:], v)
		return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
	}
	err = checked.ForEach(t.Context(), func(r *Record) error {
		epoch := int64(1e18) + r.TimeNS // as mirrorFile writes it
		want = append(want, fmt.Sprintf("%d.%09d\t%s\t%s\t%d\t1\t4791\t%d\t%d", epoch/1e9, epoch%1e9, mac(r.ID),
			mac(uint64(r.TimeNS)),
			r.Event, r.Opcode, uint32(r.PSN)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
