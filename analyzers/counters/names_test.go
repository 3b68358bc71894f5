package counters_test

import (
	"testing"

	"candela.dev/candela/analyzers/counters"
)

func TestStatisticsOfEthtoolAreFoundUnderTheirPrefix(t *testing.T) {
	h := counters.Host{Start: map[string]int64{"ethtool.tx_discards_phy": 2, "np_cnp_sent": 1},
		Finish: map[string]int64{"ethtool.tx_discards_phy": 5, "np_cnp_sent": 1, "ethtool.np_cnp_sent": 9}}
	for name, want := range map[string]int64{"tx_discards_phy": 3, "np_cnp_sent": 0} {
		if n, ok := h.Delta(name); !ok || n != want {
			t.Errorf("%s changed by %d, %v, want %d", name, n, ok, want)
		}
	}
	if _, ok := h.Delta("rx_discards_phy"); ok {
		t.Error("a counter that was not read has a value")
	}
}
