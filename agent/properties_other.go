//go:build !linux

package agent

import agentpb "candela.dev/candela/proto/agent/v1"

func interfaceProperties(string) []*agentpb.Property { return nil }
