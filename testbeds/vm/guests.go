package vm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
)

// Guests are two virtual machines that are up. They serve one test at a time.
type Guests struct {
	cfg    Config
	image  image
	dir    string
	guests [2]*guest
}

// Up boots two guests and waits until both answer. They end with Close, or with this process.
func Up(ctx context.Context, cfg Config) (_ *Guests, err error) {
	found, err := cfg.setDefaults()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "candela-vm") // short: sockets stand there
	if err != nil {
		return nil, err
	}
	g := &Guests{cfg: cfg, image: found, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("boot guests: %w", err), g.Close())
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range []string{"requester", "responder"} {
		one := &guest{name: name, dir: dir}
		g.guests[i] = one
		if err := one.start(&g.cfg); err != nil {
			return nil, err
		}
		group.Go(func() error { return one.connect(ctx, &g.cfg) })
	}
	return g, group.Wait()
}

// Dead names the guests that have ended.
func (g *Guests) Dead() (names []string) {
	for _, one := range g.guests {
		select {
		case <-one.ended:
			names = append(names, one.name)
		default:
		}
	}
	return names
}

// Processes returns the guests' process ids.
func (g *Guests) Processes() (ids []int) {
	for _, one := range g.guests {
		ids = append(ids, one.cmd.Process.Pid)
	}
	return ids
}

// Close ends the guests.
func (g *Guests) Close() error {
	for _, one := range g.guests {
		if one != nil {
			one.close()
		}
	}
	return os.RemoveAll(g.dir)
}
