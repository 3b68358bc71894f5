package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sample returns count of the mutants, or all for 0. A mutant's key and the seed decide, so that an edit elsewhere
// changes no choice.
func sample(mutants []*mutant, count int, seed uint64) []*mutant {
	if count == 0 || count >= len(mutants) {
		return mutants
	}
	rank := map[*mutant]uint64{}
	place := map[*mutant]int{}
	for i, m := range mutants {
		place[m] = i
		h := fnv.New64a()
		fmt.Fprintf(h, "%d\t%s\t%s", seed, m.Package, m.key())
		// FNV mixes the last bytes badly into the high bits.
		x := h.Sum64()
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
		rank[m] = x ^ x>>33
	}
	chosen := slices.Clone(mutants)
	slices.SortStableFunc(chosen, func(a, b *mutant) int { return cmp.Compare(rank[a], rank[b]) })
	chosen = chosen[:count]
	slices.SortFunc(chosen, func(a, b *mutant) int { return cmp.Compare(place[a], place[b]) })
	return chosen
}

// A suite is the compiled tests of one package.
type suite struct {
	Path   string
	Dir    string
	binary string
	tests  []*test
}

// build compiles the tests of these packages with the rewritten files in place of those on disk.
func build(ctx context.Context, root, tmp string, texts map[string][]byte, packages []string) ([]*suite, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	paths := slices.Sorted(maps.Keys(texts))
	for i, path := range paths {
		to := filepath.Join(tmp, fmt.Sprintf("%d-%s", i, filepath.Base(path)))
		if err := os.WriteFile(to, texts[path], 0o644); err != nil {
			return nil, err
		}
		overlay.Replace[path] = to
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return nil, err
	}
	var suites []*suite
	for i, p := range packages {
		s := &suite{Path: p, binary: filepath.Join(tmp, fmt.Sprintf("suite%d.test", i))}
		if s.Dir, err = output(ctx, root, "go", "list", "-f", "{{.Dir}}", p); err != nil {
			return nil, err
		}
		if _, err := output(ctx, root, "go", "test", "-c", "-vet=off", "-overlay", file, "-o", s.binary, p); err != nil {
			return nil, err
		}
		if _, err := os.Stat(s.binary); err != nil {
			continue // no tests: others test it
		}
		suites = append(suites, s)
	}
	if len(suites) == 0 {
		return nil, fmt.Errorf("no tests in %s", strings.Join(packages, ", "))
	}
	return suites, nil
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(out.String()), nil
}
