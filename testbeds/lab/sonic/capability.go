package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/sai"
)

// Support is a switch's support of a feature.
type Support string

// Values of Support. Unknown means that the switch does not report it, as in older releases.
const (
	Yes     Support = "yes"
	No      Support = "no"
	Unknown Support = "unknown"
)

// Capabilities are the trimming capabilities in STATE_DB.
type Capabilities struct {
	Trimming   Support                   `json:"trimming"`
	DSCPModes  map[sai.DSCPMode]Support  `json:"-"`
	QueueModes map[sai.QueueMode]Support `json:"-"`
}

// Fields of SWITCH_CAPABILITY|switch.
const (
	fieldCapable   = "SWITCH_TRIMMING_CAPABLE"
	fieldDSCPMode  = "SWITCH|PACKET_TRIMMING_DSCP_RESOLUTION_MODE"
	fieldQueueMode = "SWITCH|PACKET_TRIMMING_QUEUE_RESOLUTION_MODE"
)

// Capabilities reads the switch's capabilities.
func (s *Switch) Capabilities(ctx context.Context) (Capabilities, error) {
	key := s.databases.State.key("SWITCH_CAPABILITY", "switch")
	fields, err := s.state.HGetAll(ctx, key).Result()
	if err != nil {
		return Capabilities{}, fmt.Errorf("STATE_DB %s: %w", key, err)
	}
	c := Capabilities{
		Trimming:   Unknown,
		DSCPModes:  map[sai.DSCPMode]Support{},
		QueueModes: map[sai.QueueMode]Support{},
	}
	switch fields[fieldCapable] {
	case "true":
		c.Trimming = Yes
	case "false":
		c.Trimming = No
	}
	for _, m := range []sai.DSCPMode{sai.DSCPValue, sai.FromTC} {
		c.DSCPModes[m] = listed(fields[fieldDSCPMode], m.String())
	}
	for _, m := range []sai.QueueMode{sai.Static, sai.Dynamic} {
		c.QueueModes[m] = listed(fields[fieldQueueMode], m.String())
	}
	return c, nil
}

// listed looks up a mode in a comma-separated list; an empty list or N/A is Unknown.
func listed(list, mode string) Support {
	if list == "" || list == "N/A" {
		return Unknown
	}
	for _, m := range strings.Split(list, ",") {
		if strings.TrimSpace(m) == mode {
			return Yes
		}
	}
	return No
}

// ErrUnsupported reports that the switch declares a requested feature unsupported.
var ErrUnsupported = errors.New("the switch does not support it")

// Check refuses settings that the switch declares unsupported. Unknown support passes.
func (c Capabilities) Check(t sai.Trimming) error {
	if c.Trimming == No {
		return fmt.Errorf("packet trimming (%s is false): %w", fieldCapable, ErrUnsupported)
	}
	var errs []error
	if c.DSCPModes[t.DSCPMode] == No {
		errs = append(errs, fmt.Errorf("%s %v (it has: %s): %w", sai.AttrDSCPMode, t.DSCPMode, supported(c.DSCPModes),
			ErrUnsupported))
	}
	if c.QueueModes[t.QueueMode] == No {
		errs = append(errs, fmt.Errorf("%s %v (it has: %s): %w", sai.AttrQueueMode, t.QueueMode, supported(c.QueueModes),
			ErrUnsupported))
	}
	return errors.Join(errs...)
}

func supported[M interface {
	comparable
	fmt.Stringer
}](modes map[M]Support) string {
	var names []string
	for m, s := range modes {
		if s == Yes {
			names = append(names, m.String())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
