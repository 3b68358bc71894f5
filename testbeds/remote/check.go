package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/agent"
	"candela.dev/candela/agent/lldp"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// clockTolerance bounds the error of a machine's wall clock, which orders the logs of a run, not its traces.
const clockTolerance = time.Second

// Check reads every machine's description after Prepare and listens for LLDP neighbours: up to patience where the
// description names one, else for a moment. It returns its results in lines and reasons against a run in problems.
func (t *Testbed) Check(ctx context.Context, version string, patience time.Duration) (lines, problems []string,
	err error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	devices := append(t.m.Hosts[:], t.m.Dumpers...)
	for i, c := range t.agents() {
		asked := time.Now()
		d, err := c.Describe(ctx)
		if err != nil {
			return lines, problems, t.Blame(err)
		}
		lines = append(lines, fmt.Sprintf("%s: version %s, privileges %s", c.Name(), d.GetVersion(),
			strings.Join(d.GetPrivileges(), ", ")))
		for _, problem := range t.unfit(d, devices[i].Interface, version, asked, time.Now()) {
			problems = append(problems, c.Name()+": "+problem)
		}
	}
	if t.described != nil {
		lines = append(lines, fmt.Sprintf("%s: version %s, datapath %s", t.m.Switch.Name, t.described.GetVersion(),
			t.described.GetDatapath()))
		if v := t.described.GetVersion(); v != version {
			problems = append(problems, fmt.Sprintf("%s: version %s, this is %s", t.m.Switch.Name, v, version))
		}
	}
	heard, strangers, err := t.neighbours(ctx, patience)
	return printable(append(lines, heard...)), printable(append(problems, strangers...)), t.Blame(err)
}

// printable makes each text one safe line for a terminal, because machines and their neighbours choose its words.
func printable(texts []string) []string {
	for i, text := range texts {
		texts[i] = strings.NewReplacer("\n", " ", "\t", " ").Replace(agent.Printable(text))
	}
	return texts
}

// moment is the listening time for neighbours that the description does not name. On one machine there are none.
const moment = time.Second

// neighbours asks every agent for the neighbour at the other end of its cable.
func (t *Testbed) neighbours(ctx context.Context, patience time.Duration) (lines, problems []string, err error) {
	if t.m.Kind == kindNetns {
		return nil, nil, nil
	}
	devices, clients := append(t.m.Hosts[:], t.m.Dumpers...), t.agents()
	heard := make([][]lldp.Neighbour, len(clients))
	waited := make([]time.Duration, len(clients))
	err = each(len(clients), func(i int) (err error) {
		waited[i] = min(moment, patience)
		if devices[i].Neighbour != nil {
			waited[i] = patience
		}
		if waited[i] <= 0 {
			return nil
		}
		heard[i], err = clients[i].Neighbours(ctx, devices[i].Interface, waited[i], devices[i].Neighbour.is)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, c := range clients {
		line, problem := devices[i].met(heard[i], waited[i])
		lines = append(lines, c.Name()+": "+line)
		if problem != "" {
			problems = append(problems, c.Name()+": "+problem)
		}
	}
	return lines, problems, nil
}

// kindNetns is the kind of testbed that makes its own cables.
const kindNetns = "netns"

// is reports whether n matches want; false if want is nil.
func (want *Neighbour) is(n lldp.Neighbour) bool { return want != nil && n.Is(want.System, want.Port) }

// met compares the heard neighbours with the expected one. A switch that floods LLDP lets hosts hear each other, too.
func (m *Machine) met(heard []lldp.Neighbour, waited time.Duration) (line, problem string) {
	var names []string
	for _, n := range heard {
		names = append(names, n.String())
	}
	switch {
	case waited <= 0:
		line = "LLDP was not listened for"
	case len(heard) == 0:
		line = fmt.Sprintf("no LLDP neighbour on %s within %v", m.Interface, waited)
	default:
		line = fmt.Sprintf("LLDP neighbour on %s: %s", m.Interface, strings.Join(names, ", "))
	}
	if m.Neighbour == nil || waited <= 0 || slices.ContainsFunc(heard, m.Neighbour.is) {
		return line, ""
	}
	want := strings.TrimSpace(m.Neighbour.System + " port " + m.Neighbour.Port)
	switch {
	case m.Neighbour.Port == "":
		want = m.Neighbour.System
	case m.Neighbour.System == "":
		want = "port " + m.Neighbour.Port
	}
	if len(heard) == 0 {
		return line, fmt.Sprintf("the description says that %s is cabled to %s; nobody there spoke LLDP within %v",
			m.Interface, want, waited)
	}
	return line, fmt.Sprintf("the description says that %s is cabled to %s; LLDP says %s", m.Interface, want,
		strings.Join(names, ", "))
}

// headers is the difference between the longest frame, without the Ethernet header, and the path MTU: IPv6, UDP, BTH,
// RETH, immediate, iCRC.
const headers = 40 + 8 + 12 + 16 + 4 + 4

func (t *Testbed) unfit(d *agentpb.DescribeResponse, device, version string, asked,
	answered time.Time) (problems []string) {
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

// Silent names hosts that received less than the other side sent, after a run that must not lose frames.
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
			problems = append(problems,
				fmt.Sprintf("%s got %d of %d packets that the %s sent: the way over the switch loses them",
					list[i].Host, got, sent, list[1-i].Host))
		}
	}
	return problems, nil
}
