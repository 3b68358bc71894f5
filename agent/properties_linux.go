package agent

import (
	"os"

	"candela.dev/candela/agent/nic"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// interfaceProperties are driver, firmware and files of an interface, each named INTERFACE/PROPERTY. The value of an
// unreadable one is the error.
func interfaceProperties(name string) (list []*agentpb.Property) {
	add := func(property, value string) {
		list = append(list, &agentpb.Property{Name: name + "/" + property, Value: value})
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		add("unreadable", err.Error())
		return list
	}
	defer root.Close()
	n, err := nic.Find(root, nic.Kernel{}, name)
	if err != nil {
		add("unreadable", err.Error())
		return list
	}
	properties, err := n.Properties()
	if err != nil {
		add("unreadable", err.Error())
	}
	for _, p := range properties {
		switch p.Name {
		case "kernel", "interface", "mtu": // said already
		case "mac":
			add("interface-mac", p.Value) // a model on the interface has its own
		default:
			add(p.Name, p.Value)
		}
	}
	return list
}

// findNIC finds the NIC of an interface in the kernel's own files.
func findNIC(root *os.Root, name string) (*nic.NIC, error) { return nic.Find(root, nic.Kernel{}, name) }
