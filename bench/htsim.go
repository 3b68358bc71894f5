package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The user's csg-htsim (C++ -O3), which is not part of this repository. If these variables name it, it is measured in
// the same run; if not, the figure is used.
const (
	htsimProgram = "CANDELA_HTSIM" // path of its htsim_ndp
	// command for one switch, with arguments: csg-htsim has no program that returns headers
	htsimIncast = "CANDELA_HTSIM_INCAST"
	// path of an htsim_ndp whose NdpSrc::update_rtx_time returns at once: it has no scan of all packets at each ACK
	htsimWithoutScan = "CANDELA_HTSIM_WITHOUT_SCAN"
)

// htsimPermutation is csg-htsim with a permutation on a fat tree.
func htsimPermutation(cpuSeconds float64, hosts, flowBytes int) *peer {
	if program := os.Getenv(htsimProgram); program != "" {
		return &peer{"csg-htsim, same run", htsimFatTree{program, hosts, flowBytes, htsimHashed}}
	}
	return htsimRecorded(cpuSeconds)
}

// htsimCheapest is the same with its cheapest routing, and without its scan.
func htsimCheapest(cpuSeconds float64, hosts, flowBytes int) *peer {
	if program := os.Getenv(htsimWithoutScan); program != "" {
		return &peer{"csg-htsim perm, no scan, same run", htsimFatTree{program, hosts, flowBytes, htsimPermuted}}
	}
	return &peer{"csg-htsim perm, no scan, recorded", recorded(cpuSeconds)}
}

// How csg-htsim routes: by a hash, or through a list of paths of each pair of hosts.
var (
	htsimHashed   = []string{"-strat", "ecmp_host", "-paths", "128"}
	htsimPermuted = []string{"-strat", "perm"}
)

// htsimSwitch is csg-htsim with the incast.
func htsimSwitch(cpuSeconds float64) *peer {
	if command := strings.Fields(os.Getenv(htsimIncast)); len(command) > 0 {
		return &peer{"csg-htsim, same run", program{command: command, value: cpuSecondsOf}}
	}
	return htsimRecorded(cpuSeconds)
}

// htsimRecorded is the CPU time of csg-htsim for the same workload, from the issue that asks for these figures.
func htsimRecorded(cpuSeconds float64) *peer {
	return &peer{"csg-htsim, recorded", recorded(cpuSeconds)}
}

func cpuSecondsOf(u usage, _ int) float64 { return u.cpu.Seconds() }

// htsimFatTree is a run of htsim_ndp with the fabric's parameters, in CPU seconds.
type htsimFatTree struct {
	program          string
	hosts, flowBytes int
	routing          []string
}

func (h htsimFatTree) open(_ context.Context, lab *lab) (sampler, error) {
	program, err := filepath.Abs(h.program)
	if err != nil {
		return nil, err
	}
	matrix := filepath.Join(lab.dir, fmt.Sprintf("permutation-%d.cm", h.hosts))
	if err := os.WriteFile(matrix, h.matrix(), 0o600); err != nil {
		return nil, err
	}
	args := append([]string{"-o", os.DevNull, "-nodes", strconv.Itoa(h.hosts), "-tm", matrix, "-cwnd", "130", "-q", "8",
		"-mtu", "1500", "-linkspeed", "100000", "-hop_latency", "0.5", "-end", "3000"}, h.routing...)
	return func(ctx context.Context) (float64, error) {
		took, err := lab.execute(ctx, lab.dir, nil, program, args...)
		if err != nil {
			return 0, err
		}
		if done := bytes.Count(took.output, []byte(" finished at ")); done != h.hosts {
			return 0, fmt.Errorf("%s: %d flows finished, want %d", h.program, done, h.hosts)
		}
		return took.cpu.Seconds(), nil
	}, nil
}

// matrix is csg-htsim's description of a permutation: a random cycle through all hosts.
func (h htsimFatTree) matrix() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Nodes %d\nConnections %d\n", h.hosts, h.hosts)
	order := rand.New(rand.NewPCG(1, 2)).Perm(h.hosts)
	for i, from := range order {
		fmt.Fprintf(&b, "%d->%d id %d start 0 size %d\n", from, order[(i+1)%h.hosts], i+1, h.flowBytes)
	}
	return b.Bytes()
}
