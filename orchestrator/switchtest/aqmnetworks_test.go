package switchtest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/generator/parameter"
)

// wideAQM draws a network with active queue management: 2 to 32 hosts with links of 1 to 400 Gb/s and RTTs of up to
// some milliseconds, loads of 0.1 to 3, parameters within usual and extreme ranges, several classes and queues, hosts
// with and without ECN, and switches that stop.
func (d networkDraw) wideAQM() string {
	topology, hosts, rate, delay := d.aqmTopology()
	model, queues, frame := d.of("afd", "afd", "afd", "afd-dpp", "afd-dpp", "dpp", "red", "wred", "ecn-threshold",
		"tail-shallow", "tail-deep"), d.of("1", "1", "2", "3", "8"), d.of("1500", "1500", "1500", "9000", "576", "256")
	size, _ := strconv.Atoi(frame)
	n, _ := strconv.Atoi(queues)
	budget := int(d.magnitude(300, 20_000))              // packets that the slowest link carries
	ip, tcpClass := d.of("", "", ", ip: 6"), 8*d.IntN(n) // all of TCP
	us := max(20, float64(budget*size*8)/rate/1000)
	text := topology + "switch-under-test: {" + d.aqmSettings(model, n, hosts) + "}\n" + d.aqmHosts(frame) + "workload:\n"
	for range d.between(1, 6) {
		class, start, src := 8*d.IntN(n), int(d.Float64()*us/2), d.between(1, hosts-1)
		kind := d.IntN(6)
		if kind < 2 {
			class = tcpClass
		}
		more := fmt.Sprintf("dscp: %d, start-us: %d%s", class, start, ip)
		switch kind {
		case 0:
			text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, %s}\n", d.between(1, hosts-1),
				int(d.magnitude(1, float64(max(2, budget/hosts)))), more)
		case 1:
			text += fmt.Sprintf("  - flow: {src: %d, dst: 0, count: %d, packets: %d, transport: tcp, %s}\n", src,
				d.between(1, 6), int(d.magnitude(1, float64(budget)/4)), more)
		case 2:
			text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, transport: raw, %s}\n", d.between(1, hosts-1),
				int(d.magnitude(1, float64(max(2, budget/hosts)))), more)
		case 3:
			text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, rate-gbps: %.4f, on-us: %d, off-us: %d, stop-us: %d, %s}\n", src,
				rate*d.magnitude(0.1, 3), int(d.magnitude(5, 2000)), int(d.magnitude(5, 5000)), int(us)+start+1, more)
		default:
			text += fmt.Sprintf("  - cbr: {src: %d, dst: 0, rate-gbps: %.4f, jitter: %s, stop-us: %d, %s}\n", src,
				rate*d.magnitude(0.03, 3), d.of("0", "0.5", "0.9"), int(us)+start+1, more)
		}
	}
	if d.one(2) {
		text += "taps: {decisions: csv}\n"
	}
	if d.one(6) {
		at := 1 + int(d.Float64()*us)
		text += fmt.Sprintf("changes: [{at-us: %d, state: stopped}, {at-us: %d, state: running}]\n", at,
			min(int(1.4*us), at+int(d.magnitude(1, 1+us/4))))
	}
	return text + fmt.Sprintf("duration-us: %d\nseed: %d\n", int(1.5*us+8*delay)+1, d.IntN(1<<30))
}

// aqmTopology returns also the rate in Gb/s of the port to host 0, and the longest delay of its paths in us.
func (d networkDraw) aqmTopology() (text string, hosts int, rate, delay float64) {
	hosts = d.between(2, 32)
	shape, trunk := fmt.Sprintf("kind: single-switch, hosts: %d", hosts), ""
	switch d.IntN(5) {
	case 0:
		hosts += hosts % 2
		shape = fmt.Sprintf("kind: dumbbell, hosts: %d", hosts)
		trunk = fmt.Sprintf(", trunk: {gbps: %s, delay-ns: %d}", d.of("10", "40", "400"), int(d.magnitude(1, 1e5)))
	case 1:
		leaves, per := d.between(2, 3), d.between(1, 8)
		hosts = leaves * per
		shape = fmt.Sprintf("kind: leaf-spine, leaves: %d, spines: %d, hosts-per-leaf: %d, routing: %s", leaves,
			d.between(1, 3), per, d.of("ecmp", "spray", "spray-round-robin"))
		trunk = fmt.Sprintf(", trunk: {gbps: %s}", d.of("10", "40", "400"))
	}
	slow := d.of("1", "2.5", "10", "25", "40", "100", "400")
	rate, _ = strconv.ParseFloat(slow, 64)
	near, far := d.magnitude(1, 1.5e6), d.magnitude(1, 1.5e6)
	if d.one(2) {
		near, far = min(near, 5000), min(far, 5000)
	}
	return fmt.Sprintf("topology: {%s, link: {gbps: %s, delay-ns: %d, framing-bytes: %s}%s, "+
		"links: [{host: 0, gbps: %s, delay-ns: %d}, {host: %d, gbps: %s, delay-ns: %d}]}\n", shape,
		d.of("1", "10", "25", "100", "400"), int(near), d.of("0", "20", "24"), trunk, slow, int(d.magnitude(1, 1e5)), hosts-1,
		d.of("1", "40", "400"), int(far)), hosts, rate, (near + far + 2e5) / 1000
}

func (d networkDraw) aqmHosts(frame string) string {
	more := ""
	if transport := d.of("raw", "tcp", "tcp", "tcp"); transport == "raw" {
		more = "transport: raw, ecn: " + d.of("not-ect", "ect0", "ect1")
	} else {
		more = "transport: tcp, min-rto-us: " + d.of("200", "1000", "10000", "200000") + ", congestion-control: "
		if control := d.of("reno", "cubic", "dctcp"); control == "dctcp" {
			more += control
		} else {
			more += control + ", ecn: " + d.of("not-ect", "not-ect", "ect0", "ect1")
		}
		if d.one(2) {
			more += ", handshake: true"
		}
		if d.one(3) {
			more += ", initial-window: " + d.of("1", "40", "1000")
		}
	}
	return "hosts: {" + more + ", packet-size: " + frame + "}\n"
}

// aqmSettings draws parameters of a model by its own table, so that new ones are covered.
func (d networkDraw) aqmSettings(model string, queues, hosts int) string {
	models := configOptions().Switches
	table := models[slices.IndexFunc(models, func(m parameter.Model) bool { return m.Name == model })].Parameters
	parts := []string{"model: " + model}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if queues > 1 {
		kind := d.of("dwrr", "wrr", "strict")
		add("queues: %d, scheduler: %s", queues, kind)
		if kind != "strict" {
			weights := make([]string, queues)
			for i := range weights {
				weights[i] = d.of("0", "1", "1", "2", "100")
			}
			weights[0] = d.of("1", "100")
			add("weights: [%s]", strings.Join(weights, ", "))
		}
	}
	extreme := d.one(3)
	policies := d.one(2)
	low := 0
	for i := range table {
		name := table[i].Name
		if often := map[bool]int{true: 2, false: 3}[extreme]; !d.one(often) {
			continue
		}
		switch v, ok := d.aqmValue(name, extreme); {
		case name == "min-bytes":
			low, _ = strconv.Atoi(v)
			add("min-bytes: %d, max-bytes: %d", low, low+int(d.magnitude(1, 1e6)))
		case ok:
			add("%s: %s", name, v)
		}
	}
	if policies {
		var items []string
		for range d.between(1, 4) {
			if item := d.aqmPolicy(table, queues, hosts, extreme); item != "" {
				items = append(items, "{"+item+"}")
			}
		}
		add("attach: %s, policies: [%s]", d.of("system", "system", "interfaces"), strings.Join(items, ", "))
	}
	if d.one(12) && !strings.Contains(strings.Join(parts, ","), ",buffer-bytes") {
		add("pfc-classes: [%d], pfc-xoff-bytes: %d", d.IntN(2), int(d.magnitude(20_000, 200_000)))
	}
	if d.one(12) {
		add("ecn-threshold-bytes: %d", int(d.magnitude(1000, 1e6)))
	}
	return strings.Join(parts, ", ")
}

// aqmPolicy draws a policy of the system, of an interface, or of a queue.
func (d networkDraw) aqmPolicy(table parameter.Table, queues, hosts int, extreme bool) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+": "+value) }
	if d.one(2) {
		add("port", strconv.Itoa(d.IntN(min(hosts, 2)))) // every switch has as many
	}
	if d.one(3) {
		add("queue", strconv.Itoa(d.IntN(queues)))
	} else if d.one(3) {
		add("port-buffer-bytes", strconv.Itoa(int(d.magnitude(10_000, 1e6))))
	}
	if d.one(6) {
		add("off", d.of("true", "false"))
	}
	for _, name := range []string{"queue-desired-bytes", "kp", "ki", "d-max", "ecn", "gate", "max-probability",
		"threshold-bytes"} {
		if v, ok := d.aqmValue(name, extreme); ok && table.Find(name) >= 0 && d.one(3) {
			add(name, v)
		}
	}
	return strings.Join(parts, ", ")
}

// aqmValue draws a parameter of this family; false: another function does.
func (d networkDraw) aqmValue(name string, extreme bool) (value string, ok bool) {
	number := func(low, high, least, most float64) string {
		if extreme {
			low, high = least, most
		}
		return strconv.Itoa(int(d.magnitude(low, high)))
	}
	switch name {
	case "port-buffer-bytes", "data-queue-bytes":
		return number(20_000, 3e6, 64, 1<<30), true
	case "buffer-bytes":
		return number(50_000, 3e6, 2000, 1e8), d.one(3)
	case "queue-desired-bytes", "min-bytes", "threshold-bytes":
		return number(3000, 1.5e6, 1, 1e9), true
	case "etrap-byte-count":
		return number(3000, 1.2e6, 1, 1e12), true
	case "etrap-age-period-us":
		return number(20, 2000, 1, 1e6), true
	case "etrap-bandwidth-threshold-bytes":
		return number(64, 9000, 1, 1<<30), true
	case "etrap-profile":
		return d.of("source", "mesh", "burst", "ultra-burst"), true
	case "etrap-limits":
		return d.of("strict", "inclusive"), true
	case "etrap-weight":
		return d.of("0", "0.01", "0.25", "0.5", "0.9", "1"), true
	case "etrap-evict-hold-us":
		return number(1, 20_000, 1, 1e6), true
	case "etrap-mouse-ageing":
		return d.of("same", "never"), true
	case "etrap-scope", "dpp-scope":
		return d.of("port", "switch"), true
	case "etrap-table-size":
		return number(1, 100, 1, 1<<24), true
	case "etrap-hash-bits", "dpp-hash-bits":
		return d.of("0", "1", "4", "16", "31", "32"), true
	case "afd-period-us":
		return number(5, 200, 1, 1e6), true
	case "kp":
		return d.of("0", "0.005", "0.1", "0.5", map[bool]string{true: "1000", false: "0.05"}[extreme]), true
	case "ki":
		return d.of("0", "0.0001", "0.01", "0.05", map[bool]string{true: "1000", false: "0.001"}[extreme]), true
	case "fmin-mbps":
		return number(1, 1000, 1, 1e6), true
	case "d-max":
		return d.of("0", "0.1", "0.25", "0.5", "1"), true
	case "drop-function":
		return d.of("share", "excess"), true
	case "ecn", "gate":
		return d.of("true", "true", "false"), true
	case "dpp-max-packets":
		return number(1, 200, 1, 1<<30), true
	case "dpp-age-period-us":
		return number(10, 10_000, 1, 1e8), true
	case "dpp-first":
		return d.of("inclusive", "exclusive"), true
	case "dpp-counts":
		return d.of("all", "data"), true
	case "dpp-class":
		return d.of("0", "1", "7"), true
	case "max-probability":
		return d.of("0", "0.02", "0.3", "1"), true
	case "queue-weight":
		return d.of("0", "0.0005", "0.002", "0.05", "1"), true
	case "latency-ns":
		return number(1, 2000, 1, 100_000), true
	}
	return "", false
}
