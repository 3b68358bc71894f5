package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/generator/verbs"
)

// carrierTime bounds the wait for a link that a setting, or its restoring, has taken down: FEC, pause and rings do.
var carrierTime = 10 * time.Second

// tune makes the settings that the test asks for, before anything uses the device.
func (r *rdmaHost) tune(h *Host) (err error) {
	if r.root, err = os.OpenRoot("/"); err != nil {
		return err
	}
	if r.nic, err = findNIC(r.root, r.device); err != nil {
		return err
	}
	// What a killed agent has set must not count as the former value.
	if _, err := restoreSettings(r.journal, r.root, r.device); err != nil {
		return err
	}
	r.nic.Keep(r.journal)
	s, err := nic.Parse(h.NIC.Settings)
	if err != nil {
		return err
	}
	return r.nic.Apply(s)
}

// restoreSettings restores what a killed agent has left changed, of the interfaces or of all.
func restoreSettings(j *nic.Journal, root *os.Root, interfaces ...string) ([]string, error) {
	return j.Restore(func(name string) (*nic.NIC, error) { return findNIC(root, name) }, interfaces...)
}

// awaitPort waits until the device's port has a link: the settings of an earlier run may just have been restored.
func (r *rdmaHost) awaitPort() error {
	for deadline := time.Now().Add(carrierTime); ; time.Sleep(pollEvery) {
		err := r.port.Check(r.sysfs)
		if !errors.Is(err, verbs.ErrInactive) || time.Now().After(deadline) {
			return err
		}
	}
}

// checkLink checks the link as the settings have left it.
func (r *rdmaHost) checkLink() error {
	for deadline := time.Now().Add(carrierTime); ; time.Sleep(pollEvery) {
		i, err := net.InterfaceByName(r.device)
		if err != nil {
			return fmt.Errorf("interface %q: %w", r.device, err)
		}
		if need := r.mtu + rdmaHeaders; i.MTU < need {
			return fmt.Errorf("interface %s has an MTU of %d; a path MTU of %d needs %d", r.device, i.MTU, r.mtu, need)
		}
		switch {
		case i.Flags&net.FlagUp == 0:
			return fmt.Errorf("interface %s is down", r.device)
		case i.Flags&net.FlagRunning != 0:
			return r.awaitPort()
		case time.Now().After(deadline):
			return fmt.Errorf("interface %s has no carrier%s", r.device, r.suspects())
		}
	}
}

// suspects names the settings after which the link did not come back.
func (r *rdmaHost) suspects() (text string) {
	for _, p := range r.nic.Made() {
		text += "; " + p.Name + " = " + p.Value
	}
	return text
}

// control applies the test's settings of congestion control to a NIC of hardware.
func (r *rdmaHost) control(h *Host) error {
	if h.RDMA.OwnSettings {
		return nil
	}
	s := nic.Settings{ReactionPoint: &h.NIC.DCQCNRP, NotificationPoint: &h.NIC.DCQCNNP,
		Priority: int(h.NIC.DCQCNPriority)}
	if t := time.Duration(h.NIC.MinTimeBetweenCNPs.Nanoseconds()); t > 0 && h.NIC.DCQCNNP {
		s.MinTimeBetweenCNPs = &t
	}
	err := r.nic.Apply(s)
	if errors.Is(err, nic.ErrUnsupported) {
		err = fmt.Errorf("%w; with settings: own of rdma in the testbed's description the device keeps its own, which must "+
			"then be those of the test", err)
	}
	return err
}
