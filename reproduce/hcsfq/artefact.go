package hcsfq

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"candela.dev/candela/reproduce/comparison"
)

// setting is how HCSFQ is set in the simulations: as the specification says, or as the published simulator has it.
type setting struct {
	mark   string // of its results
	suffix string // of its files and figures
	chosen string // what of it is a choice
}

func specified() setting { return setting{} }

// published is what the authors' simulator has, unless it is told otherwise. What it was told is not published.
func published() setting {
	return setting{"A", "-artefact", "K and K_alpha of 100 us, K_c of 20 us and a floor of alpha of 0.1, the published " +
		"simulator's defaults; the specification has K of 480 and K_c of 960 us at 1 Gb/s, and no floor"}
}

// file returns the test of HCSFQ of a set-up.
func (h setting) file(setup string) string { return setup + "-hcsfq" + h.suffix + ".yml" }

// because returns the choices of a row: those of the setting, and its own.
func (h setting) because(own string) string {
	return strings.TrimPrefix(strings.TrimSuffix(h.chosen+"; "+own, "; "), "; ")
}

// origin is that of a row that compares with a statement.
func (h setting) origin(own string) comparison.Origin {
	if why := h.because(own); why != "" {
		return comparison.FromChoice(why).Of(comparison.PaperStatement)
	}
	return comparison.FromMechanism("").Of(comparison.PaperStatement)
}

// artefacts are tests, and those of HCSFQ also with the settings of the published simulator.
type artefacts struct{ fs.ReadFileFS }

// ReadFile returns a test.
func (a artefacts) ReadFile(name string) ([]byte, error) {
	s := published()
	of, found := strings.CutSuffix(name, s.suffix+".yml")
	if !found {
		return a.ReadFileFS.ReadFile(name)
	}
	data, err := a.ReadFileFS.ReadFile(of + ".yml")
	if err != nil {
		return nil, err
	}
	data = nameOf.ReplaceAll(data, []byte("name: ${1}"+s.suffix))
	return set(name, data, "k-us: 100", "k-alpha-us: 100", "k-c-us: 20", "alpha-floor: 0.1")
}

// set adds keys to the switch of a test of HCSFQ whose small packets bypass.
func set(name string, data []byte, keys ...string) ([]byte, error) {
	const key = "bypass-bytes: 125"
	if bytes.Count(data, []byte(key)) != 1 {
		return nil, fmt.Errorf("%s has no %s, after which %s could be set", name, key, keys[0])
	}
	separator := ", "
	if bytes.Contains(data, []byte("  "+key+"\n")) {
		separator = "\n  "
	}
	return bytes.Replace(data, []byte(key), []byte(key+separator+strings.Join(keys, separator)), 1), nil
}
