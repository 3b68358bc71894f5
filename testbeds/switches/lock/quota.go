package lock

import "candela.dev/candela/clock"

// quotas counts the requests of tenants within a period (section 8.3). The control plane begins the next period.
type quotas struct {
	most map[uint16]int // of tenants that differ
	all  int            // of the others; 0: any number
	used []int          // by tenant
	bugs Bugs

	counted clock.Time // the first request that was counted since the period began; clock.Never: there is none
}

// admits counts a request and reports whether the tenant may still have it.
func (q *quotas) admits(now clock.Time, tenant uint16) bool {
	most := q.all
	if len(q.most) > 0 {
		if own, ok := q.most[tenant]; ok {
			most = own
		}
	}
	if most == 0 {
		return true
	}
	if q.bugs.Has(QuotaOffByOne) {
		most++
	}
	if q.bugs.Has(QuotaShared) {
		tenant /= 2
	}
	if int(tenant) >= len(q.used) {
		q.used = append(q.used, make([]int, int(tenant)+1-len(q.used))...)
	}
	if q.used[tenant] >= most {
		return false
	}
	q.used[tenant]++
	q.counted = min(q.counted, now)
	return true
}

// ResetQuotas begins a period of quotas.
func (d *DataPlane) ResetQuotas() {
	clear(d.quotas.used)
	d.quotas.counted = clock.Never
}
