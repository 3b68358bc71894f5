package history

import (
	"encoding/base64"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"candela.dev/candela/analyzers"
)

// Range and precision of histograms, those of package analyzers: two of them can always be merged.
const (
	histogramMax = 1 << 47
	digits       = 3
)

// encode returns the histogram of values in HdrHistogram's V2 encoding.
func encode(values []int64) ([]byte, error) {
	h := hdrhistogram.NewPacked(1, histogramMax, digits)
	for _, v := range values {
		if err := h.RecordValue(min(max(v, 0), histogramMax)); err != nil {
			return nil, err
		}
	}
	return pack(h)
}

func pack(h *hdrhistogram.PackedHistogram) ([]byte, error) {
	text, err := h.Encode()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendDecode(nil, text)
}

func unpack(data []byte) (*hdrhistogram.PackedHistogram, error) {
	return hdrhistogram.DecodePacked(base64.StdEncoding.AppendEncode(nil, data))
}

// merge merges histograms; those that cannot be read are an error.
func merge(list [][]byte) (*hdrhistogram.PackedHistogram, error) {
	all := hdrhistogram.NewPacked(1, histogramMax, digits)
	for _, data := range list {
		if len(data) == 0 {
			continue
		}
		h, err := unpack(data)
		if err != nil {
			return nil, fmt.Errorf("histogram: %w", err)
		}
		if dropped := all.Merge(h); dropped > 0 {
			return nil, fmt.Errorf("histogram: %d values are greater than %d", dropped, int64(histogramMax))
		}
	}
	return all, nil
}

// metrics makes one distribution of each name: that over all connections or, where an analyzer has none, the
// connections merged. Connections are numbered by the order of a test, so they are no identity.
func metrics(list []analyzers.Metric) ([]Metric, error) {
	var names []string
	byName := make(map[string][]*analyzers.Metric)
	for i := range list {
		m := &list[i]
		if m.Count == 0 {
			continue
		}
		if byName[m.Name] == nil {
			names = append(names, m.Name)
		}
		byName[m.Name] = append(byName[m.Name], m)
	}
	var all []Metric
	for _, name := range names {
		parts := byName[name]
		for _, m := range parts {
			if m.Connection == 0 {
				parts = []*analyzers.Metric{m}
				break
			}
		}
		m, err := metric(parts)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func metric(parts []*analyzers.Metric) (Metric, error) {
	first := parts[0]
	m := Metric{Name: first.Name, Unit: first.Unit, Least: float64(first.Min), Most: float64(first.Max)}
	var sum float64
	var encoded [][]byte
	for _, p := range parts {
		m.N += p.Count
		sum += float64(p.Sum)
		m.Least, m.Most = min(m.Least, float64(p.Min)), max(m.Most, float64(p.Max))
		data, err := histogramOf(p)
		if err != nil {
			return m, err
		}
		if data != nil {
			encoded = append(encoded, data)
		}
	}
	m.Mean = sum / float64(m.N)
	if len(parts) == 1 {
		m.P50, m.P99, m.P999 = float64(first.P50), float64(first.P99), float64(first.P999)
		if len(encoded) > 0 {
			m.Histogram = encoded[0]
		}
		return m, nil
	}
	h, err := merge(encoded)
	if err != nil {
		return m, err
	}
	const median, high, highest = 50, 99, 99.9
	within := func(percentile float64) float64 {
		return min(max(float64(h.ValueAtPercentile(percentile)), m.Least), m.Most)
	}
	m.P50, m.P99, m.P999 = within(median), within(high), within(highest)
	m.Histogram, err = pack(h)
	return m, err
}

// histogramOf returns the distribution of a metric; nil if the run directory, of an older version, has only a part.
func histogramOf(m *analyzers.Metric) ([]byte, error) {
	switch {
	case m.Histogram != "":
		data, err := base64.StdEncoding.DecodeString(m.Histogram)
		if err == nil {
			_, err = unpack(data)
		}
		return data, err
	case m.Truncated:
		return nil, nil
	}
	return encode(m.Values)
}
