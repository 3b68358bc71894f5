package xdp

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The part of the netdev family with a driver's XDP features (Linux 6.3, netdev.yaml).
const (
	netdevFamily      = "netdev"
	netdevVersion     = 1
	netdevDevGet      = 1
	netdevIfindex     = 1
	netdevXDPFeatures = 3

	featureTransmit = 1 << 2 // NDO_XMIT: frames can be redirected to it
)

// genericHeader is struct genlmsghdr. The library does not clear the reserved bytes, which this family checks.
type genericHeader [nl.SizeofGenlmsg]byte

// Len returns the length in bytes.
func (genericHeader) Len() int { return nl.SizeofGenlmsg }

// Serialize returns the bytes.
func (h genericHeader) Serialize() []byte { return h[:] }

// canTransmit reports whether frames can be redirected to an interface. A veth can only while its peer has a program or
// GRO; the kernel skips one that cannot, without an error.
func canTransmit(ifindex int) (bool, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return false, fmt.Errorf("netlink family %s: %w", netdevFamily, err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(genericHeader{netdevDevGet, netdevVersion, 0, 0})
	request.AddData(nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(ifindex))))
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return false, fmt.Errorf("netlink family %s: %w", netdevFamily, err)
	}
	for _, m := range messages {
		attributes, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return false, fmt.Errorf("netlink family %s: %w", netdevFamily, err)
		}
		for _, a := range attributes {
			if a.Attr.Type == netdevXDPFeatures && len(a.Value) >= 8 {
				return binary.NativeEndian.Uint64(a.Value)&featureTransmit != 0, nil
			}
		}
	}
	return false, fmt.Errorf("netlink family %s: no XDP features of interface %d", netdevFamily, ifindex)
}
