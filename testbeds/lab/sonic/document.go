package sonic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/sai"
)

// Row is one hash of CONFIG_DB.
type Row struct {
	Table  string            `json:"table"`
	Key    string            `json:"key"` // without the table's name: "GLOBAL", "Ethernet0|3"
	Fields map[string]string `json:"fields"`
}

func (r Row) name(d Database) string { return r.Table + d.Separator + r.Key }

// tables are the tables that a document may write, in writing order: referenced rows first.
var tables = []struct {
	name   string
	fields map[string]field
}{
	{"SWITCH_TRIMMING", map[string]field{
		"size": number(sai.MinSize, 1<<32-1), "dscp_value": either(number(0, sai.MaxDSCP), word("from-tc")),
		"tc_value": number(0, 255), "queue_index": either(number(0, 7), word("dynamic")),
	}},
	{"BUFFER_PROFILE", map[string]field{
		"pool": any1, "size": number(0, 1<<31-1), "dynamic_th": number(-8, 8), "static_th": number(0, 1<<31-1),
		"packet_discard_action": either(word("drop"), word("trim")),
	}},
	{"BUFFER_QUEUE", map[string]field{"profile": any1}},
	{"SCHEDULER", map[string]field{
		"type": either(either(word("DWRR"), word("WRR")), word("STRICT")), "weight": number(1, 100),
		"meter_type": either(word("bytes"), word("packets")),
		"cir":        number(0, 1<<62), "pir": number(0, 1<<62), "cbs": number(0, 1<<62), "pbs": number(0, 1<<62),
	}},
	{"QUEUE", map[string]field{"scheduler": any1}},
	{"TC_TO_DSCP_MAP", map[string]field{"*": number(0, sai.MaxDSCP)}},
	{"PORT_QOS_MAP", map[string]field{"tc_to_dscp_map": any1}},
	{"ACL_TABLE_TYPE", map[string]field{"MATCHES": any1, "ACTIONS": any1, "BIND_POINTS": any1}},
	{"ACL_TABLE", map[string]field{"POLICY_DESC": any1, "TYPE": any1, "STAGE": either(word("INGRESS"), word("EGRESS")),
		"PORTS": any1}},
	{"ACL_RULE", map[string]field{
		"PRIORITY": number(0, 65535), "PACKET_ACTION": word("DISABLE_TRIM"),
		"SRC_IP": prefix(4), "DST_IP": prefix(4), "SRC_IPV6": prefix(6), "DST_IPV6": prefix(6),
		"IP_PROTOCOL": number(0, 255), "DSCP": number(0, sai.MaxDSCP), "L4_SRC_PORT": number(0, 65535),
		"L4_DST_PORT": number(0, 65535),
	}},
}

// lists are the fields that JSON writes as a list; CONFIG_DB has one string, with an @ after the name.
var lists = []string{"MATCHES", "ACTIONS", "BIND_POINTS", "PORTS"}

// A field checks a value and describes the allowed values.
type field struct {
	allowed string
	ok      func(string) bool
}

var any1 = field{"not empty", func(s string) bool { return s != "" }}

func number(low, high int64) field {
	return field{fmt.Sprintf("%d to %d", low, high), func(s string) bool {
		n, err := strconv.ParseInt(s, 10, 64)
		return err == nil && n >= low && n <= high
	}}
}

func word(w string) field { return field{w, func(s string) bool { return s == w }} }

func either(a, b field) field {
	return field{a.allowed + " or " + b.allowed, func(s string) bool { return a.ok(s) || b.ok(s) }}
}

func prefix(family int) field {
	return field{fmt.Sprintf("an IPv%d prefix such as %s", family,
		map[int]string{4: "10.0.0.1/32", 6: "fd00::1/128"}[family]),
		func(s string) bool {
			p, err := netip.ParsePrefix(s)
			return err == nil && p.Addr().Is4() == (family == 4)
		}}
}

// ParseDocument reads the tables for trimming from a document in the form of SONiC's config_db.json. Every unknown
// table, field or value is an error; all errors are returned together. Rows are returned in writing order.
func ParseDocument(document []byte) ([]Row, error) {
	var content map[string]map[string]map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(document))
	if err := dec.Decode(&content); err != nil {
		return nil, fmt.Errorf("want config_db.json: {TABLE: {KEY: {FIELD: VALUE}}}: %w", err)
	}
	if dec.More() {
		return nil, errors.New("config_db.json: something follows the document")
	}
	var rows []Row
	var errs []error
	for _, t := range tables {
		for _, key := range slices.Sorted(maps.Keys(content[t.name])) {
			row, err := parseRow(t.name, key, t.fields, content[t.name][key])
			errs = append(errs, err)
			rows = append(rows, row)
		}
		delete(content, t.name)
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		errs = append(errs, fmt.Errorf("table %q is not one of trimming's (known: %s)", name,
			strings.Join(tableNames(), ", ")))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("config_db.json: no row of any table")
	}
	return rows, checkDocument(rows)
}

func tableNames() []string {
	var names []string
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

var keys = map[string]*regexp.Regexp{
	"SWITCH_TRIMMING": regexp.MustCompile(`^GLOBAL$`),
	"BUFFER_QUEUE":    regexp.MustCompile(`^[A-Za-z0-9_./-]+\|[0-9]+(-[0-9]+)?$`),
	"QUEUE":           regexp.MustCompile(`^[A-Za-z0-9_./-]+\|[0-9]+(-[0-9]+)?$`),
	"ACL_RULE":        regexp.MustCompile(`^[A-Za-z0-9_-]+\|[A-Za-z0-9_-]+$`),
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

func parseRow(table, key string, known map[string]field, content map[string]json.RawMessage) (Row, error) {
	form := keys[table]
	if form == nil {
		form = plainKey
	}
	var errs []error
	if !form.MatchString(key) {
		errs = append(errs, fmt.Errorf("%s|%s: the key should match %s", table, key, form))
	}
	row := Row{Table: table, Key: key, Fields: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		where := fmt.Sprintf("%s|%s: %s", table, key, name)
		value, err := text(content[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
			continue
		}
		check, ok := known[name]
		if star, all := known["*"]; all {
			check, ok = star, number(0, 255).ok(name)
		}
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s: no such field (known: %s)", where,
				strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		case !check.ok(value):
			errs = append(errs, fmt.Errorf("%s: %q is not allowed (allowed: %s)", where, value, check.allowed))
		}
		if slices.Contains(lists, name) {
			name += "@"
		}
		row.Fields[name] = value
	}
	if len(row.Fields) == 0 {
		errs = append(errs, fmt.Errorf("%s|%s: no field", table, key))
	}
	return row, errors.Join(errs...)
}

// text reads a string, a number or a list of strings, which CONFIG_DB joins with commas.
func text(raw json.RawMessage) (string, error) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return strings.Join(list, ","), nil
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String(), nil
	}
	return "", fmt.Errorf("%s is neither a string nor a list of strings", raw)
}

func checkDocument(rows []Row) error {
	var errs []error
	for _, r := range rows {
		if r.Table != "SWITCH_TRIMMING" {
			continue
		}
		if r.Fields["dscp_value"] == "from-tc" && r.Fields["tc_value"] == "" {
			errs = append(errs, fmt.Errorf("SWITCH_TRIMMING|GLOBAL: dscp_value from-tc needs a tc_value (%s)", sai.AttrTC))
		}
	}
	return errors.Join(errs...)
}

// Rows returns s as rows of CONFIG_DB. ACL rules are bound to ports.
func Rows(s sai.Settings, ports []string) []Row {
	rows := []Row{trimmingRow(s.Trimming)}
	for _, p := range s.Profiles {
		rows = append(rows, profileRow(p))
	}
	for _, b := range s.Bindings {
		rows = append(rows, Row{"BUFFER_QUEUE", fmt.Sprintf("%s|%d", b.Port, b.Queue),
			map[string]string{"profile": b.Profile}})
	}
	for _, m := range s.Maps {
		fields := map[string]string{}
		for tc, dscp := range m.DSCP {
			fields[strconv.Itoa(tc)] = strconv.Itoa(dscp)
		}
		rows = append(rows, Row{"TC_TO_DSCP_MAP", m.Name, fields})
	}
	for _, p := range s.PortMaps {
		rows = append(rows, Row{"PORT_QOS_MAP", p.Port, map[string]string{"tc_to_dscp_map": p.Map}})
	}
	return append(rows, ruleRows(s.Rules, ports)...)
}

func trimmingRow(t sai.Trimming) Row {
	fields := map[string]string{
		"size": strconv.Itoa(t.Size), "dscp_value": strconv.Itoa(t.DSCP), "queue_index": strconv.Itoa(t.Queue),
	}
	if t.DSCPMode == sai.FromTC {
		fields["dscp_value"], fields["tc_value"] = "from-tc", strconv.Itoa(t.TC)
	}
	if t.QueueMode == sai.Dynamic {
		fields["queue_index"] = "dynamic"
	}
	return Row{"SWITCH_TRIMMING", "GLOBAL", fields}
}

func profileRow(p sai.Profile) Row {
	fields := map[string]string{"packet_discard_action": p.Action.String(), "size": strconv.Itoa(p.Reserved)}
	if p.Pool != "" {
		fields["pool"] = p.Pool
	}
	if p.Limit > 0 {
		fields["static_th"] = strconv.Itoa(p.Limit)
	} else {
		fields["dynamic_th"] = strconv.Itoa(p.Threshold)
	}
	return Row{"BUFFER_PROFILE", p.Name, fields}
}

// aclTable is the table of our ACL rules; its type is our own, because the predefined types lack the action.
const (
	aclTable = "CANDELA_TRIM"
	aclType  = "CANDELA_TRIMMING"
)

func ruleRows(rules []sai.Rule, ports []string) []Row {
	if len(rules) == 0 {
		return nil
	}
	rows := []Row{
		{"ACL_TABLE_TYPE", aclType, map[string]string{
			"MATCHES@": "SRC_IP,DST_IP,SRC_IPV6,DST_IPV6", "ACTIONS@": "DISABLE_TRIM_ACTION", "BIND_POINTS@": "PORT",
		}},
		{"ACL_TABLE", aclTable, map[string]string{
			"POLICY_DESC": "Candela: packets that are not trimmed", "TYPE": aclType, "STAGE": "INGRESS",
			"PORTS@": strings.Join(ports, ","),
		}},
	}
	for _, r := range rules {
		fields := map[string]string{"PRIORITY": strconv.Itoa(r.Priority), "PACKET_ACTION": "DISABLE_TRIM"}
		for name, p := range map[string]netip.Prefix{"SRC_IP": r.Source, "DST_IP": r.Dest} {
			switch {
			case p.IsValid() && p.Addr().Is4():
				fields[name] = p.String()
			case p.IsValid():
				fields[name+"V6"] = p.String()
			}
		}
		rows = append(rows, Row{"ACL_RULE", aclTable + "|" + r.Name, fields})
	}
	return rows
}
