package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// same compares everything except positions.
var same = cmp.Options{
	cmpopts.IgnoreUnexported(Test{}, Testbed{}, ComparedMetric{}), cmpopts.IgnoreTypes(Origin{}),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func TestWrittenTestsReadBackTheSame(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err != nil || IsSwitchTest(data) {
			continue // package switchtest has the models
		}
		tests, err := LoadAll(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		test := tests[len(tests)-1]
		test.Point = nil // the written form has no point
		reparsed, err := Parse(file, test.YAML(), Options{})
		if err != nil {
			t.Fatalf("%s, written out:\n%s\n%v", file, test.YAML(), err)
		}
		if diff := cmp.Diff(test, reparsed, same); diff != "" {
			t.Errorf("%s (-read +written and read again):\n%s", file, diff)
		}
		if a, b := test.Hash(), reparsed.Hash(); a != b {
			t.Errorf("%s: hash %s, written and read again %s", file, a, b)
		}
	}
}

func TestRunDirectoriesHoldAllThatIsNeededToRepeatARun(t *testing.T) {
	test, err := Load("../../configs/long-distance.yml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"config.yml": test.WithTestbedFile("testbed.yml").YAML(), "testbed.yml": test.Testbed.YAML(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reparsed, err := Load(filepath.Join(dir, "config.yml"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if reparsed.Hash() != test.Hash() {
		t.Errorf("(-test +from the run directory)\n%s", cmp.Diff(test, reparsed, same))
	}
}

func TestWrittenFormIsStable(t *testing.T) {
	test, err := Load("../../configs/lumina-listing-5-2.yml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/listing-5-2.config.yml", string(test.YAML()))
	golden(t, "testdata/virtual.testbed.yml", string(test.Testbed.YAML()))
}

// draw returns a node that k accepts, or nil for an absent one.
func draw(t *rapid.T, k kind, label string) *yaml.Node {
	switch k := k.(type) {
	case *object:
		return drawObject(t, k, label)
	case *orScalar:
		if rapid.Bool().Draw(t, label+" alone") {
			return draw(t, k.scalar, label)
		}
		return drawObject(t, &k.object, label)
	case interface {
		inner() kind
		items() (int, int)
	}:
		return drawList(t, k.inner(), label, k.items)
	case positive:
		return drawScalar(t, k.integer, label)
	case patterned:
		if rapid.Bool().Draw(t, label+" pattern") {
			return drawNumbers(t, k.set, label)
		}
		return draw(t, k.one, label)
	case ordinal:
		if rapid.Bool().Draw(t, label+" any") {
			return stringNode("any")
		}
		return draw(t, k.of, label)
	case holder:
		if key := sampleKey(k.(kind)); key != "" {
			return mappingNode(stringNode(key), draw(t, k.inner(), label))
		}
		return draw(t, k.inner(), label)
	}
	return drawScalar(t, k, label)
}

func (k list[T]) items() (int, int) { return k.min, max(k.min, min(k.max, 3)) }

func drawObject(t *rapid.T, o *object, label string) *yaml.Node {
	n := mappingNode()
	for i := range o.fields {
		f := &o.fields[i]
		if _, sweep := f.kind.(sweepKind); sweep {
			continue // ParseAll removes it before decoding
		}
		if _, short := f.kind.(shortTrim); short {
			continue // short form of trim, which is written as trim
		}
		if !f.required && rapid.Bool().Draw(t, join(label, f.key)+" absent") {
			continue
		}
		n.Content = append(n.Content, stringNode(f.key), draw(t, f.kind, join(label, f.key)))
	}
	return n
}

func drawList(t *rapid.T, of kind, label string, items func() (int, int)) *yaml.Node {
	least, most := items()
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for i := range rapid.IntRange(least, most).Draw(t, label+" items") {
		n.Content = append(n.Content, draw(t, of, fmt.Sprintf("%s[%d]", label, i)))
	}
	return n
}

// drawNumbers returns a set of numbers in one of its notations.
func drawNumbers(t *rapid.T, k numbers, label string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for range rapid.IntRange(1, 3).Draw(t, label+" spans") {
		first := rapid.Int64Range(k.of.min, min(k.of.max, 1000)).Draw(t, label+" first")
		last := rapid.Int64Range(first, min(k.of.max, 2000)).Draw(t, label+" last")
		words := []string{itoa(int(first)), fmt.Sprintf("%d..%d", first, last)}
		if k.last {
			words = append(words, "last", fmt.Sprintf("last-%d", last), fmt.Sprintf("last-%d..last", last),
				fmt.Sprintf("%d..last", first))
		}
		n.Content = append(n.Content, mustParse(rapid.SampledFrom(words).Draw(t, label)))
	}
	return n
}

func drawScalar(t *rapid.T, k kind, label string) *yaml.Node {
	switch k := k.(type) {
	case paramKind:
		if k.param.Print != trace.AsDuration {
			return drawScalar(t, k.kind, label)
		}
		least, most := k.param.Bounds()
		v := rapid.Int64Range(least, most).Draw(t, label) * int64(clock.Nanosecond)
		return k.kind.encode(&v)
	case orAuto:
		if rapid.Bool().Draw(t, label+" is auto") {
			return stringNode(autoWord)
		}
		return drawScalar(t, k.of, label)
	case integer:
		return scalarNode("!!int", fmt.Sprint(rapid.Int64Range(k.min, k.max).Draw(t, label)))
	case quantity:
		least, most := k.min*k.scale, int64(math.MaxInt64)
		if k.max < math.MaxInt64/k.scale {
			most = k.max * k.scale
		}
		v := rapid.Int64Range(least, most).Draw(t, label)
		return k.encode(&v)
	case choice:
		return scalarNode("!!int", itoa(rapid.SampledFrom(k.values).Draw(t, label)))
	case relative:
		least, most := -99_999, 999_999
		switch k.worse {
		case WorseMore:
			least = 0
		case WorseLess:
			most = -1
		case WorseEither:
		}
		return stringNode(fmt.Sprintf("%+.3f %%", float64(rapid.IntRange(least, most).Draw(t, label))/1000))
	case boolean:
		return scalarNode("!!bool", fmt.Sprint(rapid.Bool().Draw(t, label)))
	case prefix:
		b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, label)
		return stringNode(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, b[0], b[1], b[2]%250 + 2}), 24).String())
	case mac:
		return stringNode(fmt.Sprintf("02:00:00:00:00:%02x", rapid.Byte().Draw(t, label)))
	case optionalText:
		return draw(t, k.text, label)
	case text:
		for _, word := range []string{"a1", "gbn.nak-psn", "unix:/run/a.sock", "last-green"} {
			if k.form.MatchString(word) {
				return stringNode(word)
			}
		}
	case namedValues:
		return drawNamed(t, k, label)
	case interface{ names() []string }:
		return stringNode(rapid.SampledFrom(k.names()).Draw(t, label))
	}
	t.Fatalf("%s: no value for %T", label, k)
	return nil
}

func drawNamed(t *rapid.T, k namedValues, label string) *yaml.Node {
	n := mappingNode()
	for _, name := range []string{"26", "7", "fec", "flag-x y", "enable_roce"} {
		value := rapid.SampledFrom([]string{"3", "true", "rs baser"}).Draw(t, label)
		if k.key.form.MatchString(name) && k.value.form.MatchString(value) {
			n.Content = append(n.Content, stringNode(name), mustParse(value))
		}
	}
	return n
}

func TestWhateverDecodesEncodesToItself(t *testing.T) {
	runtimetest.SkipRace(t)
	rapid.Check(t, func(t *rapid.T) {
		checkRoundTrip(t, testSchema(), func() any { return new(Test) })
		checkRoundTrip(t, testbedSchema(), func() any { return new(Testbed) })
	})
}

func checkRoundTrip(t *rapid.T, schema *object, fresh func() any) {
	decode := func(data []byte) any {
		d, v := newDecoder("f.yml", Options{}), fresh()
		d.decodeRoot(data, schema, v)
		if err := d.err(); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		return v
	}
	text := marshal(drawObject(t, schema, ""))
	v := decode(text)
	written := marshal(schema.encode(v))
	reparsed := decode(written)
	if diff := cmp.Diff(v, reparsed, same); diff != "" {
		t.Fatalf("(-first +second)\n%s\nfrom\n%s\nwritten\n%s", diff, text, written)
	}
	if second := marshal(schema.encode(reparsed)); string(second) != string(written) {
		t.Fatalf("written once\n%s\nand again\n%s", written, second)
	}
}

func TestSeedAndTestbedChangeTheHashAndTheFileNameDoesNot(t *testing.T) {
	parse := func(file, extra string) *Test {
		test, err := Parse(file, []byte("name: x\ntraffic: {}\n"+extra), laboratory)
		if err != nil {
			t.Fatal(err)
		}
		return test
	}
	base := parse("a.yml", "")
	if got := parse("b/c.yml", "# a comment\ntestbed: virtual\nseed: 1\n").Hash(); got != base.Hash() {
		t.Error("comments, defaults made explicit or the file's name changed the hash")
	}
	if parse("a.yml", "seed: 2").Hash() == base.Hash() || base.WithSeed(2).Hash() == base.Hash() {
		t.Error("the seed doesn't change the hash")
	}
	if parse("a.yml", "testbed: small.yml").Hash() == base.Hash() {
		t.Error("another testbed doesn't change the hash")
	}
	if base.Seed != 1 {
		t.Error("WithSeed changed its receiver")
	}
}

func TestScheduleArithmeticAgreesWithTheSchedule(t *testing.T) {
	runtimetest.SkipRace(t)
	rapid.Check(t, func(t *rapid.T) {
		g := generator.Traffic{
			Verbs:       rapid.SliceOfN(rapid.SampledFrom(verbs()), 1, 5).Draw(t, "verbs"),
			Messages:    rapid.IntRange(0, 20).Draw(t, "messages"),
			MessageSize: rapid.IntRange(0, 5000).Draw(t, "size"),
			MTU:         rapid.SampledFrom([]int{256, 1024}).Draw(t, "mtu"),
		}
		last := int64(0)
		for m := range g.Schedule {
			for psn := m.FirstPSN; psn < m.FirstPSN+int64(m.PSNs); psn++ {
				if got, ok := g.Locate(psn); !ok || got != m {
					t.Fatalf("Locate(%d) = %+v, %v; want %+v", psn, got, ok, m)
				}
				last = psn
			}
		}
		if g.PSNs() != last {
			t.Fatalf("PSNs() = %d, want %d", g.PSNs(), last)
		}
		for _, psn := range []int64{-1, 0, last + 1} {
			if _, ok := g.Locate(psn); ok {
				t.Fatalf("Locate(%d) found a message", psn)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../configs/*.yml", "testdata/errors/*.yml", "../../testbeds/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := ParseTestbed("f.yml", data); err != nil && !strings.HasPrefix(err.Error(), "f.yml:") {
			t.Fatalf("testbed: an error without a place: %v", err)
		}
		tests, err := ParseAll("f.yml", data, laboratory)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yml:") {
				t.Fatalf("an error without a place: %v", err)
			}
			return
		}
		test := tests[len(tests)-1]
		test.Point = nil // config.yml has no point
		reparsed, err := Parse("f.yml", test.YAML(), laboratory)
		if err != nil {
			t.Fatalf("written out, it is refused: %v\n%s", err, test.YAML())
		}
		if diff := cmp.Diff(test, reparsed, same); diff != "" {
			t.Fatalf("(-read +written and read again)\n%s", diff)
		}
	})
}
