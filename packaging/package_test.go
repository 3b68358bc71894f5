//go:build linux

// Package packaging_test checks the Debian package: its sources always, the package itself with CANDELA_TEST_PACKAGE=1,
// in a guest with systemd (make test-package).
package packaging_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// units are the systemd units of the package.
var units = []string{"candela-agent.service", "candela-switchd.service", "candela-pki.service", "candela-pki.timer",
	"candela-nightly.service", "candela-nightly.timer"}

func TestSystemdHasNothingToSayAboutTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIP-systemd: systemd-analyze is not installed")
	}
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, unit := range units {
		text, err := os.ReadFile(filepath.Join("systemd", unit))
		if err != nil {
			t.Fatal(err)
		}
		// The program need not be installed here; the guest checks its path.
		copied := strings.ReplaceAll(string(text), "/usr/bin/candela ", "/bin/true ")
		if copied == string(text) && filepath.Ext(unit) == ".service" {
			t.Errorf("%s does not start /usr/bin/candela", unit)
		}
		file := filepath.Join(dir, unit)
		if err := os.WriteFile(file, []byte(copied), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "candela") {
			t.Errorf("systemd-analyze verify: %s", line)
		}
	}
	if err != nil {
		t.Logf("systemd-analyze: %v\n%s", err, out)
	}
}

// TestTheRecipeForGitLabIsWhatGitLabReads lists the jobs of the recipe with gitlab-ci-local, which knows GitLab's
// schema of such files, and of copies with a mistake. (actionlint reads that for GitHub in make lint.)
func TestTheRecipeForGitLabIsWhatGitLabReads(t *testing.T) {
	program, err := filepath.Abs("../tools/gitlab/node_modules/.bin/gitlab-ci-local")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("SKIP: no gitlab-ci-local; tools/setup installs it with npm")
	}
	recipe, err := os.ReadFile("ci/gitlab-nightly.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ old, new, want string }{
		{"", "", "nightly"},
		{"when: always", "whenever: always", "'whenever' property is not expected"},
		{"  stage: nightly", "  stage: evening", "evening not found"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, ".gitlab-ci.yml")
		text := strings.Replace(string(recipe), tt.old, tt.new, 1)
		if tt.old != "" && text == string(recipe) {
			t.Fatalf("the recipe has no %q", tt.old)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// It asks git where the project lives.
		for _, args := range [][]string{{"init", "-q", "-b", "main"},
			{"remote", "add", "origin", "git@gitlab.example.com:lab/nights.git"}} {
			git := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
			if out, err := git.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		list := exec.CommandContext(t.Context(), program, "--list-all")
		list.Dir = dir
		out, err := list.CombinedOutput()
		if (err == nil) != (tt.old == "") || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v, want %q\n%s", tt.new, err, tt.want, out)
		}
	}
}

func TestTheScriptsOfThePackageAreShell(t *testing.T) {
	for _, name := range []string{"scripts/postinst", "scripts/prerm", "scripts/postrm", "testdata/guest.sh"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "#!/bin/sh\n") {
			t.Errorf("%s is for another shell", name)
		}
		if strings.HasPrefix(name, "scripts/") && !strings.Contains(string(text), "\nset -e\n") {
			t.Errorf("%s goes on after an error", name)
		}
		if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-n", name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// built returns the newest package in dist, or skips.
func built(t *testing.T) string {
	t.Helper()
	if os.Getenv("CANDELA_TEST_PACKAGE") == "" {
		t.Skip("SKIP-package: make test-package builds the package and installs it in a guest")
	}
	found, err := filepath.Glob("../dist/candela_*.deb")
	if err != nil || len(found) == 0 {
		t.Skip("SKIP-package: there is no package in dist; make deb builds it")
	}
	age := func(name string) time.Time {
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	return slices.MaxFunc(found, func(a, b string) int { return age(a).Compare(age(b)) })
}

func tool(t *testing.T, name, from string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIP-package: %s is not installed (%s)", name, from)
	}
	return path
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestThePackageIsWhatDebianExpects(t *testing.T) {
	deb := built(t)
	dpkg := tool(t, "dpkg-deb", "dpkg")
	fields := output(t, dpkg, "--field", deb)
	for _, want := range []string{
		`(?m)^Package: candela$`, `(?m)^Version: \d+\.\d+\.\d+\S*$`, `(?m)^Architecture: (amd64|arm64)$`,
		`(?m)^Maintainer: .+ <\S+@\S+>$`,
		`(?m)^Section: net$`, `(?m)^Priority: optional$`, `(?m)^Installed-Size: [1-9]\d*$`,
		`(?m)^Description: [A-Z][^.]{1,79}`,
	} {
		if !regexp.MustCompile(want).MatchString(fields) {
			t.Errorf("its fields don't match %s:\n%s", want, fields)
		}
	}
	contents := output(t, dpkg, "--contents", deb)
	for _, want := range []string{
		`-rwxr-xr-x root/root .* \./usr/bin/candela\n`,
		`-rwxr-xr-x root/root .* \./usr/lib/candela/candela-verbs\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/candela-agent\.service\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/candela-switchd\.service\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/candela-pki\.timer\n`,
		`-rw-r--r-- root/root .* \./etc/candela/agent\.env\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/candela-nightly\.service\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/candela-nightly\.timer\n`,
		`-rw-r--r-- root/root .* \./etc/candela/nightly\.yml\n`,
		`-rw------- root/root .* \./etc/candela/nightly\.env\n`,
		`-rw-r--r-- root/root .* \./usr/share/doc/candela/grafana\.json\n`,
		`-rw-r--r-- root/root .* \./usr/share/doc/candela/github-nightly\.yml\n`,
		`-rw-r--r-- root/root .* \./usr/share/doc/candela/gitlab-nightly\.yml\n`,
		`-rw-r--r-- root/root .* \./usr/share/doc/candela/copyright\n`,
		`-rw-r--r-- root/root .* \./usr/share/doc/candela/live\.md\n`,
		`-rw-r--r-- root/root .* \./usr/share/doc/candela/changelog\.gz\n`,
		`-rw-r--r-- root/root .* \./usr/share/man/man1/candela-run\.1\.gz\n`,
		`-rw-r--r-- root/root .* \./usr/share/bash-completion/completions/candela\n`,
		`-rw-r--r-- root/root .* \./usr/share/zsh/vendor-completions/_candela\n`,
		`-rw-r--r-- root/root .* \./usr/share/fish/vendor_completions\.d/candela\.fish\n`,
	} {
		if !regexp.MustCompile(want).MatchString(contents) {
			t.Errorf("its contents don't match %s:\n%s", want, contents)
		}
	}
	for line := range strings.Lines(contents) {
		if strings.Contains(line, "/usr/local/") || strings.Contains(line, "/root/") ||
			!strings.Contains(line, " root/root ") {
			t.Errorf("a file that belongs to nobody's package: %s", line)
		}
	}
	dir := t.TempDir()
	output(t, dpkg, "--control", deb, dir)
	text, err := os.ReadFile(filepath.Join(dir, "conffiles"))
	if err != nil || string(text) !=
		"/etc/candela/agent.env\n/etc/candela/nightly.env\n/etc/candela/nightly.yml\n/etc/candela/switchd.env\n" {
		t.Errorf("conffiles %q, %v", text, err)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if info, err := os.Stat(filepath.Join(dir, script)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", script, info, err)
		}
	}
}

// guestTime limits the guest's run: half a minute of processor time, which takes longer on a busy machine.
const guestTime = 15 * time.Minute

// TestThePackageInstallsRunsAndLeavesNothing boots a guest that runs testdata/guest.sh.
func TestThePackageInstallsRunsAndLeavesNothing(t *testing.T) {
	deb := built(t)
	qemu, cpio := tool(t, "qemu-system-x86_64", "tools/setup --vm"), tool(t, "cpio", "tools/setup --vm")
	image := "../.cache/vm/debian"
	if _, err := os.Stat(filepath.Join(image, "initramfs")); err != nil {
		t.Skip("SKIP-package: there is no Debian to boot; tools/package-image makes it")
	}
	dir := t.TempDir()
	initrd, console := filepath.Join(dir, "initrd"), filepath.Join(dir, "console")
	appended(t, cpio, filepath.Join(image, "initramfs"), initrd, deb)
	ctx, cancel := context.WithTimeout(t.Context(), guestTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, "-accel", "tcg,tb-size=128", "-M", "q35", "-smp", "2", "-m", "1024",
		"-nodefaults", "-no-user-config",
		"-display", "none", "-no-reboot", "-kernel", filepath.Join(image, "kernel"), "-initrd", initrd, "-serial",
		"file:"+console,
		"-append",
		"console=ttyS0 loglevel=4 panic=-1 clocksource=hpet tsc=unstable systemd.show_status=0 systemd.log_level=warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := time.Now()
	out, err := cmd.CombinedOutput()
	said, readErr := os.ReadFile(console)
	if err != nil || readErr != nil {
		t.Fatalf("the guest: %v, %v\n%s\n%s", err, readErr, out, said)
	}
	judge(t, string(said))
	t.Logf("the guest took %v", time.Since(start).Round(time.Second))
}

// judge evaluates the guest's output. Every check of the script must have finished.
func judge(t *testing.T, said string) {
	t.Helper()
	script, err := os.ReadFile("testdata/guest.sh")
	if err != nil {
		t.Fatal(err)
	}
	said = strings.ReplaceAll(said, "\r", "")
	for _, m := range regexp.MustCompile(`(?m)^check "([^"]+)"`).FindAllStringSubmatch(string(script), -1) {
		switch name := m[1]; {
		case strings.Contains(said, "CHECK ok "+name+"\n"):
		case strings.Contains(said, "CHECK failed "+name+": "):
			_, what, _ := strings.Cut(said, "CHECK failed "+name+": ")
			what, _, _ = strings.Cut(what, "\n")
			t.Errorf("%s: %s", name, strings.ReplaceAll(what, "|", "\n  "))
		default:
			t.Errorf("%s: the guest did not come to it", name)
		}
	}
	if !strings.Contains(said, "CHECK done") || t.Failed() {
		t.Errorf("the console:\n%s", said)
	}
}

// appended writes base, followed by an initramfs with the package, the script and the unit that runs it.
func appended(t *testing.T, cpio, base, result, deb string) {
	t.Helper()
	root := t.TempDir()
	wants := filepath.Join(root, "overlay/etc/systemd/system/multi-user.target.wants")
	err := errors.Join(os.MkdirAll(wants, 0o755), os.MkdirAll(filepath.Join(root, "overlay/root"), 0o755),
		os.Symlink("../candela-package-test.service", filepath.Join(wants, "candela-package-test.service")))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		deb: "root/" + filepath.Base(deb), "testdata/guest.sh": "root/guest.sh",
		"testdata/candela-package-test.service": "etc/systemd/system/candela-package-test.service",
	} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "overlay", to), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(result)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := os.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `find . | "$0" --quiet -o -H newc -R 0:0`, cpio)
	cmd.Dir, cmd.Stdout = root, out
	if err := cmd.Run(); err != nil {
		t.Fatalf("cpio: %v", err)
	}
}
