package config

// validatePorts checks that the hosts can be set to the flow label and the source port.
func (d *decoder) validatePorts(t *Test) {
	if !d.fine("testbed") {
		return
	}
	for _, k := range []struct {
		key   string
		given bool
	}{{"traffic.flow-label", len(t.Traffic.FlowLabels) > 0}, {"traffic.source-port", len(t.Traffic.SourcePorts) > 0}} {
		if k.given && t.Testbed.SoftwareHosts() && d.fine(k.key) {
			d.problemAt(k.key, "can't be set: a host of this testbed is soft-RoCE",
				"it derives the UDP source port from the QPN, and sends IPv6 flow label 0")
		}
	}
}
