package sonic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"candela.dev/candela/sai"
)

// ChangeSchema names the version of a Change's JSON form.
const ChangeSchema = "candela.sonic-change/v1"

// Change lists rows that were or will be written, with the previous values: enough to restore them, also from another
// process.
type Change struct {
	Schema string   `json:"schema"`
	Switch string   `json:"switch"` // address of its databases
	Rows   []Before `json:"rows"`   // in the order of writing
}

// Before is one row of a Change, with the values that it replaces.
type Before struct {
	Row
	Existed bool              `json:"existed"`       // the row was there
	Old     map[string]string `json:"old,omitempty"` // fields of Row that were there
}

// Plan reads the values that rows would replace and checks that their references exist; it writes nothing. The caller
// stores the Change safely before Apply, so that a crash in between can be undone.
func (s *Switch) Plan(ctx context.Context, rows []Row) (Change, error) {
	capabilities, err := s.Capabilities(ctx)
	if err != nil {
		return Change{}, err
	}
	c := Change{Schema: ChangeSchema, Switch: s.address}
	var errs []error
	for _, r := range rows {
		if r.Table == "SWITCH_TRIMMING" {
			t, err := ParseTrimming(r.Fields)
			errs = append(errs, err)
			if err == nil {
				errs = append(errs, capabilities.Check(t))
			}
		}
		errs = append(errs, s.checkReferences(ctx, r, rows))
		old, err := s.config.HGetAll(ctx, r.name(s.databases.Config)).Result()
		if err != nil {
			return Change{}, fmt.Errorf("CONFIG_DB %s: %w", r.name(s.databases.Config), err)
		}
		b := Before{Row: r, Existed: len(old) > 0, Old: map[string]string{}}
		for f := range r.Fields {
			if v, ok := old[f]; ok {
				b.Old[f] = v
			}
		}
		c.Rows = append(c.Rows, b)
	}
	return c, errors.Join(errs...)
}

// checkReferences reports names in r that are defined neither in the switch nor in rows.
func (s *Switch) checkReferences(ctx context.Context, r Row, rows []Row) error {
	var errs []error
	for _, ref := range references(r) {
		planned := slices.ContainsFunc(rows, func(o Row) bool { return o.Table == ref.table && o.Key == ref.key })
		if planned {
			continue
		}
		n, err := s.config.Exists(ctx, s.databases.Config.key(ref.table, ref.key)).Result()
		if err != nil {
			return fmt.Errorf("CONFIG_DB: %w", err)
		}
		if n == 0 {
			errs = append(errs, fmt.Errorf("%s|%s: the switch has no %s|%s", r.Table, r.Key, ref.table, ref.key))
		}
	}
	return errors.Join(errs...)
}

// Apply writes c's rows in order, each row at once. If a write fails, it restores the earlier rows; the error says so.
func (s *Switch) Apply(ctx context.Context, c Change) error {
	for i, b := range c.Rows {
		name := b.name(s.databases.Config)
		if err := s.config.HSet(ctx, name, flat(b.Fields)...).Err(); err != nil {
			c.Rows = c.Rows[:i+1]
			_, undo := s.Restore(context.WithoutCancel(ctx), c, false)
			return errors.Join(fmt.Errorf("CONFIG_DB %s: %w", name, err), undo)
		}
	}
	return nil
}

// flat lists fields as arguments of HSET, in a fixed order.
func flat(fields map[string]string) []any {
	var list []any
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		list = append(list, f, fields[f])
	}
	return list
}

// A Conflict is a field that was changed by another program after Apply.
type Conflict struct {
	Row, Field            string
	Before, Written, Here string // "": the field is absent
}

func (c *Conflict) Error() string {
	return fmt.Sprintf(
		"CONFIG_DB %s %s: was %q, we wrote %q, now it is %q: somebody else changed it; left alone (force overwrites it)",
		c.Row, c.Field, c.Before, c.Written, c.Here)
}

// Restore undoes c in reverse order and returns what SONiC does not let it remove. Rows and fields that were absent are
// removed; fields whose removal the switch ignores get the proposal's defaults instead. A field that no longer has the
// value written by c is left alone and reported as a Conflict, unless force is set.
func (s *Switch) Restore(ctx context.Context, c Change, force bool) (left []string, err error) {
	if c.Schema != ChangeSchema {
		return nil, fmt.Errorf("the saved state is of schema %q, want %q", c.Schema, ChangeSchema)
	}
	var errs []error
	for _, b := range slices.Backward(c.Rows) {
		kept, err := s.restoreRow(ctx, b, force)
		left = append(left, kept...)
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}

func (s *Switch) restoreRow(ctx context.Context, b Before, force bool) (left []string, err error) {
	name := b.name(s.databases.Config)
	now, err := s.config.HGetAll(ctx, name).Result()
	if err != nil {
		return nil, fmt.Errorf("CONFIG_DB %s: %w", name, err)
	}
	var errs []error
	write, remove := map[string]string{}, []string{}
	for _, f := range slices.Sorted(maps.Keys(b.Fields)) {
		old, had := b.Old[f]
		here, has := now[f]
		switch {
		case has == had && here == old: // already restored
		case here != b.Fields[f] && !force:
			errs = append(errs, &Conflict{name, f, old, b.Fields[f], here})
		case had:
			write[f] = old
		default:
			fallback, stays := permanent(b, f)
			if stays {
				write[f] = fallback
				left = append(left, fmt.Sprintf("%s %s = %s", name, f, fallback))
				continue
			}
			remove = append(remove, f)
		}
	}
	return left, errors.Join(append(errs, s.writeBack(ctx, name, b, now, write, remove))...)
}

// writeBack restores a row in one transaction, so that the switch never sees half of it.
func (s *Switch) writeBack(ctx context.Context, name string, b Before, now, write map[string]string,
	remove []string) error {
	if len(write) == 0 && len(remove) == 0 {
		return nil
	}
	_, err := s.config.TxPipelined(ctx, func(p redis.Pipeliner) error {
		if !b.Existed && len(write) == 0 && len(remove) == len(now) {
			p.Del(ctx, name)
			return nil
		}
		if len(write) > 0 {
			p.HSet(ctx, name, flat(write)...)
		}
		if len(remove) > 0 {
			p.HDel(ctx, name, remove...)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("CONFIG_DB %s: %w", name, err)
	}
	return nil
}

// permanent returns the value that represents "absent" in a field whose removal SONiC does not support: the switch
// would keep the old value while CONFIG_DB shows none.
func permanent(b Before, field string) (value string, ok bool) {
	if b.Table == "SWITCH_TRIMMING" {
		d := trimmingRow(sai.DefaultTrimming()).Fields
		d["tc_value"] = "0"
		value, ok = d[field]
		return value, ok
	}
	// Our own profile is removed as a whole.
	return sai.Drop.String(), b.Table == "BUFFER_PROFILE" && b.Existed && field == "packet_discard_action"
}

type reference struct{ table, key string }

// references lists the names in other tables that r refers to.
func references(r Row) []reference {
	port := func() string {
		for i := range r.Key {
			if r.Key[i] == '|' {
				return r.Key[:i]
			}
		}
		return r.Key
	}
	var list []reference
	add := func(table, key string) {
		if key != "" {
			list = append(list, reference{table, key})
		}
	}
	switch r.Table {
	case "BUFFER_PROFILE":
		add("BUFFER_POOL", r.Fields["pool"])
	case "BUFFER_QUEUE":
		add("PORT", port())
		add("BUFFER_PROFILE", r.Fields["profile"])
	case "QUEUE":
		add("PORT", port())
		add("SCHEDULER", r.Fields["scheduler"])
	case "PORT_QOS_MAP":
		if r.Key != "global" {
			add("PORT", r.Key)
		}
		add("TC_TO_DSCP_MAP", r.Fields["tc_to_dscp_map"])
	case "ACL_RULE":
		add("ACL_TABLE", port())
	}
	return list
}

// ParseTrimming reads the fields of SWITCH_TRIMMING|GLOBAL; absent fields get the proposal's defaults.
func ParseTrimming(fields map[string]string) (sai.Trimming, error) {
	t := sai.DefaultTrimming()
	var errs []error
	set := func(field, attribute string, into *int) {
		text, ok := fields[field]
		if !ok {
			return
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			a, _ := sai.AttributeNamed(attribute)
			errs = append(errs, &sai.AttributeError{Attribute: attribute, Where: "SWITCH_TRIMMING|GLOBAL",
				Value: strconv.Quote(text), Allowed: a.Allowed()})
			return
		}
		*into = n
	}
	set("size", sai.AttrSize, &t.Size)
	set("tc_value", sai.AttrTC, &t.TC)
	if fields["dscp_value"] == "from-tc" {
		t.DSCPMode = sai.FromTC
	} else {
		set("dscp_value", sai.AttrDSCP, &t.DSCP)
	}
	if fields["queue_index"] == "dynamic" {
		t.QueueMode = sai.Dynamic
	} else {
		set("queue_index", sai.AttrQueue, &t.Queue)
	}
	if err := errors.Join(errs...); err != nil {
		return sai.Trimming{}, err
	}
	return t, t.Validate(sai.Limits{})
}

// Trimming reads the switch-wide settings; set reports whether they exist.
func (s *Switch) Trimming(ctx context.Context) (t sai.Trimming, set bool, err error) {
	fields, err := s.config.HGetAll(ctx, s.databases.Config.key("SWITCH_TRIMMING", "GLOBAL")).Result()
	if err != nil {
		return sai.Trimming{}, false, fmt.Errorf("CONFIG_DB SWITCH_TRIMMING|GLOBAL: %w", err)
	}
	if len(fields) == 0 {
		return sai.DefaultTrimming(), false, nil
	}
	t, err = ParseTrimming(fields)
	return t, true, err
}

// WriteTo writes c as JSON.
func (c Change) WriteTo(w io.Writer) (int64, error) {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return 0, err
	}
	n, err := w.Write(append(b, '\n'))
	return int64(n), err
}

// ParseChange reads the output of WriteTo.
func ParseChange(document []byte) (Change, error) {
	var c Change
	if err := json.Unmarshal(document, &c); err != nil {
		return Change{}, fmt.Errorf("saved state: %w", err)
	}
	if c.Schema != ChangeSchema {
		return Change{}, fmt.Errorf("saved state: schema %q, want %q", c.Schema, ChangeSchema)
	}
	for _, b := range c.Rows {
		if !slices.Contains(tableNames(), b.Table) || b.Key == "" {
			return Change{}, fmt.Errorf("saved state: %s|%s is no row of trimming", b.Table, b.Key)
		}
	}
	return c, nil
}
