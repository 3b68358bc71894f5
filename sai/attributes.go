// Package sai describes packet trimming in the Switch Abstraction Interface: attributes with defaults and allowed
// values, a switch's settings and its counters. It has data and its constraints but no behaviour. The switch model, the
// driver of a real switch and the analyzer share this package and no logic.
//
// Source: "SAI Change Proposal for Packet Trimming" (SAI 1.14), supplemented by SONiC's design of the same feature.
package sai

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Object is the owner of an attribute or counter.
type Object string

// Objects.
const (
	SwitchObject  Object = "switch"
	ProfileObject Object = "buffer profile"
	ACLObject     Object = "ACL entry"
	PortObject    Object = "port"
	QueueObject   Object = "queue"
)

// Value is one value of an enumeration, in both spellings.
type Value struct {
	SAI   string // SAI_PACKET_TRIM_QUEUE_RESOLUTION_MODE_DYNAMIC
	SONiC string // dynamic; empty: implied by the other field being a number
}

// Attribute is one attribute of the proposal.
type Attribute struct {
	Name      string // SAI_SWITCH_ATTR_PACKET_TRIM_SIZE
	Object    Object
	Table     string // table of CONFIG_DB
	Field     string // in that table
	Type      string // sai_uint32_t, an enumeration, bool
	Default   string
	Min, Max  int64   // of numbers; both 0: an enumeration
	Values    []Value // of enumerations
	ValidOnly string  // condition under which the attribute applies; empty: always
	Doc       string
}

// Names of attributes.
const (
	AttrSize        = "SAI_SWITCH_ATTR_PACKET_TRIM_SIZE"
	AttrDSCPMode    = "SAI_SWITCH_ATTR_PACKET_TRIM_DSCP_RESOLUTION_MODE"
	AttrDSCP        = "SAI_SWITCH_ATTR_PACKET_TRIM_DSCP_VALUE"
	AttrTC          = "SAI_SWITCH_ATTR_PACKET_TRIM_TC_VALUE"
	AttrQueueMode   = "SAI_SWITCH_ATTR_PACKET_TRIM_QUEUE_RESOLUTION_MODE"
	AttrQueue       = "SAI_SWITCH_ATTR_PACKET_TRIM_QUEUE_INDEX"
	AttrAction      = "SAI_BUFFER_PROFILE_ATTR_PACKET_ADMISSION_FAIL_ACTION"
	AttrTrimDisable = "SAI_ACL_ENTRY_ATTR_ACTION_PACKET_TRIM_DISABLE"
)

// MaxDSCP is the largest value of a 6-bit field.
const MaxDSCP = 63

// Attributes returns every attribute of packet trimming, in the order of the proposal.
func Attributes() []Attribute {
	trimming := func(a Attribute) Attribute {
		a.Object, a.Table = SwitchObject, "SWITCH_TRIMMING"
		return a
	}
	return []Attribute{
		{
			Name: AttrAction, Object: ProfileObject, Table: "BUFFER_PROFILE", Field: "packet_discard_action",
			Type:    "sai_buffer_profile_packet_admission_fail_action_t",
			Default: "SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION_DROP",
			Values: []Value{
				{"SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION_DROP", "drop"},
				{"SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION_DROP_AND_TRIM", "trim"},
			},
			Doc: "what becomes of a packet that the buffer does not admit; counts only where the profile is bound to a queue",
		},
		trimming(Attribute{
			Name: AttrSize, Field: "size", Type: "sai_uint32_t", Default: "128", Min: 1, Max: 1<<32 - 1,
			Doc: "bytes kept; a shorter packet is sent whole, on the trim queue with the trim DSCP",
		}),
		trimming(Attribute{
			Name: AttrDSCPMode, Field: "dscp_value", Type: "sai_packet_trim_dscp_resolution_mode_t",
			Default: "SAI_PACKET_TRIM_DSCP_RESOLUTION_MODE_DSCP_VALUE",
			Values: []Value{
				{"SAI_PACKET_TRIM_DSCP_RESOLUTION_MODE_DSCP_VALUE", ""},
				{"SAI_PACKET_TRIM_DSCP_RESOLUTION_MODE_FROM_TC", "from-tc"},
			},
			Doc: "where a copy's DSCP comes from: one value, or the trim TC through the egress port's TC→DSCP map",
		}),
		trimming(Attribute{
			Name: AttrDSCP, Field: "dscp_value", Type: "sai_uint8_t", Default: "0", Min: 0, Max: MaxDSCP,
			ValidOnly: AttrDSCPMode + " == DSCP_VALUE",
			Doc:       "DSCP of every copy",
		}),
		trimming(Attribute{
			Name: AttrTC, Field: "tc_value", Type: "sai_uint8_t", Default: "0", Min: 0, Max: 255,
			ValidOnly: AttrDSCPMode + " == FROM_TC",
			Doc:       "traffic class that the egress port's map turns into a DSCP; must exist on the switch",
		}),
		trimming(Attribute{
			Name: AttrQueueMode, Field: "queue_index", Type: "sai_packet_trim_queue_resolution_mode_t",
			Default: "SAI_PACKET_TRIM_QUEUE_RESOLUTION_MODE_STATIC",
			Values: []Value{
				{"SAI_PACKET_TRIM_QUEUE_RESOLUTION_MODE_STATIC", ""},
				{"SAI_PACKET_TRIM_QUEUE_RESOLUTION_MODE_DYNAMIC", "dynamic"},
			},
			Doc: "whether a copy's queue is given, or follows from its new DSCP by the switch's QoS maps",
		}),
		trimming(Attribute{
			Name: AttrQueue, Field: "queue_index", Type: "sai_uint8_t", Default: "0", Min: 0, Max: 255,
			ValidOnly: AttrQueueMode + " == STATIC",
			Doc:       "queue of every copy; must exist on the egress port",
		}),
		{
			Name: AttrTrimDisable, Object: ACLObject, Table: "ACL_RULE", Field: "PACKET_ACTION",
			Type: "bool", Default: "false", Values: []Value{{"true", "DISABLE_TRIM"}, {"false", ""}},
			Doc: "matching packets are dropped, not trimmed; matters only where the packet's queue would trim",
		},
	}
}

// AttributeNamed returns the attribute of that name.
func AttributeNamed(name string) (Attribute, bool) {
	all := Attributes()
	i := slices.IndexFunc(all, func(a Attribute) bool { return a.Name == name })
	if i < 0 {
		return Attribute{}, false
	}
	return all[i], true
}

// Allowed describes the allowed values of a.
func (a Attribute) Allowed() string {
	if len(a.Values) == 0 {
		return fmt.Sprintf("%d to %d", a.Min, a.Max)
	}
	var names []string
	for _, v := range a.Values {
		names = append(names, v.SAI)
	}
	return strings.Join(names, ", ")
}

// An AttributeError is the error for a value that is not allowed.
type AttributeError struct {
	Attribute string // SAI's name
	Where     string // object: a profile, a port; empty: the switch
	Value     string
	Allowed   string
}

func (e *AttributeError) Error() string {
	where := ""
	if e.Where != "" {
		where = " of " + e.Where
	}
	return fmt.Sprintf("%s%s: %s is not allowed (allowed: %s)", e.Attribute, where, e.Value, e.Allowed)
}

// outside returns an error unless low ≤ value ≤ high.
func outside(attribute, where string, value, low, high int64, why string) error {
	if value >= low && value <= high {
		return nil
	}
	allowed := fmt.Sprintf("%d to %d", low, high)
	if why != "" {
		allowed += ", " + why
	}
	return &AttributeError{attribute, where, strconv.FormatInt(value, 10), allowed}
}
