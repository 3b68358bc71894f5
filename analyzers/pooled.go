package analyzers

import (
	"encoding/base64"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Pooled is a metric of a run over all connections, as a results store has it and as runs are compared.
type Pooled struct {
	Name, Unit                        string
	N                                 int64
	Least, Mean, P50, P99, P999, Most float64
	Histogram                         []byte // HdrHistogram, V2 compressed; nil: there is none
}

// Single returns a metric of one value.
func Single(name, unit string, v float64) Pooled {
	return Pooled{Name: name, Unit: unit, N: 1, Least: v, Mean: v, P50: v, P99: v, P999: v, Most: v}
}

// EncodeHistogram returns the histogram of values in HdrHistogram's V2 encoding.
func EncodeHistogram(values []int64) ([]byte, error) {
	h := hdrhistogram.NewPacked(1, histogramMax, digits)
	for _, v := range values {
		if err := h.RecordValue(min(max(v, 0), histogramMax)); err != nil {
			return nil, err
		}
	}
	return packHistogram(h)
}

func packHistogram(h *hdrhistogram.PackedHistogram) ([]byte, error) {
	text, err := h.Encode()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendDecode(nil, text)
}

func unpackHistogram(data []byte) (*hdrhistogram.PackedHistogram, error) {
	return hdrhistogram.DecodePacked(base64.StdEncoding.AppendEncode(nil, data))
}

// mergeHistograms merges histograms; those that cannot be read are an error.
func mergeHistograms(list [][]byte) (*hdrhistogram.PackedHistogram, error) {
	all := hdrhistogram.NewPacked(1, histogramMax, digits)
	for _, data := range list {
		if len(data) == 0 {
			continue
		}
		h, err := unpackHistogram(data)
		if err != nil {
			return nil, fmt.Errorf("histogram: %w", err)
		}
		if dropped := all.Merge(h); dropped > 0 {
			return nil, fmt.Errorf("histogram: %d values are greater than %d", dropped, int64(histogramMax))
		}
	}
	return all, nil
}

// Pool makes one distribution of each name: that over all connections or, where an analyzer has none, the connections
// merged. Connections are numbered by the order of a test, so they are no identity.
func Pool(list []Metric) ([]Pooled, error) {
	var names []string
	byName := make(map[string][]*Metric)
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
	var all []Pooled
	for _, name := range names {
		parts := byName[name]
		for _, m := range parts {
			if m.Connection == 0 {
				parts = []*Metric{m}
				break
			}
		}
		m, err := pooled(parts)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func pooled(parts []*Metric) (Pooled, error) {
	first := parts[0]
	m := Pooled{Name: first.Name, Unit: first.Unit, Least: float64(first.Min), Most: float64(first.Max)}
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
	h, err := mergeHistograms(encoded)
	if err != nil {
		return m, err
	}
	const median, high, highest = 50, 99, 99.9
	within := func(percentile float64) float64 {
		return min(max(float64(h.ValueAtPercentile(percentile)), m.Least), m.Most)
	}
	m.P50, m.P99, m.P999 = within(median), within(high), within(highest)
	m.Histogram, err = packHistogram(h)
	return m, err
}

// histogramOf returns the distribution of a metric; nil if the run directory, of an older version, has only a part.
func histogramOf(m *Metric) ([]byte, error) {
	switch {
	case m.Histogram != "":
		data, err := base64.StdEncoding.DecodeString(m.Histogram)
		if err == nil {
			_, err = unpackHistogram(data)
		}
		return data, err
	case m.Truncated:
		return nil, nil
	}
	return EncodeHistogram(m.Values)
}
