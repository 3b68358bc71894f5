package p4_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"candela.dev/candela/injector/p4"
)

var update = flag.Bool("update", false, "write what the compiler makes")

// The compiler's program for bmv2, and the one that checks types alone.
const (
	compiler = "p4c-bm2-ss"
	checker  = "p4test"
)

// need returns the path of a program, or skips.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("SKIP-p4: %s is not on the PATH", program)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// compile runs the compiler in the directory of the sources.
func compile(t *testing.T, program string, args ...string) {
	t.Helper()
	text, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, text)
	}
	if len(text) > 0 {
		t.Logf("%s: %s", program, text)
	}
}

// compare compares a committed file with what the compiler made, or writes that.
func compare(t *testing.T, name string, made []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, made, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	committed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withoutLines(committed), withoutLines(made)); diff != "" {
		t.Errorf(
			"%s is not what this compiler makes of the sources; another version may make another program of them, otherwise:"+
				" go test ./injector/p4 -run P4 -update\n%s", name, diff)
	}
}

// generated is a name that the compiler makes from a source file and a line number.
var generated = regexp.MustCompile(`\b(tbl_)?(injector_v1model|tables|events|constants|headers|parser|opcodes)(\d+)\b`)

// withoutLines renumbers such names from 1 in order of appearance: a comment in the sources moves lines without
// changing the program.
func withoutLines(program []byte) string {
	names := map[string]int{}
	return generated.ReplaceAllStringFunc(string(program), func(name string) string {
		parts := generated.FindStringSubmatch(name)
		place := parts[2] + parts[3]
		if names[place] == 0 {
			names[place] = len(names) + 1
		}
		return fmt.Sprintf("%s%s#%d", parts[1], parts[2], names[place])
	})
}

func TestLinesOfTheSourcesAreNoDifferenceBetweenPrograms(t *testing.T) {
	committed := p4.BMv2()
	lines := 0
	moved := regexp.MustCompile(`injector_v1model\d+`).ReplaceAllFunc(committed, func(name []byte) []byte {
		lines++
		n, err := strconv.Atoi(strings.TrimPrefix(string(name), "injector_v1model"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, "injector_v1model%d", n+7)
	})
	if lines == 0 || bytes.Equal(moved, committed) {
		t.Fatal("the compiled program has no names with line numbers: this test shows nothing")
	}
	if diff := cmp.Diff(withoutLines(committed), withoutLines(moved)); diff != "" {
		t.Errorf("a comment of seven lines makes another program: %s", diff)
	}
	for old, other := range map[string]string{
		`"name":"ipv4_options_t"`:   `"name":"ipv4_option_t"`,    // another name
		`"tbl_injector_v1model106"`: `"tbl_injector_v1model109"`, // another generated one at one place
		`"I.r_epoch","size":`:       `"I.r_epoch","size":1`,      // another number
	} {
		if !bytes.Contains(committed, []byte(old)) {
			t.Errorf("the program has no %s", old)
		}
		changed := bytes.Replace(committed, []byte(old), []byte(other), 1)
		if withoutLines(changed) == withoutLines(committed) {
			t.Errorf("%s for %s is no difference", other, old)
		}
	}
}

func TestP4SourcesCompileToWhatIsCommitted(t *testing.T) {
	program := need(t, compiler)
	dir := t.TempDir()
	object, info := filepath.Join(dir, "bmv2.json"), filepath.Join(dir, "bmv2.p4info.txtpb")
	compile(t, program, "--Wdisable", "-o", object, "--p4runtime-files", info, "injector_v1model.p4")
	text, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "bmv2.json", portable(t, text))
	if text, err = os.ReadFile(info); err != nil {
		t.Fatal(err)
	}
	compare(t, "bmv2.p4info.txtpb", text)
}

func TestP4PassesOfHardwareCompileForBMv2(t *testing.T) {
	program := need(t, compiler)
	dir := t.TempDir()
	info := filepath.Join(dir, "p4info.txtpb")
	compile(t, program, "-DPASSES", "-DWITH_IPV4_OPTIONS", "--Wdisable", "-o", filepath.Join(dir, "passes.json"),
		"--p4runtime-files", info, "injector_v1model.p4")
	text, err := os.ReadFile(info)
	if err != nil {
		t.Fatal(err)
	}
	made := new(configpb.P4Info)
	if err := prototext.Unmarshal(text, made); err != nil {
		t.Fatal(err)
	}
	// Hardware needs other registers for the same; nobody but the program itself uses them.
	want := sorted(p4.Base().Proto())
	made = sorted(made)
	want.Registers, made.Registers = nil, nil
	if diff := cmp.Diff(want, made, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// portable returns a compiled program without what depends on where it was compiled.
func portable(t *testing.T, object []byte) []byte {
	t.Helper()
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "source_info")
			delete(v, "program")
			for _, e := range v {
				strip(e)
			}
		case []any:
			for _, e := range v {
				strip(e)
			}
		}
	}
	strip(tree)
	// One line for each table, action, …: small enough to commit and to read.
	var out bytes.Buffer
	members, ok := tree.(map[string]any)
	if !ok {
		t.Fatal("the compiler made no object")
	}
	out.WriteString("{")
	for i, key := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, "\n%q: ", key)
		writeLines(t, &out, members[key])
	}
	out.WriteString("\n}\n")
	return out.Bytes()
}

// writeLines writes a value, a list with one line for each element.
func writeLines(t *testing.T, out *bytes.Buffer, v any) {
	t.Helper()
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if ok {
		out.WriteString("[")
	}
	for i, e := range list {
		if i > 0 {
			out.WriteString(",")
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			out.WriteString("\n")
		}
		out.Write(text)
	}
	if ok {
		out.WriteString("]")
	}
}

func TestP4InfoOfOurSourcesIsTheContract(t *testing.T) {
	text, err := os.ReadFile("bmv2.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	made := new(configpb.P4Info)
	if err := prototext.Unmarshal(text, made); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(p4.Base().Proto()), sorted(made), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// sorted returns a P4Info with its entities in the order of their ids.
func sorted(pb *configpb.P4Info) *configpb.P4Info {
	pb = proto.Clone(pb).(*configpb.P4Info)
	byID := func(a, b interface{ GetPreamble() *configpb.Preamble }) int {
		return int(int64(a.GetPreamble().GetId()) - int64(b.GetPreamble().GetId()))
	}
	slices.SortFunc(pb.Tables, func(a, b *configpb.Table) int { return byID(a, b) })
	slices.SortFunc(pb.Actions, func(a, b *configpb.Action) int { return byID(a, b) })
	slices.SortFunc(pb.Counters, func(a, b *configpb.Counter) int { return byID(a, b) })
	slices.SortFunc(pb.DirectCounters, func(a, b *configpb.DirectCounter) int { return byID(a, b) })
	slices.SortFunc(pb.Registers, func(a, b *configpb.Register) int { return byID(a, b) })
	return pb
}

// includes is a directory with tna.p4, from the Tofino back end of the compiler's sources.
const includes = "CANDELA_TNA_INCLUDE"

func TestP4SourcesForTofinoTypeCheck(t *testing.T) {
	program := need(t, checker)
	dir := os.Getenv(includes)
	if dir == "" {
		t.Skipf("SKIP-p4: %s names no directory with tna.p4 and t2na.p4", includes)
	}
	for _, generation := range []string{"1", "2"} {
		compile(t, program, "-D__TARGET_TOFINO__="+generation, "-I", dir, "--Wdisable", "injector_tna.p4")
	}
}

// backend is the compiler for Tofino, assembler makes the switch's program of what it leaves.
const (
	backend   = "p4c-barefoot"
	assembler = "bfas"
)

// stageTable has the stages that the compiler needs, a line for each generation and direction; p4infoNames has ids and
// names of the P4Info that it makes. A line that is not there was never measured.
const (
	stageTable  = "tofino-stages.txt"
	p4infoNames = "tofino%d-p4info.txt"
)

// stageLine is a heading of the compiler's assembly.
var stageLine = regexp.MustCompile(`(?m)^stage (\d+) (ingress|egress):`)

// stagesOf returns how many stages each direction needs, by the assembly.
func stagesOf(assembly []byte) (list []string) {
	need := map[string]int{}
	for _, m := range stageLine.FindAllSubmatch(assembly, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		need[string(m[2])] = max(need[string(m[2])], n+1)
	}
	for _, direction := range slices.Sorted(maps.Keys(need)) {
		list = append(list, fmt.Sprintf("%s %d", direction, need[direction]))
	}
	return list
}

func TestStagesAreReadFromTheAssembly(t *testing.T) {
	got := stagesOf([]byte("version:\nstage 0 ingress:\n  a\nstage 11 ingress:\nstage 2 egress:\nstage 3 ghost:\n"))
	if want := []string{"egress 3", "ingress 12"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestP4SourcesCompileForTofino(t *testing.T) {
	program := need(t, backend)
	for generation, target := range map[int][2]string{1: {"tofino", "tna"}, 2: {"tofino2", "t2na"}} {
		t.Run(target[0], func(t *testing.T) {
			dir := t.TempDir()
			info := filepath.Join(dir, "p4info.txtpb")
			args := []string{"--target", target[0], "--arch", target[1], fmt.Sprintf("-D__TARGET_TOFINO__=%d", generation),
				"-o", dir, "--p4runtime-files", info, "--p4runtime-force-std-externs", "injector_tna.p4"}
			if include := os.Getenv(includes); include != "" {
				args = append([]string{"-I", include}, args...)
			}
			compile(t, program, args...)
			compareNames(t, fmt.Sprintf(p4infoNames, generation), info, generation)
			assembly := filepath.Join(dir, "pipe", "injector_tna.bfa")
			text, err := os.ReadFile(assembly)
			if err != nil {
				t.Fatal(err)
			}
			compareStages(t, target[0], stagesOf(text))
			if path, err := exec.LookPath(assembler); err == nil {
				compile(t, path, "--target", target[0], "-o", filepath.Join(dir, "pipe"), assembly)
				if _, err := p4.ReadDeviceConfig(dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// compareStages compares with the table, or writes a target's lines.
func compareStages(t *testing.T, target string, got []string) {
	t.Helper()
	text, err := os.ReadFile(stageTable)
	if err != nil {
		t.Fatal(err)
	}
	var others, known []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, target+" "); ok {
			known = append(known, strings.TrimSpace(rest))
		} else {
			others = append(others, line)
		}
	}
	switch {
	case *update:
		for _, line := range got {
			others = append(others, target+" "+line+"\n")
		}
		if err := os.WriteFile(stageTable, []byte(strings.Join(others, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	case known == nil:
		t.Logf("%s needs the stages %q; %s has none of it yet: tools/p4 go -update", target, got, stageTable)
	case !slices.Equal(known, got):
		t.Errorf("%s needs the stages %q; %s has %q", target, got, stageTable, known)
	}
}

// namesOf lists ids and names of a P4Info, without registers, which are no part of the contract.
func namesOf(pb *configpb.P4Info) string {
	var lines []string
	add := func(kind string, p *configpb.Preamble) {
		lines = append(lines, fmt.Sprintf("%s %#x %s\n", kind, p.GetId(), p.GetName()))
	}
	for _, e := range pb.GetTables() {
		add("table", e.GetPreamble())
	}
	for _, e := range pb.GetActions() {
		add("action", e.GetPreamble())
	}
	for _, e := range pb.GetCounters() {
		add("counter", e.GetPreamble())
	}
	for _, e := range pb.GetDirectCounters() {
		add("direct-counter", e.GetPreamble())
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// compareNames checks that what the compiler serves is the contract by name, and compares ids and names with the
// recorded ones, or writes these.
func compareNames(t *testing.T, name, path string, generation int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := p4.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := p4.Base()
	if generation == 1 {
		want = p4.Tofino1()
	}
	for _, table := range want.Tables() {
		have := info.Table(table.ID)
		if have == nil || !slices.Equal(have.Fields, table.Fields) {
			t.Errorf("no table %s with the contract's key", table.Name)
			continue
		}
		for _, a := range table.Actions {
			if ref := have.Offers(a.ID); ref == nil || !slices.Equal(ref.Params, a.Params) {
				t.Errorf("table %s has no action %s with the contract's parameters", table.Name, a.Name)
			}
		}
	}
	for _, c := range want.Counters() {
		if info.CounterNamed(c.Name) == nil {
			t.Errorf("no counter %s", c.Name)
		}
	}
	names := namesOf(info.Proto())
	recorded, err := os.ReadFile(name)
	switch {
	case *update:
		if err := os.WriteFile(name, []byte(names), 0o644); err != nil {
			t.Fatal(err)
		}
	case errors.Is(err, os.ErrNotExist):
		t.Logf("%s is not there yet: tools/p4 go -update", name)
	case err != nil:
		t.Fatal(err)
	default:
		if diff := cmp.Diff(string(recorded), names); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTheProgramForBMv2HasTheKeysOfTheContract(t *testing.T) {
	var program struct {
		Pipelines []struct {
			Tables []struct {
				Name string
				Key  []struct{ Name, MatchType string }
			}
		}
		Registers []struct {
			Name string
			Size int
		} `json:"register_arrays"`
	}
	if err := json.Unmarshal(p4.BMv2(), &program); err != nil {
		t.Fatal(err)
	}
	keys := map[string][]string{}
	for _, pipeline := range program.Pipelines {
		for _, table := range pipeline.Tables {
			keys[table.Name] = []string{}
			for _, k := range table.Key {
				keys[table.Name] = append(keys[table.Name], k.Name)
			}
		}
	}
	for _, table := range p4.Base().Tables() {
		want := []string{}
		for _, f := range table.Fields {
			want = append(want, f.Name)
		}
		if diff := cmp.Diff(want, keys[table.Name]); diff != "" {
			t.Errorf("table %s: %s", table.Name, diff)
		}
	}
	for _, r := range program.Registers {
		if r.Name == "I.r_epoch" && r.Size != 2*p4.MaxFlows {
			t.Errorf("register %s has %d cells, want %d", r.Name, r.Size, 2*p4.MaxFlows)
		}
	}
}

// TestTheHeaderOfCopiesIsAsLongAsSessionsCount adds up the fields of the header in front of a mirror copy.
func TestTheHeaderOfCopiesIsAsLongAsSessionsCount(t *testing.T) {
	source, err := os.ReadFile("injector_tna.p4")
	if err != nil {
		t.Fatal(err)
	}
	_, body, ok := strings.Cut(string(source), "header copy_t {")
	if !ok {
		t.Fatal("the program for Tofino has no header copy_t")
	}
	body, _, _ = strings.Cut(body, "}")
	bits := 0
	for _, field := range regexp.MustCompile(`bit<(\d+)>`).FindAllStringSubmatch(body, -1) {
		n, err := strconv.Atoi(field[1])
		if err != nil {
			t.Fatal(err)
		}
		bits += n
	}
	if bits != 8*p4.CopyHeader {
		t.Errorf("copy_t has %d bits, sessions count %d bytes", bits, p4.CopyHeader)
	}
}
