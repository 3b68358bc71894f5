package link

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// A falsifying offload merges, splits or completes frames between the wire and a packet socket. Names are the kernel's;
// a trailing * matches any ending.
var falsifying = []string{
	"rx-gro", "rx-gro-hw", "rx-gro-list", "rx-lro", "rx-udp-gro-forwarding", // merge received frames
	"tx-tcp*-segmentation", "tx-tcp-*", "tx-udp-segmentation", "tx-generic-segmentation", "tx-gso-*", // split sent ones
	"tx-checksum-*", "rx-checksum", // leave checksums to hardware that a virtual link does not have
	"rx-vlan-hw-parse", "rx-vlan-stag-hw-parse", "tx-vlan-hw-insert", "tx-vlan-stag-hw-insert", // take tags out
}

func isFalsifying(feature string) bool {
	return slices.ContainsFunc(falsifying, func(pattern string) bool {
		before, after, wild := strings.Cut(pattern, "*")
		if !wild {
			return feature == pattern
		}
		return strings.HasPrefix(feature, before) && strings.HasSuffix(feature, after) &&
			len(feature) >= len(before)+len(after)
	})
}

// Offloads are the offloads of an interface that DisableOffloads turned off.
type Offloads struct {
	name string
	off  []string
	// Remaining are falsifying offloads that the driver keeps on.
	Remaining []string
}

// DisableOffloads turns off every offload that would make a capture differ from the wire, and reads back which are
// still on. It needs CAP_NET_ADMIN. An offload that the driver fixes is not an error: see Remaining.
func DisableOffloads(name string) (*Offloads, error) {
	control, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("offloads of %q: %w", name, err)
	}
	defer control.Close()
	o := &Offloads{name: name}
	states, err := whole(func() (map[string]ethtool.FeatureState, error) { return control.FeaturesWithState(name) })
	if err != nil {
		return nil, fmt.Errorf("offloads of %q: %w", name, err)
	}
	change := map[string]bool{}
	for feature, state := range states {
		if isFalsifying(feature) && state.Active && state.Available && !state.NeverChanged {
			change[feature] = false
			o.off = append(o.off, feature)
		}
	}
	slices.Sort(o.off)
	if len(change) > 0 {
		// A driver that refuses one of several still changes the others: read them back. What Change says it does not
		// know is known (states lists it): it read no names, see whole.
		for range attempts {
			if err = control.Change(name, change); err == nil || errors.As(err, new(unix.Errno)) {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("turn off offloads of %q (%s): %w", name, strings.Join(o.off, ", "), err)
		}
	}
	o.Remaining, err = activeOffloads(control, name)
	return o, err
}

// ActiveOffloads reads which falsifying offloads of an interface are on, by kernel name.
func ActiveOffloads(name string) ([]string, error) {
	control, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("offloads of %q: %w", name, err)
	}
	defer control.Close()
	return activeOffloads(control, name)
}

func activeOffloads(control *ethtool.Ethtool, name string) ([]string, error) {
	features, err := whole(func() (map[string]bool, error) { return control.Features(name) })
	if err != nil {
		return nil, fmt.Errorf("offloads of %q: %w", name, err)
	}
	var active []string
	for feature, on := range features {
		if on && isFalsifying(feature) {
			active = append(active, feature)
		}
	}
	slices.Sort(active)
	return active, nil
}

// attempts is how often something is read that came back without features.
const attempts = 4

// whole reads the features of an interface until there are some: every interface of Linux has dozens, but package
// ethtool was seen to read none. (It gives the kernel addresses of variables as plain numbers, which Go does not adjust
// when it moves a stack.) No features taken for no offloads would falsify a capture.
func whole[T any](read func() (map[string]T, error)) (map[string]T, error) {
	for range attempts {
		features, err := read()
		if err != nil || len(features) > 0 {
			return features, err
		}
	}
	return nil, fmt.Errorf("the kernel names no features in %d attempts", attempts)
}

// Disabled returns the offloads that were turned off.
func (o *Offloads) Disabled() []string { return slices.Clone(o.off) }

// Restore turns on the offloads that DisableOffloads turned off. An interface that is gone has nothing to restore.
func (o *Offloads) Restore() error {
	if len(o.off) == 0 {
		return nil
	}
	control, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("restore offloads of %q: %w", o.name, err)
	}
	defer control.Close()
	var failed []error
	for _, feature := range o.off {
		err := control.Change(o.name, map[string]bool{feature: true})
		if errors.Is(err, unix.ENODEV) {
			return nil
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("restore offload %s of %q: %w", feature, o.name, err))
		}
	}
	return errors.Join(failed...)
}
