package nic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Settings of ethtool are named GROUP-NAME. Numbers are decimal, flags true or false.
const (
	featurePrefix = "feature-" // ethtool -k, followed by the kernel's name
	flagPrefix    = "flag-"    // ethtool --show-priv-flags, followed by the driver's
)

// TuningNames are the settings of ethtool except features and flags.
var TuningNames = []string{
	"pause-autoneg", "pause-rx", "pause-tx", "ring-rx", "ring-tx", "channels-rx", "channels-tx", "channels-combined",
	"coalesce-rx-usecs", "coalesce-rx-frames", "coalesce-tx-usecs", "coalesce-tx-frames", "coalesce-adaptive-rx",
	"coalesce-adaptive-tx", "fec",
}

// isFlag reports whether a setting is true or false.
func isFlag(name string) bool {
	return slices.ContainsFunc([]string{"pause-", "coalesce-adaptive-", featurePrefix, flagPrefix}, func(p string) bool {
		return strings.HasPrefix(name, p)
	})
}

// tuningText writes a number of the kernel's as the value of a setting.
func tuningText(name string, v uint32) string {
	if isFlag(name) {
		return strconv.FormatBool(v != 0)
	}
	return strconv.FormatUint(uint64(v), 10)
}

// tuningNumber is the inverse of tuningText.
func tuningNumber(name, value string) (uint32, error) {
	if isFlag(name) {
		on, err := strconv.ParseBool(value)
		if err != nil || value != strconv.FormatBool(on) {
			return 0, fmt.Errorf("%q: want true or false", value)
		}
		if on {
			return 1, nil
		}
		return 0, nil
	}
	v, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q: want a whole number", value)
	}
	return uint32(v), nil
}

// fecNames are the bits of an FEC mask (linux/ethtool.h).
var fecNames = [...]string{"none", "auto", "off", "rs", "baser", "llrs"}

// fecText lists the modes of a mask.
func fecText(mask uint32) string {
	var modes []string
	for i, mode := range fecNames {
		if mask&(1<<i) != 0 {
			modes = append(modes, mode)
		}
	}
	return strings.Join(modes, " ")
}

// fecMask is the inverse of fecText.
func fecMask(text string) (mask uint32, err error) {
	for word := range strings.FieldsSeq(text) {
		i := slices.Index(fecNames[:], word)
		if i < 0 {
			return 0, fmt.Errorf("FEC %q: want auto, off, rs, baser or llrs", word)
		}
		mask |= 1 << i
	}
	if mask == 0 {
		return 0, fmt.Errorf("FEC %q: want auto, off, rs, baser or llrs", text)
	}
	return mask, nil
}
