package config

import (
	"slices"
	"strings"
	"testing"
)

func TestPortsAndLabelsAreDealtOutToTheConnections(t *testing.T) {
	test, err := Parse("f.yml", []byte("name: x\ntraffic: {num-connections: 3, source-port: [50000, 60000], flow-label: 7}\n"),
		laboratory)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for n := 1; n <= 3; n++ {
		got = append(got, test.Traffic.SourcePortOf(n), test.Traffic.FlowLabelOf(n))
	}
	if want := []int{50000, 7, 60000, 7, 50000, 7}; !slices.Equal(got, want) {
		t.Errorf("ports and labels are %v, want %v", got, want)
	}
}

func TestSoftRoCEHasNeitherPortNorLabel(t *testing.T) {
	o := laboratory
	o.Testbed = "vm"
	_, err := Parse("f.yml", []byte("name: x\ntraffic: {source-port: 50000, flow-label: 7, max-rd-atomic: 4}\n"), o)
	for _, want := range []string{"traffic.source-port: can't be set", "traffic.flow-label: can't be set", "from the QPN"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
