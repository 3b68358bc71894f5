package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/agent"
	"candela.dev/candela/injector"
	"candela.dev/candela/testbeds"
)

// Await waits until the application has the connections of the specification, and returns them by the requester's QPN.
// What each end expects next is the other's initial PSN, if nothing was sent yet.
func (t *Testbed) Await(ctx context.Context) ([]injector.Connection, error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	want := len(t.spec.Connections)
	var ends [2][]agent.ApplicationEnd
	for deadline := time.Now().Add(t.spec.External.Wait.Std()); ; {
		err := each(len(t.hosts), func(i int) (err error) {
			ends[i], err = t.hosts[i].Await(ctx, want)
			return err
		})
		if err != nil {
			return nil, t.Blame(err)
		}
		list := t.joined(ends)
		switch {
		case len(list) == want:
			return list, nil
		case len(list) > want:
			return nil, fmt.Errorf("the application has %d connections between %s and %s, the test wants %d: set "+
				"traffic.num-connections; there are %s", len(list), t.hosts[0].Name(), t.hosts[1].Name(), want, owners(ends))
		case time.Now().After(deadline):
			return nil, fmt.Errorf("no application: after %v there are %d of %d connections between %s and %s, since the start "+
				"of the run, and %s", t.spec.External.Wait.Std(), len(list), want, t.hosts[0].Name(), t.hosts[1].Name(),
				owners(ends))
		}
	}
}

// joined pairs the ends whose QPNs name each other.
func (t *Testbed) joined(ends [2][]agent.ApplicationEnd) (list []injector.Connection) {
	for _, a := range ends[testbeds.Requester] {
		i := slices.IndexFunc(ends[testbeds.Responder],
			func(b agent.ApplicationEnd) bool { return a.Peer == b.QPN && b.Peer == a.QPN })
		if i < 0 {
			continue
		}
		b := ends[testbeds.Responder][i]
		ips := t.spec.Connections[min(len(list), len(t.spec.Connections)-1)].IPs
		list = append(list, injector.Connection{
			Requester: injector.Endpoint{IP: ips[testbeds.Requester], QPN: a.QPN, IPSN: b.Receive},
			Responder: injector.Endpoint{IP: ips[testbeds.Responder], QPN: b.QPN, IPSN: a.Receive},
		})
	}
	return list
}

// owners names the queue pairs of both hosts for an error.
func owners(ends [2][]agent.ApplicationEnd) string {
	var list []string
	for i, name := range []string{"requester", "responder"} {
		for _, e := range ends[i] {
			list = append(list, fmt.Sprintf("%s QPN %d to %d of %s", name, e.QPN, e.Peer, e.Process))
		}
	}
	if len(list) == 0 {
		return "no new queue pair on either"
	}
	const most = 8
	if len(list) > most {
		list = append(list[:most], fmt.Sprintf("%d more", len(list)-most))
	}
	return strings.Join(list, ", ")
}
