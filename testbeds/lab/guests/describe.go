//go:build linux

package guests

import (
	"fmt"
	"os"
)

// What serves the tests on a machine, as a testbed's description has it.
const (
	SoftRoCE = "rdma: {device: rxe0, software: true}"
	NICModel = "interface: eth0"
)

// Describe writes the description of the lab to a file: what serves the tests on the requester and on the responder.
func (l *Lab) Describe(file, requester, responder string) error {
	text := fmt.Sprintf(`name: guests
kind: lab
links: {requester: {rate-gbps: 1, propagation-delay-ns: 0}, responder: {rate-gbps: 1, propagation-delay-ns: 0}}
mirror: {snap-bytes: 0}
dumpers: [{name: %s, cores: 1}]
live:
  datapath: qemu
  requester: {agent: "%s", port: 0, %s}
  responder: {agent: "%s", port: 1, %s}
  dumpers: [{agent: "%s", interface: eth0, port: 2}]
  switch: {address: "%s"}
  certificates: {cert: %s, key: %s, ca: %s, crl: %s}
`, Dumper, l.Agents[Requester], requester, l.Agents[Responder], responder, l.Agents[Dumper], l.Switch, l.Files.Cert,
		l.Files.Key, l.Files.CA, l.Files.CRL)
	return os.WriteFile(file, []byte(text), 0o600)
}
