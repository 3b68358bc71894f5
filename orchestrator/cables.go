package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"candela.dev/candela/framelog"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/trace"
)

// A CabledTestbed has cables that are plugged by hand. A verdict on a device requires that they match the description
// and neither lose nor damage frames.
type CabledTestbed interface {
	Testbed
	// CheckCabling probes every cable before any traffic and returns the differences from the description. received
	// returns the number of RoCE packets received by each port of the injector.
	CheckCabling(ctx context.Context, received func(context.Context) (map[uint16]uint64, error)) (problems []string,
		err error)
	// CheckDelivery names each host that does not receive the other's packets. The injector must be programmed.
	CheckDelivery(ctx context.Context) (problems []string, err error)
	// Cables returns the frames that each host recorded, after the traffic.
	Cables(ctx context.Context) ([]testbeds.Cable, error)
}

// checkCabling ends the run if machines are not at the described ports. It runs before the injector is programmed if
// the injector can list its ports, because programming a missing port may fail.
func (r *run) checkCabling(ctx context.Context) (err error) {
	if r.access, err = r.bed.Injector(ctx); err != nil {
		return err
	}
	if r.client, err = r.connect(ctx, r.access); err != nil {
		return err
	}
	bed, ok := r.bed.(CabledTestbed)
	if !ok {
		return nil
	}
	if _, err := r.client.Received(ctx); errors.Is(err, injector.ErrNoList) {
		return nil
	}
	r.located = true
	return r.stopIfMiscabled(bed.CheckCabling(ctx, r.client.Received))
}

// checkDelivery completes the cabling check once the injector is programmed.
func (r *run) checkDelivery(ctx context.Context) error {
	bed, ok := r.bed.(CabledTestbed)
	if !ok {
		return nil
	}
	if !r.located {
		if err := r.stopIfMiscabled(bed.CheckCabling(ctx, r.client.Received)); err != nil {
			return err
		}
	}
	return r.stopIfMiscabled(bed.CheckDelivery(ctx))
}

func (r *run) stopIfMiscabled(problems []string, err error) error {
	if r.miscabled = problems; err == nil && len(problems) > 0 {
		return errStop
	}
	return err
}

// collectFrames fetches the frames that hosts recorded and stores them with the trace.
func (r *run) collectFrames(ctx context.Context) (err error) {
	bed, ok := r.bed.(CabledTestbed)
	if r.soundCables = !ok; !ok {
		return nil
	}
	if r.cables, err = bed.Cables(ctx); err != nil || len(r.cables) == 0 {
		return err
	}
	if err := r.Dir.Mkdir(framesDir); err != nil {
		return err
	}
	doc := cablesDocument{Schema: CablesSchema}
	for _, c := range r.cables {
		doc.Cables = append(doc.Cables, cableDocument{c.Host, c.Port, c.Ordered, c.Trusted})
		for file, data := range map[string][]byte{sentFile(c.Host): c.Sent, receivedFile(c.Host): c.Received} {
			if err := r.WriteText(file, func() []byte { return data }); err != nil {
				return err
			}
		}
	}
	return r.Dir.WriteJSON(cablesFile, doc)
}

// CablesSchema names the format of cables.json.
const CablesSchema = "candela.cables/v1"

const (
	cablesFile = "cables.json"
	framesDir  = "frames"
)

func sentFile(host string) string     { return filepath.Join(framesDir, host+"-sent.bin") }
func receivedFile(host string) string { return filepath.Join(framesDir, host+"-received.bin") }

// CableFiles lists the files that may hold the hosts' frames. Without them rejudging skips the comparison with the
// trace.
func CableFiles() []string {
	files := []string{cablesFile}
	for _, side := range []config.Side{config.Requester, config.Responder} {
		files = append(files, filepath.ToSlash(sentFile(side.String())), filepath.ToSlash(receivedFile(side.String())))
	}
	return files
}

// cablesDocument is cables.json: the hosts of the files in frames/.
type cablesDocument struct {
	Schema string          `json:"schema"`
	Cables []cableDocument `json:"cables"`
}

type cableDocument struct {
	Host    string `json:"host"`
	Port    uint16 `json:"port"`
	Ordered bool   `json:"ordered"`
	Trusted string `json:"trusted,omitempty"`
}

// loadCables reads the recorded frames of a run; nil if its testbed records none.
func loadCables(dir string) (list []testbeds.Cable, err error) {
	var doc cablesDocument
	err = readJSON(filepath.Join(dir, cablesFile), &doc)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case doc.Schema != CablesSchema:
		return nil, fmt.Errorf("%s: schema %q, want %q", filepath.Join(dir, cablesFile), doc.Schema, CablesSchema)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, c := range doc.Cables {
		x := testbeds.Cable{Host: c.Host, Port: c.Port, Ordered: c.Ordered, Trusted: c.Trusted}
		if x.Sent, err = root.ReadFile(sentFile(c.Host)); err != nil {
			return nil, err
		}
		if x.Received, err = root.ReadFile(receivedFile(c.Host)); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// conditionCables is an integrity condition beyond those of the trace: no frame was lost between host and switch, in
// either direction.
const conditionCables = "cables"

// cableCondition compares the frames that hosts recorded with the trace in src.
func (f *facts) cableCondition(ctx context.Context, src trace.Source) (cond trace.Condition, err error) {
	cond = trace.Condition{Name: conditionCables, Status: trace.StatusOK}
	hosts := f.hostsOf()
	if len(f.cables) != len(hosts) {
		return cond, fmt.Errorf("%s: %d hosts, the test has %d", cablesFile, len(f.cables), len(hosts))
	}
	for i, c := range f.cables {
		h := &hosts[i]
		h.Name, h.Port, h.Ordered, h.Trusted = c.Host, c.Port, c.Ordered, c.Trusted
		if h.Sent, err = framelog.Parse(c.Sent); err == nil {
			h.Received, err = framelog.Parse(c.Received)
		}
		if err != nil {
			return cond, fmt.Errorf("frames of the %s: %w", c.Host, err)
		}
	}
	out, err := framelog.Compare(ctx, src, f.plan.Snap, hosts)
	if err != nil {
		return cond, err
	}
	switch {
	case len(out.Faults) > 0:
		cond.Status, cond.Message = trace.StatusViolated, strings.Join(out.Faults, "; ")
	case len(out.Checked) == 0:
		cond.Status, cond.Message = trace.StatusNotChecked, strings.Join(out.Trusted, "; ")
	default:
		cond.Message = strings.Join(append(out.Checked, out.Trusted...), "; ")
	}
	f.trustedCables = out.Trusted
	return cond, nil
}

func (f *facts) hostsOf() (hosts [2]framelog.Host) {
	for i := range hosts {
		hosts[i].IPs = addresses(f.plan.Test.Host(config.Side(i)).NIC.IPs)
	}
	return hosts
}

// cableNotes lists the unverified cables. Simulated cables lose nothing by construction.
func (f *facts) cableNotes() []string {
	if bed := f.plan.Test.Testbed; bed.Kind == config.KindVM && len(f.cables) == 0 {
		return []string{"the cables of the guests are trusted: they are sockets of one machine, and guests record no frames"}
	}
	if f.applicationEnd != "" {
		return append([]string{f.applicationEnd}, f.trustedCables...)
	}
	return f.trustedCables
}
