package config

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// prototypeTraffic is the part of the traffic that the translation of events depends on.
type prototypeTraffic struct {
	connections, messages, size, mtu int
	verbs                            []string
	perConnection                    bool
	events                           *yaml.Node
}

func (im *importer) traffic(n *yaml.Node, path string) *yaml.Node {
	t := prototypeTraffic{connections: 1, messages: 1, size: 1024, mtu: 1024, verbs: []string{"write"}}
	out, rest := mappingOf(), mappingOf()
	var qps, verb *yaml.Node
	im.each(n, path, func(key string, value *yaml.Node, path string) bool {
		switch key {
		case "num-qps":
			qps = value
		case "rdma-verb":
			verb = value
		case "data-pkt-events":
			t.events = value
		case "dscp-list":
			put(rest, "dscp", im.dscp(value, path))
		case "num-msgs-per-qp":
			put(rest, key, im.number(value, path, &t.messages))
		case "message-size":
			put(rest, key, im.number(value, path, &t.size))
		case "mtu":
			k := trafficSchema().field(key).kind
			k.decode(im.d, value, path, &t.mtu)
			put(rest, key, k.encode(&t.mtu))
		case "multi-gid", "barrier-sync", "tx-depth", "min-retransmit-timeout", "max-retransmit-retry":
			f := trafficSchema().field(key)
			var tr Traffic
			f.kind.decode(im.d, value, path, f.at(&tr))
			put(rest, key, f.kind.encode(f.at(&tr)))
		default:
			return false
		}
		return true
	})
	im.verbs(&t, verb, qps, path)
	put(out, "num-connections", scalarNode("!!int", itoa(t.connections)))
	if t.perConnection {
		put(out, "rdma-verb", list[status]{of: enum[status]{}}.encode(statuses(t.verbs)))
		put(out, "verbs-by", stringNode(ByConnection.String()))
	} else {
		put(out, "rdma-verb", stringNode(t.verbs[0]))
	}
	out.Content = append(out.Content, rest.Content...)
	if t.events != nil && im.d.fine(join(path, "message-size"), join(path, "mtu"), join(path, "num-msgs-per-qp")) {
		put(out, "iter-scope", stringNode("message"))
		put(out, "data-pkt-events", im.events(t, join(path, "data-pkt-events")))
	}
	return out
}

func statuses(words []string) *[]status {
	out := make([]status, len(words))
	for i, w := range words {
		out[i] = status(w)
	}
	return &out
}

func (im *importer) number(n *yaml.Node, path string, dst *int) *yaml.Node {
	k := integer{min: 1, max: maxMessageSize}
	k.decode(im.d, n, path, dst)
	return k.encode(dst)
}

// dscp returns the first of the prototype's list of codepoints.
func (im *importer) dscp(n *yaml.Node, path string) *yaml.Node {
	first, more, _ := strings.Cut(n.Value, ",")
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
		first = n.Content[0].Value
		more = strings.Repeat("x", len(n.Content)-1)
	}
	v, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || v < 0 || v > 63 {
		im.d.problem(n, path, "is "+show(n), "it takes DSCPs from 0 to 63, separated by commas")
		return nil
	}
	if more != "" {
		im.note("dscp-list had several codepoints; all connections use the first, %d.", v)
	}
	return scalarNode("!!int", itoa(v))
}

// verbs sets verb and number of connections. With send_read, num-qps is "S,R": S connections send and R read.
func (im *importer) verbs(t *prototypeTraffic, verb, qps *yaml.Node, path string) {
	word := "write"
	if verb != nil {
		word = strings.ToLower(strings.TrimSpace(verb.Value))
	}
	counts := []string{"1"}
	if qps != nil {
		counts = strings.Split(qps.Value, ",")
	}
	numbers := make([]int, len(counts))
	for i, c := range counts {
		n, err := strconv.Atoi(strings.TrimSpace(c))
		if err != nil || n < 0 || n > maxConnections {
			im.d.problem(qps, join(path, "num-qps"), "is "+show(qps),
				fmt.Sprintf("it takes a number up to %d, or two for send_read", maxConnections))
			return
		}
		numbers[i] = n
	}
	switch {
	case word == "send_read" && len(numbers) == 2:
		t.connections, t.perConnection = numbers[0]+numbers[1], true
		t.verbs = slices.Concat(slices.Repeat([]string{"send"}, numbers[0]), slices.Repeat([]string{"read"}, numbers[1]))
		if t.connections == 0 || t.connections > 256 {
			im.d.problem(qps, join(path, "num-qps"), "is "+show(qps), "send_read can be imported for 1 to 256 connections")
		}
	case word == "send_read":
		im.d.problem(verb, join(path, "rdma-verb"), "send_read needs two numbers in num-qps", "such as num-qps: 2,2")
	case slices.Contains([]string{"write", "read", "send"}, word) && len(numbers) == 1:
		t.connections, t.verbs = numbers[0], []string{word}
	case len(numbers) == 1:
		im.d.problem(verb, join(path, "rdma-verb"), "is "+show(verb), "the prototype has write, read, send and send_read")
	default:
		im.d.problem(qps, join(path, "num-qps"), "is "+show(qps), "only send_read takes several numbers")
	}
}

// events lists the prototype's events once per message, as the prototype applies them to each.
func (im *importer) events(t prototypeTraffic, path string) *yaml.Node {
	var events []prototypeEvent
	if t.events.Kind == yaml.ScalarNode && t.events.Tag == "!!null" {
		return nil
	}
	if t.events.Kind != yaml.SequenceNode {
		im.d.wrongType(t.events, path, "a list")
		return nil
	}
	packets := max(1, (t.size+t.mtu-1)/t.mtu)
	for i, item := range t.events.Content {
		itemPath := path + "[" + itoa(i) + "]"
		if item = im.d.enter(item, itemPath); item != nil {
			events = append(events, im.event(item, itemPath, packets))
			if n := t.connections; events[len(events)-1].qpn >= n && im.d.fine(join("traffic", "num-qps")) {
				im.d.problem(item, itemPath+".qpn",
					fmt.Sprintf("%d is past the last connection (%d)", events[len(events)-1].qpn, n-1), "the prototype counts from 0")
			}
		}
	}
	if len(events) == 0 || !im.d.fine(path) {
		return nil
	}
	out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for message := range t.messages {
		for _, e := range events {
			for psn := range e.packets(packets) {
				if len(out.Content) == maxEvents {
					im.d.problem(t.events, path, fmt.Sprintf("applied to each message, these are more than %d events", maxEvents), "")
					return nil
				}
				out.Content = append(out.Content, e.encode(message*packets+psn))
			}
		}
	}
	if t.messages > 1 && len(events) > 0 {
		im.note("The prototype applies its events to each of the %d messages; they are all listed.", t.messages)
	}
	return out
}

// prototypeEvent is an event in the prototype's form: counted from 0, within a message.
type prototypeEvent struct {
	qpn, psn, round int // psn -1: all
	action          string
}

// packets yields the indices, from 0, of the packets that the event selects in a message of n packets.
func (e prototypeEvent) packets(n int) iter.Seq[int] {
	first, last := e.psn, e.psn
	if e.psn < 0 {
		first, last = 0, n-1
	}
	return func(yield func(int) bool) {
		for psn := first; psn <= last && yield(psn); psn++ {
		}
	}
}

func (e prototypeEvent) encode(psn int) *yaml.Node {
	n := mappingOf(stringNode("qpn"), scalarNode("!!int", itoa(e.qpn+1)), stringNode("psn"),
		scalarNode("!!int", itoa(psn+1)),
		stringNode("type"), stringNode(e.action), stringNode("iter"), scalarNode("!!int", itoa(e.round)))
	n.Style = yaml.FlowStyle
	return n
}

func (im *importer) event(n *yaml.Node, path string, packets int) prototypeEvent {
	e := prototypeEvent{round: 1}
	given := make(map[string]bool)
	im.each(n, path, func(key string, value *yaml.Node, path string) bool {
		given[key] = true
		switch key {
		case "qpn":
			integer{max: maxConnections - 1, why: "the prototype counts from 0"}.decode(im.d, value, path, &e.qpn)
		case "psn":
			if strings.EqualFold(value.Value, "all") {
				e.psn = -1
				return true
			}
			integer{max: int64(packets) - 1, why: "it counts the packets of a message from 0"}.decode(im.d, value, path, &e.psn)
		case "iter":
			integer{min: 1, max: maxIter}.decode(im.d, value, path, &e.round)
		case "type":
			actions := map[string]string{"drop": "drop", "ecn": "ecn", "bit-error": "corrupt"}
			if e.action = actions[value.Value]; e.action == "" {
				im.d.problem(value, path, "is "+show(value), "the prototype has drop, ecn and bit-error")
			}
		default:
			return false
		}
		return true
	})
	for _, key := range []string{"qpn", "psn", "type"} {
		if !given[key] {
			im.d.problem(n, join(path, key), "is missing", "")
		}
	}
	return e
}
