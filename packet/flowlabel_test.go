package packet_test

import (
	"testing"

	"candela.dev/candela/packet"
)

func TestEveryDynamicPortHasAFlowLabel(t *testing.T) {
	for port := range 1 << 16 {
		label, ok := packet.PortFlowLabel(uint16(port))
		if ok != (port >= 0xc000) {
			t.Fatalf("port %d: %v", port, ok)
		}
		if ok && (label == 0 || label > packet.MaxFlowLabel || packet.FlowLabelPort(label) != uint16(port)) {
			t.Fatalf("port %d: label %#x gives port %d", port, label, packet.FlowLabelPort(label))
		}
	}
	// The lower 14 bits are combined with the upper 6, as in Linux: 0x3ffff is 0xf and 0x3fff.
	if got := packet.FlowLabelPort(0x3ffff); got != 0xfff0 {
		t.Errorf("label 0x3ffff gives port %#x", got)
	}
}
