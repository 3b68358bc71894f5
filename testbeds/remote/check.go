package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	agentpb "candela.dev/candela/proto/agent/v1"
)

// clockTolerance is how far a machine's wall clock may be off: logs of a run are compared by it, traces are not.
const clockTolerance = time.Second

// Check asks every machine what it is, after Prepare. lines tell what was found, problems what makes it unfit.
func (t *Testbed) Check(ctx context.Context, version string) (lines, problems []string, err error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	devices := append(t.m.Hosts[:], t.m.Dumpers...)
	for i, c := range t.agents() {
		asked := time.Now()
		d, err := c.Describe(ctx)
		if err != nil {
			return lines, problems, t.blame(err)
		}
		lines = append(lines, fmt.Sprintf("%s: version %s, privileges %s", c.Name(), d.GetVersion(), strings.Join(d.GetPrivileges(), ", ")))
		for _, problem := range t.unfit(d, devices[i].Interface, version, asked, time.Now()) {
			problems = append(problems, c.Name()+": "+problem)
		}
	}
	if t.described != nil {
		lines = append(lines, fmt.Sprintf("%s: version %s, datapath %s", t.m.Switch.Name, t.described.GetVersion(), t.described.GetDatapath()))
		if v := t.described.GetVersion(); v != version {
			problems = append(problems, fmt.Sprintf("%s: version %s, this is %s", t.m.Switch.Name, v, version))
		}
	}
	return lines, problems, nil
}

// headers is how much longer than the path MTU a frame may be, without the Ethernet header: IPv6, UDP, BTH, RETH, immediate, iCRC.
const headers = 40 + 8 + 12 + 16 + 4 + 4

func (t *Testbed) unfit(d *agentpb.DescribeResponse, device, version string, asked, answered time.Time) (problems []string) {
	if v := d.GetVersion(); v != version {
		problems = append(problems, fmt.Sprintf("version %s, this is %s", v, version))
	}
	for _, need := range []string{"CAP_NET_ADMIN", "CAP_NET_RAW"} {
		if !slices.Contains(d.GetPrivileges(), need) {
			problems = append(problems, "it lacks "+need)
		}
	}
	now := time.Unix(0, d.GetNowUnixNs())
	if now.Before(asked.Add(-clockTolerance)) || now.After(answered.Add(clockTolerance)) {
		problems = append(problems, fmt.Sprintf("its clock is off by about %v", now.Sub(asked).Round(time.Millisecond)))
	}
	at := slices.IndexFunc(d.GetInterfaces(), func(i *agentpb.Interface) bool { return i.GetName() == device })
	if at < 0 {
		return append(problems, fmt.Sprintf("its agent doesn't serve interface %s", device))
	}
	i := d.GetInterfaces()[at]
	if !i.GetUp() {
		problems = append(problems, fmt.Sprintf("interface %s is down or has no carrier", device))
	}
	if need := t.spec.Connections[0].MTU + headers; int(i.GetMtu()) < need {
		problems = append(problems, fmt.Sprintf("interface %s has an MTU of %d, the test needs %d", device, i.GetMtu(), need))
	}
	return problems
}

// Silent names hosts that got nothing, or less than the other side sent, after a run that should have lost nothing.
func (t *Testbed) Silent(ctx context.Context) (problems []string, err error) {
	list, err := t.Counters(ctx)
	if err != nil {
		return nil, err
	}
	value := func(host int, names ...string) (v uint64) {
		for _, c := range list[host].Values {
			if slices.Contains(names, c.Name) {
				v = c.Value
			}
		}
		return v
	}
	for i := range list {
		sent, got := value(1-i, "tx_packets"), value(i, "rx_packets")
		if got < sent {
			problems = append(problems, fmt.Sprintf("%s got %d of %d packets that the %s sent: the way over the switch loses them",
				list[i].Host, got, sent, list[1-i].Host))
		}
	}
	return problems, nil
}
