package config

import (
	"io/fs"
	"strings"
	"testing"
)

// trafficTest is a test with one item, whose files are texts by name.
func trafficTest(item string, files map[string]string) ([]*SwitchTest, error) {
	o := switchLaboratory()
	o.ReadFile = func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}
	return ParseSwitchTests("dir/f.yml", []byte("name: x\nswitch-under-test: {model: droptail}\nhosts: {transport: ndp}\n"+
		"topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4}\nworkload:\n  - "+item+"\n"), o)
}

// The points of a distribution's file become part of the test: config.yml needs the file no more.
func TestAFileOfSizesBecomesPartOfTheTest(t *testing.T) {
	const item = "poisson: {load: 0.1, stop-us: 1000, sizes: cdf.txt}"
	tests, err := trafficTest(item, map[string]string{"dir/cdf.txt": "0 0\n1000 50\n5000 100\n", "cdf.txt": "7 1\n"})
	if err != nil {
		t.Fatal(err)
	}
	text := tests[0].YAML()
	again, err := ParseSwitchTests("config.yml", text, switchLaboratory())
	if err != nil {
		t.Fatal(err)
	}
	if tests[0].Hash() != again[0].Hash() || strings.Contains(string(text), "cdf.txt") ||
		len(again[0].Workload[0].Values.List("points")) != 3 {
		t.Errorf("%s", text)
	}
	other, err := trafficTest(item, map[string]string{"cdf.txt": "0 0\n1000 60\n5000 100\n"})
	if err != nil || other[0].Hash() == tests[0].Hash() {
		t.Errorf("another file is another test: %v", err)
	}
}

// A test names its file of flows by its sum: a file that has changed is another test.
func TestAFileOfFlowsIsKnownByItsSum(t *testing.T) {
	const item = "flow-file: {file: flows.csv}"
	files := map[string]string{"dir/flows.csv": "start_us,src,dst,bytes\n0,0,1,1000\n"}
	tests, err := trafficTest(item, files)
	if err != nil {
		t.Fatal(err)
	}
	text := string(tests[0].YAML())
	for _, want := range []string{"file: flows.csv", "sha256: ", "flows: 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in\n%s", want, text)
		}
	}
	o := switchLaboratory()
	o.ReadFile = func(string) ([]byte, error) { return []byte(files["dir/flows.csv"]), nil }
	again, err := ParseSwitchTests("config.yml", []byte(text), o)
	if err != nil || again[0].Hash() != tests[0].Hash() {
		t.Errorf("the written test is another one: %v", err)
	}
	files["dir/flows.csv"] += "1,1,0,5\n"
	if _, err := ParseSwitchTests("config.yml", []byte(text), o); err == nil ||
		!strings.Contains(err.Error(), "sha256: is not that of the file, ") {
		t.Errorf("a changed file is taken: %v", err)
	}
}

// Wrong traffic is refused where it is written, with what is allowed.
func TestWrongTrafficIsRefusedWithTheReason(t *testing.T) {
	files := map[string]string{"dir/bad.txt": "10 0.5\n20 x\n", "dir/bad.csv": "start_us,src,dst,bytes\n0,1,1,5\n",
		"dir/far.csv": "start_us,src,dst,bytes\n0,1,8,5\n"}
	for item, want := range map[string]string{
		"poisson: {load: 0.1, stop-us: 10, sizes: web-serch}": `dir/f.yml:6:46: workload[0].poisson.sizes: is "web-serch": ` +
			`file does not exist (did you mean "web-search"?)` + "\n" + "  it takes the name of a file, web-search, data-mining, ",
		"poisson: {load: 0.1, stop-us: 10, sizes: bad.txt}": "dir/f.yml:6:46: workload[0].poisson.sizes: the file of the " +
			"distribution is invalid\n  dir/bad.txt:2:4: \"x\" is no share",
		"poisson: {load: 0.1, stop-us: 10, weight: 0}":                          "weight: is 0: such a flow would get nothing",
		"poisson: {load: 0.1, stop-us: 10, tenant: 0}":                          "tenant: 0 is out of range",
		"poisson: {load: 0.1, stop-us: 10, bytes: 100}":                         "takes neither packets, bytes nor stagger-us",
		"poisson: {load: 5, stop-us: 10}":                                       "load: 5 is out of range",
		"poisson: {load: 0.1, stop-us: 10, form: lower}":                        "form: is \"lower\"\n  it takes interpolated",
		"queries: {servers: 8, load: 0.1, stop-us: 10}":                         "servers: 8 are more than a client has other hosts (7)",
		"queries: {servers: 2, stop-us: 10}":                                    "load: needs one of load and queries-per-s",
		"queries: {servers: 2, queries-per-s: 1, load-of: fabrik, stop-us: 10}": `load-of: is "fabrik" (did you mean "fabric"?)`,
		"flow-file: {file: bad.csv}": "flow-file.file: the file of flows is invalid\n" +
			"  dir/bad.csv:2:1: host 1 would send to itself",
		"flow-file: {file: far.csv}":                                      "dir/far.csv:2:1: there is no host 8: hosts are 0 to 7",
		"flow-file: {file: none.csv}":                                     `is "none.csv": file does not exist`,
		"flow-file: {file: far.csv, bytes: 10}":                           "takes neither packets, bytes nor stagger-us",
		"cbr: {src: 0, dst: 1}":                                           "rate-gbps: needs one of rate-gbps and rates",
		"cbr: {src: 0, dst: 1, rate-gbps: 1}":                             "never ends",
		"cbr: {src: 0, dst: 1, rate-gbps: 1, packets: 1, stop-us: 5}":     "stop-us: is given together with packets or bytes",
		"cbr: {src: 0, dst: 0, rate-gbps: 1, packets: 1}":                 "dst: host 0 would send to itself",
		"cbr: {src: 0, dst: 1, rate-gbps: 1, packets: 1, transport: ndp}": "transport: is ndp\n  the transport of cbr is always raw",
		"cbr: {src: 0, dst: 1, rate-gbps: 1, packets: 1, on-us: 5}":       "on-us: needs on-us and off-us",
		"cbr: {src: 0, dst: 1, packets: 1, rates: [{at-us: 0, gbps: 0}]}": "rates: are all 0",
		"poisson: {load: 0.1, stop-us: 10, jitter: 0.5}":                  "jitter: unknown key",
		"locks: {clients: 0, servers: 1}":                                 "count: is 0: its transactions never end",
		"tpcc: {clients: 0, servers: 1}":                                  "count: is 0: its transactions never end",
		"locks: {clients: 0..2, servers: 2, count: 1}":                    "clients: host 2 is client and lock server",
	} {
		if _, err := trafficTest(item, files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", item, err, want)
		}
	}
}
