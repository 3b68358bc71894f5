package lock

import (
	"maps"
	"slices"

	"candela.dev/candela/clock"
)

// TakeAll installs the locks of an allocation in a switch that has lost its registers, or that is the backup of one
// that has failed (section 9). It grants nothing before an instant, and none of a lock before its former owner's queue
// is empty. The outputs are valid until the next call.
func (d *DataPlane) TakeAll(now clock.Time, a Allocation, from Source, notBefore clock.Time) ([]Output, error) {
	var list []Output
	for _, id := range slices.Sorted(maps.Keys(a)) {
		out, err := d.Take(now, id, a[id], from, notBefore)
		if err != nil {
			return nil, err
		}
		list = append(list, out...)
	}
	return list, nil
}

// Installed returns the slots of each lock.
func (d *DataPlane) Installed() Allocation {
	a := make(Allocation, len(d.locks))
	for id, l := range d.locks {
		a[id] = l.size
	}
	return a
}

// Takeover is what happens to the locks of a switch that fails and returns without its registers, with or without a
// backup (section 9). New requests go to the switch that Active says.
type Takeover struct {
	Lease      clock.Duration
	Allocation Allocation // that the original has, and the backup gets
	active     Role
}

// Role is which of two switches one is.
type Role int8

// Roles.
const (
	Nobody Role = iota - 1
	Original
	Backup
)

// Active returns the switch that requests go to.
func (t *Takeover) Active() Role { return t.active }

// Fail notes that the original has failed.
func (t *Takeover) Fail() { t.active = Nobody }

// Replace starts the backup, which grants when the leases of the original's holders have ended.
func (t *Takeover) Replace(now clock.Time, backup *DataPlane) ([]Output, error) {
	t.active = Backup
	return backup.TakeAll(now, t.Allocation, FromServer, now.Add(t.Lease))
}

// Return starts the original. If the backup serves, the original gets the locks that the backup has then, and requests
// queue there until the backup's queues are empty; the backup's control plane moves no more locks. Without a backup,
// which is nil then, they queue until the leases of holders from before the failure have ended.
func (t *Takeover) Return(now clock.Time, original, backup *DataPlane) ([]Output, error) {
	from, notBefore := FromServer, now.Add(t.Lease)
	if t.active == Backup {
		from, notBefore, t.Allocation = FromBackup, now, backup.Installed()
		backup.frozen = true
	}
	t.active = Original
	return original.TakeAll(now, t.Allocation, from, notBefore)
}
