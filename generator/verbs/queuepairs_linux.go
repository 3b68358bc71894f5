package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Commands of the kernel's RDMA netlink (rdma/rdma_netlink.h).
const (
	rdmaDevices = 5 << 10 // RDMA_NL_NLDEV, above the command
	getDevices  = 1
	getQPs      = 10
)

// tries bounds how often a list that changes while it is read is read again.
const tries = 10

// dump asks the kernel for a list.
func dump(command int, index *uint32) ([][]byte, error) {
	for try := 1; ; try++ {
		q := nl.NewNetlinkRequest(rdmaDevices|command, unix.NLM_F_DUMP|unix.NLM_F_ACK)
		if index != nil {
			q.AddData(nl.NewRtAttr(attrDevIndex, nl.Uint32Attr(*index)))
		}
		list, err := q.Execute(unix.NETLINK_RDMA, 0)
		if err == nil || try == tries || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
	}
}

// QueuePairs lists the queue pairs of an RDMA device, of all ports and processes.
func QueuePairs(device string) (list []QueuePair, err error) {
	index, err := deviceIndex(device)
	if err != nil {
		return nil, err
	}
	messages, err := dump(getQPs, &index)
	if err != nil {
		return nil, fmt.Errorf("queue pairs of %s: %w", device, err)
	}
	for _, m := range messages {
		some, err := parseQueuePairs(m)
		if err != nil {
			return nil, fmt.Errorf("queue pairs of %s: %w", device, err)
		}
		list = append(list, some...)
	}
	return list, nil
}

// deviceIndex finds the kernel's number of a device.
func deviceIndex(device string) (uint32, error) {
	messages, err := dump(getDevices, nil)
	if err != nil {
		return 0, fmt.Errorf("RDMA devices: %w", err)
	}
	for _, m := range messages {
		var name string
		var index uint32
		err := eachAttribute(m, func(kind uint16, value []byte) error {
			switch {
			case kind == attrDevName:
				name = strings.TrimRight(string(value), "\x00")
			case kind == attrDevIndex && len(value) == 4:
				index = binary.NativeEndian.Uint32(value)
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("RDMA devices: %w", err)
		}
		if name == device {
			return index, nil
		}
	}
	return 0, fmt.Errorf("there is no RDMA device %q", device)
}
