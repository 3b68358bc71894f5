package workload_test

import (
	"io"
	"io/fs"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
)

// opens returns a file of some text.
func opens(text string) workload.Open {
	return func(name string) (*workload.File, error) {
		if name != "f.csv" {
			return nil, fs.ErrNotExist
		}
		return &workload.File{Path: name, Size: int64(len(text)), ReaderAt: strings.NewReader(text),
			Closer: io.NopCloser(nil)}, nil
	}
}

// Flows are those of the rows, in any order of columns and any unit of time.
func TestFlowsOfAFile(t *testing.T) {
	k := workload.Find("flow-file")
	for _, text := range []string{
		"start_us,src,dst,bytes\n0,0,1,1000\n2.5,3,2,7\n", "bytes,dst,src,start_ns\r\n1000,1,0,0\r\n7,2,3,2500\r\n\r\n",
		"src,start_s,dst,bytes\n0,0,1,1000\n\n3,2.5e-6,2,7",
	} {
		v := valuesOf(t, "flow-file", "file=f.csv")
		if problems := k.Read(v, opens(text)); len(problems) > 0 {
			t.Fatal(problems)
		}
		in := workload.Scope{Hosts: 4, Open: opens(text)}
		if problems := k.CheckIn(v, in); len(problems) > 0 || v.Int("flows") != 2 || len(v.File("sha256")) != 64 {
			t.Fatalf("%v %v", problems, v.Settings())
		}
		got := k.Flows(v, in)
		if len(got) != 2 || got[0] != (workload.Flow{Kind: workload.Transfer, Dst: 1, Bytes: 1000}) ||
			got[1] != (workload.Flow{Kind: workload.Transfer, Src: 3, Dst: 2, Bytes: 7, Start: 2500 * clock.Nanosecond}) {
			t.Errorf("%q: %+v", text, got)
		}
		if problems := k.Read(v, opens(text+"\n")); len(problems) == 0 || problems[0].Key != "sha256" {
			t.Errorf("another file is taken: %v", problems)
		}
	}
}

// Mistakes are named by line and column.
func TestWrongFilesOfFlowsAreRefused(t *testing.T) {
	k := workload.Find("flow-file")
	const head = "start_us,src,dst,bytes\n"
	for text, want := range map[string]string{
		"":                                 "f.csv:1:1: the file is empty",
		"start_us,src,dts,bytes\n":         `f.csv:1:14: unknown column "dts": want start_us`,
		"start_us,src,dst,src\n":           "f.csv:1:18: the column src is there twice",
		"start_us,src,dst,start_ns\n":      "f.csv:1:18: the column start_ns is there twice",
		"src,dst,bytes\n":                  "f.csv:1:1: columns are missing",
		head + "0,1,2\n":                   "f.csv:2:5: 3 columns, want 4",
		head + "0,1,2,3,4\n":               "f.csv:2:7: 5 columns, want 4",
		head + "0,1,2,3\n1,1,2,0\n":        `f.csv:3:7: bytes is "0": want an integer from 1`,
		head + "0,1,2,3\n1,x,2,1\n":        `f.csv:3:3: src is "x": want a host`,
		head + "0,1,8192,3\n":              `f.csv:2:5: dst is "8192": want a host from 0 to 8191`,
		head + "-1,1,2,3\n":                `f.csv:2:1: start_us is "-1": want a number from 0`,
		head + "NaN,1,2,3\n":               `f.csv:2:1: start_us is "NaN"`,
		head + "5,1,2,3\n4,1,2,3\n":        "f.csv:3:1: starts at 4 us, before the flow above at 5 us",
		head + "5,1,1,3\n":                 "f.csv:2:1: host 1 would send to itself",
		head + strings.Repeat("1", 70_000): "f.csv:2:1: bufio.Scanner: token too long",
	} {
		v := valuesOf(t, "flow-file", "file=f.csv")
		problems := k.Read(v, opens(text))
		if len(problems) != 1 || !strings.Contains(problems[0].Why, want) {
			t.Errorf("%.60q: %v, want %s", text, problems, want)
		}
	}
	text := head + "0,1,2,3\n1,4,2,3\n"
	v := valuesOf(t, "flow-file", "file=f.csv")
	k.Read(v, opens(text))
	in := workload.Scope{Hosts: 4, Open: opens(text)}
	if problems := k.CheckIn(v, in); len(problems) != 1 || problems[0].Why != "f.csv:3:1: there is no host 4: hosts are 0 to 3" {
		t.Errorf("%v", problems)
	}
	if problems := k.Read(valuesOf(t, "flow-file", "file=other.csv"), opens("")); len(problems) != 1 ||
		!strings.Contains(problems[0].What, `"other.csv": file does not exist`) {
		t.Errorf("%v", problems)
	}
}
