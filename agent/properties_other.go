//go:build !linux

package agent

import (
	"os"

	"candela.dev/candela/agent/nic"
	agentpb "candela.dev/candela/proto/agent/v1"
)

func interfaceProperties(string) []*agentpb.Property { return nil }

// findNIC finds nothing: the kernel is another.
func findNIC(*os.Root, string) (*nic.NIC, error) { return nil, nic.ErrUnsupported }
