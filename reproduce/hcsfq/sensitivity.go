package hcsfq

import (
	"context"
	"fmt"
	"io/fs"

	"candela.dev/candela/reproduce/comparison"
)

// averaged are tests with another K.
type averaged struct {
	files fs.ReadFileFS
	us    int
}

// Open implements fs.FS.
func (a averaged) Open(name string) (fs.File, error) { return a.files.Open(name) }

// ReadFile returns a test in which flows are averaged over K.
func (a averaged) ReadFile(name string) ([]byte, error) {
	data, err := a.files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return set(name, data, fmt.Sprint("k-us: ", a.us))
}

// sensitivity shows what shares of TCP are if K, of which the source has no value, is longer than the round trip: TCP
// sends a window in a burst, whose label K averages.
func sensitivity(ctx context.Context, l *lab) error {
	const id = "K"
	a, b := groupsTCP(1, 1)
	from := comparison.Unjudged("the source gives no K; the specification's is 100 us").Of(comparison.SpecCalibration)
	for _, us := range []int{100, 300, 1000} {
		for _, e := range []struct {
			file, what string
			of         func([]*point) []float64
		}{
			{"e9.yml", "E9: RTT 0.3 ms beside 0.7 ms", func(p []*point) []float64 { return ratios(p, fromTCP, toTCP, a, b) }},
			{"e11.yml", "E11: UDP beside TCP", func(p []*point) []float64 { return ratios(p, fromTCP, toTCP, b, a) }},
			{"e12.yml", "E12: tenant 1 beside tenant 2", func(p []*point) []float64 { return totals(p, fromTCP, toTCP) }},
		} {
			points, err := l.measureFiles(ctx, averaged{l.files, us}, e.file, 1)
			if err != nil {
				return err
			}
			l.Row(from, comparison.NewRow(id, fmt.Sprintf("K = %d us, %s", us, e.what), "times", 1, 1, toleranceTCP,
				mean(e.of(points))))
		}
	}
	return nil
}
