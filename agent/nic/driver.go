package nic

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A driver knows a vendor's files.
type driver interface {
	name() string
	vendor() string // of counter names, as in NIC profiles
	// knobs returns what to write for s, except MTU and addresses, or an error that names what the driver lacks.
	knobs(n *NIC, s Settings) ([]knob, error)
	// settings are directories or files to report; every file below them is one property.
	settings(n *NIC) []string
}

// knob is one file to be written.
type knob struct {
	file, value string
	commit      string // file to write 1 to afterwards; empty: none
	prefix      string // what precedes the value, reading and writing
}

// bare removes words that some files put around a value, such as "Global tclass=106".
func (k knob) bare(read string) string {
	if k.prefix == "" {
		return read
	}
	if at := strings.LastIndex(read, k.prefix); at >= 0 {
		return strings.TrimSpace(read[at:])
	}
	return k.prefix + "-1" // nothing is set, and that is how to say so
}

// same compares two values: numbers as numbers, whatever their base, N and Y as 0 and 1.
func (k knob) same(read, value string) bool {
	a, b := strings.TrimPrefix(k.bare(read), k.prefix), strings.TrimPrefix(value, k.prefix)
	if a == b {
		return true
	}
	x, errX := number(a)
	y, errY := number(b)
	return errX == nil && errY == nil && x == y
}

func number(s string) (int64, error) {
	switch s {
	case "N":
		return 0, nil
	case "Y":
		return 1, nil
	}
	return strconv.ParseInt(s, 0, 64)
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// wanted are the settings that DCQCN has, in the words of errors.
func (s *Settings) wanted() (names []string) {
	for _, w := range []struct {
		name string
		set  bool
	}{{"reaction point", s.ReactionPoint != nil}, {"notification point", s.NotificationPoint != nil},
		{"time between CNPs", s.MinTimeBetweenCNPs != nil}, {"CNP DSCP", s.CNPDSCP != nil},
		{"traffic class", s.TrafficClass != nil}} {
		if w.set {
			names = append(names, w.name)
		}
	}
	return names
}

func unsupported(why string, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(names, ", "), ErrUnsupported, why)
}

// mlx5 is NVIDIA's driver for ConnectX-4 and later. Its own distribution has switches per priority and reads and writes
// everything under the interface; the kernel's has the parameters in debugfs and no switch.
type mlx5 struct{}

func (mlx5) name() string   { return "mlx5" }
func (mlx5) vendor() string { return "nvidia" }

func (mlx5) parameters(n *NIC) string { return path.Join("sys/kernel/debug/mlx5", n.PCI, "cc_params") }

func (d mlx5) knobs(n *NIC, s Settings) ([]knob, error) {
	var list []knob
	class := knob{file: n.rdma("tc", strconv.Itoa(n.Port), "traffic_class"), prefix: "tclass="}
	if s.TrafficClass != nil {
		class.value = class.prefix + strconv.Itoa(*s.TrafficClass)
		list = append(list, class)
	}
	if names, err := n.files.list(n.net("ecn")); err != nil || len(names) == 0 {
		more, lacking := d.kernelKnobs(n, s)
		return append(list, more...), errors.Join(err, lacking)
	}
	if s.ReactionPoint != nil {
		list = append(list, knob{file: n.net("ecn/roce_rp/enable", strconv.Itoa(s.Priority)), value: flag(*s.ReactionPoint)})
	}
	if s.NotificationPoint != nil {
		list = append(list, knob{file: n.net("ecn/roce_np/enable", strconv.Itoa(s.Priority)),
			value: flag(*s.NotificationPoint)})
	}
	if s.MinTimeBetweenCNPs != nil {
		list = append(list, knob{file: n.net("ecn/roce_np/min_time_between_cnps"), value: microseconds(s)})
	}
	if s.CNPDSCP != nil {
		list = append(list, knob{file: n.net("ecn/roce_np/cnp_dscp"), value: strconv.Itoa(*s.CNPDSCP)})
	}
	return list, nil
}

func (d mlx5) kernelKnobs(n *NIC, s Settings) ([]knob, error) {
	var list []knob
	var missing []string
	if s.ReactionPoint != nil {
		missing = append(missing, "reaction point")
	}
	if s.NotificationPoint != nil {
		missing = append(missing, "notification point")
	}
	if s.MinTimeBetweenCNPs != nil {
		list = append(list, knob{file: path.Join(d.parameters(n), "np_min_time_between_cnps"), value: microseconds(s)})
	}
	if s.CNPDSCP != nil {
		list = append(list, knob{file: path.Join(d.parameters(n), "np_cnp_dscp"), value: strconv.Itoa(*s.CNPDSCP)})
	}
	return list, unsupported("the kernel's own mlx5 driver has no /"+n.net("ecn")+
		"; the firmware's setting applies (mlxconfig ROCE_CC_PRIO_MASK)",
		missing...)
}

func microseconds(s Settings) string {
	return strconv.FormatInt(s.MinTimeBetweenCNPs.Microseconds(), 10)
}

func (d mlx5) settings(n *NIC) []string {
	return []string{n.net("ecn/roce_np"), n.net("ecn/roce_rp"), d.parameters(n), n.net("qos/trust"),
		n.rdma("tc", strconv.Itoa(n.Port), "traffic_class")}
}

// bnxt is Broadcom's driver: its own distribution has configfs, where a value takes effect when apply is written; the
// kernel's has debugfs. It has one setting for both ends of DCQCN.
type bnxt struct{}

func (bnxt) name() string   { return "bnxt_re" }
func (bnxt) vendor() string { return "broadcom" }

func (bnxt) config(n *NIC) string {
	return path.Join("sys/kernel/config/bnxt_re", n.Device, "ports", strconv.Itoa(n.Port), "cc")
}

func (bnxt) debug(n *NIC) string { return path.Join("sys/kernel/debug/bnxt_re", n.PCI, "cc_config") }

func (d bnxt) knobs(n *NIC, s Settings) ([]knob, error) {
	enable, err := oneSwitch(s)
	if err != nil {
		return nil, err
	}
	var missing []string
	if s.MinTimeBetweenCNPs != nil {
		missing = append(missing, "time between CNPs")
	}
	if err := d.unfold(n); err != nil {
		return nil, err
	}
	names, err := n.files.list(d.config(n))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return d.kernelKnobs(n, s, enable, missing)
	}
	var list []knob
	add := func(file, value string) {
		list = append(list, knob{file: path.Join(d.config(n), file), value: value, commit: path.Join(d.config(n), "apply")})
	}
	if enable != nil {
		add("ecn_enable", flag(*enable))
	}
	if s.CNPDSCP != nil {
		add("cnp_dscp", strconv.Itoa(*s.CNPDSCP))
	}
	if s.TrafficClass != nil {
		if *s.TrafficClass&3 != 0 {
			return nil,
				fmt.Errorf("traffic class %d: %w: bnxt_re takes a DSCP, and marks ECN by itself; multiples of 4 can be set",
					*s.TrafficClass, ErrUnsupported)
		}
		add("roce_dscp", strconv.Itoa(*s.TrafficClass>>2))
	}
	return list, unsupported("its cc directory has no such file", missing...)
}

// unfold creates the device's directory of configfs, which the driver fills.
func (bnxt) unfold(n *NIC) error {
	const all = "sys/kernel/config/bnxt_re"
	directory := path.Join(all, n.Device)
	if _, err := n.files.root.Stat(all); isMissing(err) {
		return nil // the kernel's own driver
	}
	return n.turn(&wish{n.directory(directory), present})
}

func (d bnxt) kernelKnobs(n *NIC, s Settings, enable *bool, missing []string) ([]knob, error) {
	var list []knob
	if enable != nil {
		list = append(list, knob{file: path.Join(d.debug(n), "enable_cc"), value: flag(*enable)})
	}
	if s.CNPDSCP != nil {
		list = append(list, knob{file: path.Join(d.debug(n), "alt_vlan_dscp"), value: strconv.Itoa(*s.CNPDSCP)})
	}
	if s.TrafficClass != nil {
		missing = append(missing, "traffic class")
	}
	return list, unsupported("the kernel's own bnxt_re driver has no file for it", missing...)
}

// oneSwitch returns what both points of DCQCN are to be.
func oneSwitch(s Settings) (*bool, error) {
	rp, np := s.ReactionPoint, s.NotificationPoint
	switch {
	case rp == nil && np == nil:
		return nil, nil
	case rp == nil || np == nil || *rp != *np:
		return nil, unsupported("it has one switch for both, so both must be given, and alike", "reaction point",
			"notification point")
	}
	return rp, nil
}

func (d bnxt) settings(n *NIC) []string { return []string{d.config(n), d.debug(n)} }

// irdma is Intel's driver for the 800 series. DCQCN is set when its module is loaded.
type irdma struct{}

func (irdma) name() string   { return "irdma" }
func (irdma) vendor() string { return "intel" }

const irdmaParameters = "sys/module/irdma/parameters"

// knobs accepts what already holds: the switch can be read, and not written.
func (irdma) knobs(n *NIC, s Settings) ([]knob, error) {
	enable, err := oneSwitch(s)
	if err != nil {
		return nil, err
	}
	missing := s
	missing.ReactionPoint, missing.NotificationPoint = nil, nil
	why := "parameters of module irdma count when it is loaded (options irdma … in /etc/modprobe.d)"
	if enable != nil {
		file := path.Join(irdmaParameters, "dcqcn_enable")
		is, err := n.files.read(file)
		if err != nil {
			return nil, err
		}
		if !(knob{}).same(is, flag(*enable)) {
			return nil, fmt.Errorf("/%s is %q, wanted %s: %w: %s", file, is, flag(*enable), ErrUnsupported, why)
		}
	}
	return nil, unsupported(why, missing.wanted()...)
}

func (irdma) settings(*NIC) []string { return []string{irdmaParameters} }

// plain is a driver without congestion control: software RoCE, a veth, an unknown one.
type plain struct{ is, from string }

// unknownVendor is the vendor of counters whose names nothing is known of.
const unknownVendor = "unknown"

func (d plain) name() string   { return d.is }
func (d plain) vendor() string { return d.from }

func (d plain) knobs(_ *NIC, s Settings) ([]knob, error) {
	return nil, unsupported("package nic knows no congestion control of "+d.is, s.wanted()...)
}

func (plain) settings(*NIC) []string { return nil }
