package vm_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/vm"
)

// packages returns the directory of a kernel package fetched by make vm-image, or skips the test.
func packages(t *testing.T) string {
	t.Helper()
	if os.Getenv("CANDELA_TEST_VM") == "" {
		t.Skip("SKIP-slow: making images takes a while; make test-vm runs it")
	}
	found, err := filepath.Glob("../../.cache/vm/packages/linux-image-6.1*/boot/vmlinuz-*")
	if err != nil || len(found) == 0 {
		t.Skipf("SKIP-packages: no kernel package was fetched (make vm-image): %v", err)
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// makeImage makes an image of the given kernel in its own cache.
func makeImage(t *testing.T, vmlinuz string) string {
	t.Helper()
	cache := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tools/vm-image", "--kernel", vmlinuz, "--modules",
		filepath.Dir(filepath.Dir(vmlinuz)), "--name", "mine")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CANDELA_VM_CACHE="+cache)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(cache, "mine")
}

func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func TestTheSameInputsMakeTheSameImageAndAKernelOfTheUsersBoots(t *testing.T) {
	vmlinuz := packages(t)
	image, second := makeImage(t, vmlinuz), makeImage(t, vmlinuz)
	for _, name := range []string{"kernel", "initramfs", "image.json"} {
		a, b := digest(t, filepath.Join(image, name)), digest(t, filepath.Join(second, name))
		if a != b {
			t.Errorf("%s differs: %s and %s", name, a, b)
		}
		t.Logf("%s: %s", name, a)
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("SKIP-qemu: qemu-system-x86_64 is not installed (tools/setup --vm)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	guests, err := vm.Up(ctx, vm.Config{Image: image, NoSnapshot: true, NoKVM: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := guests.Close(); err != nil {
			t.Error(err)
		}
	}()
	outcome := run(t, guests, planOf(t, lossyWrite()))
	if e := outcome.Verdict.Exit; e != orchestrator.ExitPass && e != orchestrator.ExitFail {
		t.Errorf("%+v", outcome.Verdict)
	}
	const most = 350 << 10
	for _, n := range guests.ResidentKiB() {
		t.Logf("a guest takes %d KiB", n)
		if n > most {
			t.Errorf("a guest takes %d KiB, want at most %d", n, most)
		}
	}
}
