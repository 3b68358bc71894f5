package hcsfq

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// queue is a switch, and if it needs others hosts, that the tests of configs/fair have instead of HCSFQ.
type queue struct {
	name  string
	model string // of switch-under-test, without the tree
	tree  bool   // it takes the tree of the test
	hosts string // changes what hosts do: a key and its value
}

// Queues to compare with: all as large as that of HCSFQ, 320 packets. AFQ has rounds of 1500 bytes: with the artefact's
// 80 a flow may have 2560 bytes waiting, less than two packets.
func fifo() queue {
	return queue{name: "FIFO", model: "model: droptail, data-queue-packets: 320, data-queue-bytes: 1000000"}
}

func afq() queue {
	return queue{name: "AFQ", model: "model: afq, rounds: 32, round-bytes: 1500, queue-packets: 320"}
}

func spPIFO() queue {
	return queue{name: "SP-PIFO", model: "model: stfq-sp-pifo, priorities: 32, packets-per-queue: 10"}
}

func hpifo() queue {
	return queue{name: "HPIFO", model: "model: hpifo, queue-packets: 320", tree: true}
}

func csfq(more string) queue { return queue{name: "CSFQ", model: "model: csfq" + more} }

func dctcp() queue {
	q := fifo()
	q.name, q.hosts = "DCTCP", "congestion-control: dctcp"
	q.model += ", ecn-threshold-bytes: 48000"
	return q
}

// Parts of a test that a queue replaces.
var (
	underTest   = regexp.MustCompile(`(?m)^switch-under-test:.*\n(?:  .*\n)*`)
	treeOf      = regexp.MustCompile(`(?m)^  tree:.*\n(?:    .*\n)*`)
	nameOf      = regexp.MustCompile(`(?m)^name: (.*)$`)
	hostsOf     = regexp.MustCompile(`(?m)^hosts: \{`)
	expectation = regexp.MustCompile(`(?m)^expect:.*\n(?:  .*\n)*`)
)

// replaced are tests with another queue.
type replaced struct {
	files fs.ReadFileFS
	queue *queue
}

// Open implements fs.FS.
func (r replaced) Open(name string) (fs.File, error) { return r.files.Open(name) }

// ReadFile returns a test with the queue in place of HCSFQ, and without expectations, which are of HCSFQ.
func (r replaced) ReadFile(name string) ([]byte, error) {
	data, err := r.files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	text, q := string(data), r.queue
	if !underTest.MatchString(text) || !hostsOf.MatchString(text) {
		return nil, fmt.Errorf("%s has no switch-under-test or hosts that %s can replace", name, q.name)
	}
	under := "switch-under-test: {" + q.model + "}\n"
	if tree := treeOf.FindString(text); q.tree && tree != "" {
		under = "switch-under-test:\n  " + strings.ReplaceAll(q.model, ", ", "\n  ") + "\n" + tree
	}
	text = expectation.ReplaceAllString(text, "")
	text = underTest.ReplaceAllLiteralString(text, under)
	text = nameOf.ReplaceAllString(text, "name: $1-"+strings.ToLower(q.name))
	if q.hosts != "" {
		text = hostsOf.ReplaceAllString(text, "hosts: {"+q.hosts+", ")
	}
	return []byte(text), nil
}
