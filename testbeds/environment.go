package testbeds

import (
	"fmt"
	"reflect"
	"strings"

	"candela.dev/candela/clock"
)

// NewProperty returns a property with the formatted value.
func NewProperty(name string, value any) Property {
	return Property{Name: name, Value: fmt.Sprint(value)}
}

// Gbps formats a rate.
func Gbps(r clock.BitRate) string { return fmt.Sprintf("%g Gb/s", float64(r)/float64(clock.Gbps)) }

// Properties describe a host with a NIC model. Its parameters replace the firmware settings of a real NIC.
func (h *Host) Properties(mtu int, profile any) []Property {
	list := []Property{
		NewProperty("nic", "model "+h.Profile),
		NewProperty("bugs", strings.Join(h.Bugs, ", ")),
		NewProperty("mac", h.MAC),
		NewProperty("ip", strings.Trim(fmt.Sprint(h.IPs), "[]")),
		NewProperty("link-rate", Gbps(h.Rate)),
		NewProperty("propagation", h.Propagation),
		NewProperty("dcqcn-rp", h.DCQCNRP),
		NewProperty("dcqcn-np", h.DCQCNNP),
		NewProperty("min-time-between-cnps", h.MinTimeBetweenCNPs),
		NewProperty("cnp-pacing", h.CNPPacing),
		NewProperty("slow-restart", h.SlowRestart),
		NewProperty("adaptive-retrans", h.AdaptiveRetrans),
		NewProperty("mtu", mtu),
	}
	return append(list, parameters("profile.", profile)...)
}

// parameters lists the exported scalar and list fields of a model's parameter struct, so that new parameters are
// included.
func parameters(prefix string, model any) []Property {
	v := reflect.ValueOf(model)
	var list []Property
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch f.Type.Kind() {
		case reflect.Map, reflect.Pointer, reflect.Func, reflect.Struct:
			continue
		default:
			list = append(list, NewProperty(prefix+f.Name, v.Field(i).Interface()))
		}
	}
	return list
}
