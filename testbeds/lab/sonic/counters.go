package sonic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"candela.dev/candela/sai"
)

// Maps of COUNTERS_DB from names to the object ids of counters.
const (
	portNames   = "COUNTERS_PORT_NAME_MAP"   // Ethernet0 → oid:0x…
	queueNames  = "COUNTERS_QUEUE_NAME_MAP"  // Ethernet0:3 → oid:0x…
	switchNames = "COUNTERS_SWITCH_NAME_MAP" // ASIC → oid:0x…
	ruleNames   = "ACL_COUNTER_RULE_MAP"     // TABLE:RULE → oid:0x…
)

// Counters reads the counters of the named ports (default: all), the switch and every ACL rule. They are as old as the
// switch's last poll: see Settled.
func (s *Switch) Counters(ctx context.Context, ports ...string) (sai.Snapshot, error) {
	r := countersReader{ctx: ctx, db: s.counters, separator: s.databases.Counters.Separator}
	oids := r.hash(portNames)
	queues := r.hash(queueNames)
	if r.err != nil {
		return sai.Snapshot{}, r.err
	}
	if len(oids) == 0 {
		return sai.Snapshot{}, fmt.Errorf("COUNTERS_DB %s is empty: are the counters on? (counterpoll port enable)",
			portNames)
	}
	if len(ports) == 0 {
		ports = slices.SortedFunc(maps.Keys(oids), comparePorts)
	}
	snapshot := sai.Snapshot{Schema: sai.Schema, TxTrim: sai.Unavailable, DroppedTrim: sai.Unavailable}
	for _, name := range ports {
		if oids[name] == "" {
			return sai.Snapshot{}, fmt.Errorf("COUNTERS_DB %s has no port %q", portNames, name)
		}
		snapshot.Ports = append(snapshot.Ports, r.port(name, oids[name], queues))
	}
	for _, oid := range r.hash(switchNames) {
		c := r.object(oid)
		snapshot.TxTrim = c.count("SAI_SWITCH_STAT_TX_TRIM_PACKETS")
		snapshot.DroppedTrim = c.count("SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS")
	}
	rules := r.hash(ruleNames)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		c := r.object(rules[name])
		snapshot.ACL = append(snapshot.ACL, sai.ACL{
			Rule: name, Packets: c.count("SAI_ACL_COUNTER_ATTR_PACKETS"), Bytes: c.count("SAI_ACL_COUNTER_ATTR_BYTES"),
		})
	}
	return snapshot, r.err
}

// countersReader reads objects and keeps the first error.
type countersReader struct {
	ctx       context.Context
	db        *redis.Client
	separator string
	err       error
}

func (r *countersReader) hash(key string) map[string]string {
	if r.err != nil {
		return nil
	}
	fields, err := r.db.HGetAll(r.ctx, key).Result()
	if err != nil {
		r.err = fmt.Errorf("COUNTERS_DB %s: %w", key, err)
	}
	return fields
}

type object struct {
	reader *countersReader
	key    string
	fields map[string]string
}

func (r *countersReader) object(oid string) object {
	key := "COUNTERS" + r.separator + oid
	return object{r, key, r.hash(key)}
}

// count returns a counter; an absent one or N/A is unavailable.
func (o object) count(name string) sai.Count {
	text, ok := o.fields[name]
	if !ok || text == "N/A" {
		return sai.Unavailable
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		if o.reader.err == nil {
			o.reader.err = fmt.Errorf("COUNTERS_DB %s %s: %q is not a count", o.key, name, text)
		}
		return sai.Unavailable
	}
	return sai.Count(n)
}

func (r *countersReader) port(name, oid string, queues map[string]string) sai.Port {
	c := r.object(oid)
	p := sai.Port{
		Name:        name,
		InPackets:   c.count("SAI_PORT_STAT_IF_IN_UCAST_PKTS"),
		InOctets:    c.count("SAI_PORT_STAT_IF_IN_OCTETS"),
		OutPackets:  c.count("SAI_PORT_STAT_IF_OUT_UCAST_PKTS"),
		OutOctets:   c.count("SAI_PORT_STAT_IF_OUT_OCTETS"),
		OutDiscards: c.count("SAI_PORT_STAT_IF_OUT_DISCARDS"),
		Trim:        c.count("SAI_PORT_STAT_TRIM_PACKETS"),
		TxTrim:      c.count("SAI_PORT_STAT_TX_TRIM_PACKETS"),
		DroppedTrim: c.count("SAI_PORT_STAT_DROPPED_TRIM_PACKETS"),
	}
	for i := 0; ; i++ {
		oid, ok := queues[name+r.separator+strconv.Itoa(i)]
		if !ok {
			return p
		}
		p.Queues = append(p.Queues, r.queue(oid))
	}
}

func (r *countersReader) queue(oid string) sai.Queue {
	q := r.object(oid)
	return sai.Queue{
		Packets: q.count("SAI_QUEUE_STAT_PACKETS"), Bytes: q.count("SAI_QUEUE_STAT_BYTES"),
		DroppedPackets: q.count("SAI_QUEUE_STAT_DROPPED_PACKETS"), DroppedBytes: q.count("SAI_QUEUE_STAT_DROPPED_BYTES"),
		Trim: q.count("SAI_QUEUE_STAT_TRIM_PACKETS"), TxTrim: q.count("SAI_QUEUE_STAT_TX_TRIM_PACKETS"),
		DroppedTrim: q.count("SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS"),
	}
}

// comparePorts orders Ethernet8 before Ethernet10.
func comparePorts(a, b string) int {
	split := func(s string) (string, int) {
		prefix := strings.TrimRight(s, "0123456789")
		n, _ := strconv.Atoi(s[len(prefix):])
		return prefix, n
	}
	pa, na := split(a)
	pb, nb := split(b)
	if c := strings.Compare(pa, pb); c != 0 {
		return c
	}
	return na - nb
}

// defaultPoll is the default of SONiC's flex counters, used if FLEX_COUNTER_TABLE has no interval.
const defaultPoll = 10 * time.Second

// PollInterval returns the longest refresh interval of the counters of ports, queues, the switch and ACLs. A disabled
// group is an error: its counters would not change.
func (s *Switch) PollInterval(ctx context.Context) (time.Duration, error) {
	var slowest time.Duration
	var errs []error
	for _, group := range []string{"PORT", "QUEUE", "SWITCH", "ACL"} {
		fields, err := s.config.HGetAll(ctx, s.databases.Config.key("FLEX_COUNTER_TABLE", group)).Result()
		if err != nil {
			return 0, fmt.Errorf("CONFIG_DB FLEX_COUNTER_TABLE|%s: %w", group, err)
		}
		if status := fields["FLEX_COUNTER_STATUS"]; status == "disable" {
			errs = append(errs, fmt.Errorf("the counters of group %s are off: counterpoll %s enable", group,
				strings.ToLower(group)))
		}
		interval := defaultPoll
		if ms, err := strconv.Atoi(fields["POLL_INTERVAL"]); err == nil && ms > 0 {
			interval = time.Duration(ms) * time.Millisecond
		}
		slowest = max(slowest, interval)
	}
	return slowest, errors.Join(errs...)
}

// Settled reads the counters until two consecutive readings agree, and returns the last. A reading begins 1.5 poll
// intervals after the end of the previous one. If ctx ends first, the error names what still changed.
func (s *Switch) Settled(ctx context.Context, ports ...string) (sai.Snapshot, error) {
	interval, err := s.PollInterval(ctx)
	if err != nil {
		return sai.Snapshot{}, err
	}
	return settle(ctx, interval, func() (sai.Snapshot, error) { return s.Counters(ctx, ports...) })
}

// settle reads until two consecutive readings agree.
func settle(ctx context.Context, interval time.Duration, read func() (sai.Snapshot, error)) (sai.Snapshot, error) {
	moved := "nothing yet: not one reading"
	restless := func(err error) error {
		cut := ctx.Err()
		// The connection has the context's deadline and may report it shortly before the context does.
		if at, ok := ctx.Deadline(); ok && errors.Is(err, os.ErrDeadlineExceeded) && time.Until(at) < interval/2 {
			cut = context.DeadlineExceeded
		}
		if cut == nil {
			return err
		}
		return fmt.Errorf("counters have not come to rest (%s): %w", moved, cut)
	}
	last, err := read()
	if err != nil {
		return sai.Snapshot{}, restless(err)
	}
	moved = "nothing yet: one reading only"
	for {
		// Not a ticker: after a slow reading its next tick would come immediately.
		select {
		case <-ctx.Done():
			return last, restless(ctx.Err())
		case <-time.After(interval + interval/2):
		}
		next, err := read()
		if err != nil {
			return last, restless(err)
		}
		if moved = difference(last, next); moved == "" {
			return next, nil
		}
		last = next
	}
}

// difference names the first port whose counters differ.
func difference(a, b sai.Snapshot) string {
	d, err := b.Since(a)
	if err != nil {
		return err.Error()
	}
	for _, p := range d.Ports {
		for i, q := range p.Queues {
			if q.Packets > 0 || q.DroppedPackets > 0 || q.Trim > 0 || q.TxTrim > 0 || q.DroppedTrim > 0 {
				return fmt.Sprintf("%s queue %d: packets +%v, dropped +%v, trimmed +%v", p.Name, i, q.Packets, q.DroppedPackets,
					q.Trim)
			}
		}
		if p.Trim > 0 || p.TxTrim > 0 || p.DroppedTrim > 0 || p.OutPackets > 0 {
			return fmt.Sprintf("%s: out +%v, trimmed +%v", p.Name, p.OutPackets, p.Trim)
		}
	}
	if d.TxTrim > 0 || d.DroppedTrim > 0 {
		return fmt.Sprintf("switch: trimmed and sent +%v, trimmed and dropped +%v", d.TxTrim, d.DroppedTrim)
	}
	return ""
}
