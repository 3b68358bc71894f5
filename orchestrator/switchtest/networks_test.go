package switchtest_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/generator/parameter"
)

// A networkDraw draws the tests of one seed. Switch parameters are drawn from the models' own tables, so new ones are
// covered without a change here.
type networkDraw struct{ *rand.Rand }

func newNetworkDraw(seed, stream uint64) networkDraw {
	return networkDraw{rand.New(rand.NewPCG(seed, stream))}
}

// between draws from [low, high].
func (d networkDraw) between(low, high int) int { return low + d.IntN(high-low+1) }

// magnitude draws from low to high, all orders of magnitude being equally likely.
func (d networkDraw) magnitude(low, high float64) float64 {
	return math.Exp(math.Log(low) + d.Float64()*(math.Log(high)-math.Log(low)))
}

func (d networkDraw) of(words ...string) string { return words[d.IntN(len(words))] }

// one returns true once in n draws.
func (d networkDraw) one(n int) bool { return d.IntN(n) == 0 }

// tcpNetwork draws an incast of 8 to 60 TCP senders through a switch model, with complications: sizes that segments do
// not divide, mixed links, short timeouts, windows of all sizes, traffic in both directions and of other protocols.
func (d networkDraw) tcpNetwork(model string) string {
	senders := d.between(8, 60)
	topology, hosts := d.topology(senders)
	pauses, jitter := "", d.of("0", "0", "0", "0.3", "5", "100", "1000")
	if d.one(5) {
		jitter = "0"
		pauses = fmt.Sprintf("pfc-classes: [0], pfc-xoff-bytes: %d", d.between(3000, 200_000))
	}
	size := d.of("1500", "1500", "1500", "9000", "576", strconv.Itoa(d.between(200, 9216)))
	frame, _ := strconv.Atoi(size)
	text := fmt.Sprintf("%s\nswitch-under-test: %s\n%s\nworkload:\n", topology, d.model(model, pauses),
		d.tcpHosts(size, jitter))
	budget := 6000 // segments of a network, which limits its run to a fraction of a second
	mark := d.of("", "", "", ", ip: 6", ", dscp: 10")
	for i := range d.between(1, 3) {
		if i == 0 || d.one(3) {
			text += fmt.Sprintf("  - incast: {senders: %d, %s, %s%s}\n", min(senders, hosts-1),
				d.extent(frame, budget/2/senders), d.start(), mark)
			continue
		}
		text += d.more(hosts, frame, budget/4, mark)
	}
	text += fmt.Sprintf("seed: %d\n", d.IntN(1<<30))
	if d.one(8) {
		return text + fmt.Sprintf("duration-us: %d\n", int(d.magnitude(100, 5e6)))
	}
	return text + fmt.Sprintf("deadline-us: %s\n", d.of("400000", "60000000", "60000000"))
}

func (d networkDraw) more(hosts, frame, budget int, mark string) string {
	src := d.IntN(hosts)
	dst := (src + d.between(1, hosts-1)) % hosts
	switch d.IntN(6) {
	case 0:
		count := d.between(2, 12)
		return fmt.Sprintf("  - flow: {src: %d, dst: %d, count: %d, %s, %s%s}\n", src, dst, count,
			d.extent(frame, budget/count), d.start(), mark)
	case 1: // the incast's receiver sends too
		return fmt.Sprintf("  - flow: {src: 0, dst: %d, %s, %s%s}\n", d.between(1, hosts-1), d.extent(frame, budget),
			d.start(), mark)
	case 2:
		return fmt.Sprintf("  - permutation: {%s, %s%s}\n", d.extent(frame, budget/hosts), d.start(), mark)
	case 3:
		clients := d.between(1, min(9, hosts-1))
		return fmt.Sprintf("  - requests: {clients: 1..%d, server: 0, count: %d, request-bytes: %d, response-bytes: %d, "+
			"service-us: %s%s}\n", clients,
			d.between(1, 10), int(d.magnitude(1, 20_000)), int(d.magnitude(1, 100_000)), d.of("0", "0", "10", "5000"), mark)
	case 4:
		return fmt.Sprintf("  - flow: {src: %d, dst: %d, packets: %d, transport: raw}\n", src, dst, d.between(1, 400))
	default:
		return fmt.Sprintf("  - ping: {src: %d, dst: %d, count: %d}\n", src, dst, d.between(1, 10))
	}
}

// extent draws the size of a flow, of roughly up to segments segments.
func (d networkDraw) extent(frame, segments int) string {
	most := float64(max(2, segments) * frame)
	switch d.IntN(5) {
	case 0:
		return fmt.Sprintf("packets: %d", int(d.magnitude(1, most/float64(frame))))
	case 1:
		return fmt.Sprintf("bytes: %d", d.between(1, 3*frame))
	default:
		return fmt.Sprintf("bytes: %d", int(d.magnitude(1, most)))
	}
}

func (d networkDraw) start() string {
	return fmt.Sprintf("start-us: %s, stagger-us: %s", d.of("0", "0", "7", "100", "3000"),
		d.of("0", "0", "0", "0.05", "0.3", "20", "1000"))
}

func (d networkDraw) tcpHosts(size, jitter string) string {
	var more string
	if d.one(2) {
		more += ", min-rto-us: " + d.of("50", "200", "1000", "5000", "10000", "1000000")
	}
	if d.one(2) {
		more += ", delayed-ack-us: " + d.of("0", "0", "10", "100", "1000", "40000", "200000", "450000")
	}
	if d.one(2) {
		more += ", initial-window: " + d.of("1", "2", "3", "4", "16", "40", "100", "1000")
	}
	if d.one(3) {
		more += fmt.Sprintf(", receive-window-bytes: %d", int(d.magnitude(10_240, 1e6)))
	}
	more += d.tcpOptions()
	if d.one(3) {
		more += fmt.Sprintf(", first-sequence: %d", d.Uint32N(1<<32-1))
	} else if d.one(3) {
		more += fmt.Sprintf(", first-sequence: %d", math.MaxUint32-d.Uint32N(30_000))
	}
	return fmt.Sprintf("hosts: {transport: tcp, congestion-control: %s, packet-size: %s, send-jitter-us: %s%s}",
		d.of("cubic", "cubic", "reno"), size,
		jitter, more)
}

// tcpOptions draws what most hosts leave as it is.
func (d networkDraw) tcpOptions() (more string) {
	if d.one(2) {
		more += ", handshake: true"
	}
	if d.one(3) {
		more += ", rto: 3-srtt"
	}
	if d.one(3) {
		more += ", initial-rto-us: " + d.of("1000000", "3000000")
	}
	if d.one(2) {
		more += ", loss-detection: " + d.of("new-reno", "new-reno", "per-packet")
	}
	if d.one(5) {
		more += ", fast-retransmit: false"
	}
	if d.one(5) {
		more += ", limited-transmit: false"
	}
	if d.one(3) {
		more += ", quick-acks: " + d.of("0", "1", "100")
	}
	if d.one(3) {
		more += ", ack-every: " + d.of("1", "3", "8")
	}
	if d.one(5) {
		more += ", max-retries: " + d.of("1", "2", "6")
	}
	if d.one(4) {
		more += ", max-rto-us: " + d.of("1000000", "20000000")
	}
	return more + netBench(more)
}

// netBench draws options of NetBench's hosts by the others, so that what is drawn after them is as it was without them.
func netBench(others string) (more string) {
	h := fnv.New64a()
	h.Write([]byte(others))
	d := newNetworkDraw(h.Sum64(), 0)
	if d.one(4) {
		more += ", initial-ssthresh: " + d.of("2", "8", "30")
	}
	if d.one(4) {
		more += ", rto-restart: transmissions"
	}
	if d.one(4) {
		more += ", handshake-needs-ack: true"
	}
	if strings.Contains(others, "new-reno") && d.one(2) {
		more += ", timestamps: true"
	}
	return more
}

// topology draws a network with at least senders+1 hosts.
func (d networkDraw) topology(senders int) (text string, hosts int) {
	hosts = senders + 1 + d.IntN(4)
	shape := fmt.Sprintf("kind: single-switch, hosts: %d", hosts)
	routing := d.of("ecmp", "ecmp", "spray", "spray-round-robin")
	switch d.IntN(8) {
	case 0:
		hosts += hosts % 2
		shape = fmt.Sprintf("kind: dumbbell, hosts: %d", hosts)
	case 1, 2:
		leaves := d.between(2, 5)
		per := (hosts + leaves - 1) / leaves
		hosts = leaves * per
		shape = fmt.Sprintf("kind: leaf-spine, leaves: %d, spines: %d, hosts-per-leaf: %d, routing: %s", leaves,
			d.between(1, 4), per, routing)
	case 3:
		k := map[bool]int{true: 4, false: 6}[hosts <= 16]
		hosts = k * k * k / 4
		shape = fmt.Sprintf("kind: fat-tree, k: %d, routing: %s", k, routing)
	}
	text = fmt.Sprintf("topology: {%s, link: {%s}", shape, d.link("100", "100", "25", "10", "40", "400", "1"))
	if d.one(4) {
		text += fmt.Sprintf(", trunk: {%s}", d.link("400", "100", "25", "10", "1"))
	}
	if d.one(3) {
		var links []string
		for range d.between(1, 4) {
			links = append(links, fmt.Sprintf("{host: %d, gbps: %s, delay-ns: %s}", len(links)*hosts/4,
				d.of("400", "40", "7", "1", "0.1", "0.01"), d.delay()))
		}
		text += ", links: [" + strings.Join(links, ", ") + "]"
	}
	return text + "}", hosts
}

func (d networkDraw) link(gbps ...string) string {
	return fmt.Sprintf("gbps: %s, delay-ns: %s, framing-bytes: %s", d.of(gbps...), d.delay(), d.of("24", "24", "20", "0"))
}

// delay draws the delay of a link, in ns.
func (d networkDraw) delay() string {
	return d.of("0", "1", "500", "500", "500", "5000", "50000", "1000000", "20000000",
		strconv.Itoa(int(d.magnitude(10, 1e6))))
}

// model draws a switch model's parameters; in a third of the draws all have their defaults.
func (d networkDraw) model(name, more string) string {
	models := configOptions().Switches
	table := models[slices.IndexFunc(models, func(m parameter.Model) bool { return m.Name == name })].Parameters
	parts := []string{"model: " + name}
	switch {
	case name == "sai":
		parts = append(parts, d.profiles()...)
	case name == "cp" && !d.one(3):
		watermark, header := int(d.magnitude(64, 240_000)), d.between(64, 200)
		parts = append(parts, fmt.Sprintf("watermark-bytes: %d, trim-bytes: %d, data-queue-bytes: %d", watermark, header,
			watermark+header+int(d.magnitude(1, 480_000))))
	case !d.one(3):
		for i := range table {
			if p := &table[i]; d.one(3) && !strings.HasPrefix(p.Name, "pfc-") && !strings.HasPrefix(p.Name, "ecn-") {
				if v := d.value(p); v != "" {
					parts = append(parts, p.Name+": "+v)
				}
			}
		}
	}
	if more != "" {
		parts = append(parts, more)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// profiles draws the list parameters of the SAI model.
func (d networkDraw) profiles() []string {
	return []string{
		fmt.Sprintf("trim-size: %d, trim-dscp: %d, trim-queue: %d, buffer-bytes: %d, scheduler: %s", d.between(84, 400),
			d.between(0, 63), d.between(0, 7),
			int(d.magnitude(50_000, 4e6)), d.of("strict", "wrr", "dwrr")),
		fmt.Sprintf("profiles: [{queues: [0], action: %s, %s}]", d.of("trim", "trim", "drop"),
			d.of(fmt.Sprintf("limit-bytes: %d", int(d.magnitude(1500, 1e6))), "alpha: 0.1, reserved-bytes: 3000", "alpha: 8")),
	}
}

// value draws a parameter; "" is its default.
func (d networkDraw) value(p *parameter.Parameter) string {
	switch p.Kind {
	case parameter.Word:
		return d.of(p.Words...)
	case parameter.Boolean:
		return d.of("true", "false")
	case parameter.Integer, parameter.Duration, parameter.Rate:
		n, err := strconv.ParseFloat(p.Default, 64)
		if err != nil {
			return ""
		}
		most := math.Max(1000, 16*n)
		if p.Max > 0 {
			most = math.Min(most, float64(p.Max))
		}
		return strconv.Itoa(int(d.magnitude(math.Max(1, math.Max(float64(p.Min), n/16)), most)))
	case parameter.Unset, parameter.Number, parameter.Integers, parameter.List:
	}
	return ""
}

// ndpNetwork draws NDP hosts and a switch of the given model. rto lists the possible timeouts in us.
func (d networkDraw) ndpNetwork(model string, rto ...string) string {
	topology, hosts := d.topology(d.between(1, 20))
	pauses := ""
	if d.one(8) {
		pauses = fmt.Sprintf("pfc-classes: [0], pfc-xoff-bytes: %d", d.between(3000, 200_000))
	}
	size := d.of("1500", "1500", "1500", "9000", "300", strconv.Itoa(d.between(200, 9216)))
	frame, _ := strconv.Atoi(size)
	text := fmt.Sprintf("%s\nswitch-under-test: %s\nhosts: {transport: ndp, packet-size: %s, initial-window: %s, "+
		"rto-us: %s, paths: %d, pull-rate: %s}\nworkload:\n",
		topology, d.model(model, pauses), size, d.of("1", "2", "7", "30", "30", "100", "400"), d.of(rto...), d.between(1, 4),
		d.of("1", "1", "0.99", "0.5", "1.2"))
	mark := d.of("", "", "", ", ip: 6")
	for i := range d.between(1, 4) {
		senders := d.between(1, hosts-1)
		if i == 0 || d.one(3) {
			text += fmt.Sprintf("  - incast: {senders: %d, %s, %s%s}\n", senders, d.extent(frame, 1500/senders), d.start(), mark)
			continue
		}
		text += d.more(hosts, frame, 600, mark)
	}
	return text + fmt.Sprintf("seed: %d\ndeadline-us: 20000\n", d.IntN(1<<30))
}
