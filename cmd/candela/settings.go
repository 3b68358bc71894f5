package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"candela.dev/candela/orchestrator"
)

// captureSettings are flags for what a capture without connection manager does not show.
type captureSettings struct{ timeout, retry, rnrRetry, mtu int }

func (s *captureSettings) flags(fl *pflag.FlagSet) {
	fl.IntVar(&s.timeout, "timeout", 0,
		"local ACK timeout exponent t of the requesters, 4.096 us * 2^t (ibv_qp_attr.timeout); 0: no timer")
	fl.IntVar(&s.retry, "retry", 0, "retry_cnt of the requesters")
	fl.IntVar(&s.rnrRetry, "rnr-retry", 0, "rnr_retry of the requesters; 7: no limit")
	fl.IntVar(&s.mtu, "mtu", 0, "path MTU in bytes, if neither packets nor the connection manager show it")
}

// apply checks the flags that were given, and puts them into o.
func (s *captureSettings) apply(cmd *cobra.Command, o *orchestrator.AnalyzeOptions) error {
	const maxTimeout, maxRetry = 31, 7
	for _, f := range []struct {
		name  string
		value *int
		most  int
		to    **int
	}{
		{"timeout", &s.timeout, maxTimeout, &o.Settings.Timeout}, {"retry", &s.retry, maxRetry, &o.Settings.Retry},
		{"rnr-retry", &s.rnrRetry, maxRetry, &o.Settings.RNRRetry},
	} {
		if !cmd.Flags().Changed(f.name) {
			continue
		}
		if *f.value < 0 || *f.value > f.most {
			return fmt.Errorf("--%s %d: want 0 to %d", f.name, *f.value, f.most)
		}
		*f.to = f.value
	}
	mtus := []int{256, 512, 1024, 2048, 4096}
	if cmd.Flags().Changed("mtu") && !slices.Contains(mtus, s.mtu) {
		return fmt.Errorf("--mtu %d: want one of %v", s.mtu, mtus)
	}
	o.MTU = s.mtu
	return nil
}
