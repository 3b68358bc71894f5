//go:build linux

package link

import (
	"errors"
	"testing"
)

func TestFeaturesAreReadUntilThereAreSome(t *testing.T) {
	broken := errors.New("no such device")
	for _, test := range []struct {
		name         string
		empty, reads int
		err          error
		want         bool
	}{
		{"at once", 0, 1, nil, true},
		{"the fourth time", 3, 4, nil, true},
		{"never", 4, 4, nil, false},
		{"an error is final", 1, 2, broken, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			reads := 0
			features, err := whole(func() (map[string]bool, error) {
				if reads++; reads <= test.empty {
					return nil, nil
				}
				return map[string]bool{"rx-gro": true}, test.err
			})
			if reads != test.reads || (err == nil) != test.want || test.want && !features["rx-gro"] {
				t.Errorf("%d reads: %v, %v", reads, features, err)
			}
			if test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("%v instead of %v", err, test.err)
			}
		})
	}
}
