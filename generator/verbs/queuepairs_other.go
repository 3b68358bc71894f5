//go:build !linux

package verbs

import "errors"

// QueuePairs lists the queue pairs of an RDMA device; only Linux can.
func QueuePairs(string) ([]QueuePair, error) {
	return nil, errors.New("queue pairs of RDMA devices are listed on Linux only")
}
