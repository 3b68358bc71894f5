package nic

import (
	"encoding/binary"
	"fmt"
)

// attributes calls f with each netlink attribute of b (linux/netlink.h, struct nlattr), without the flags in its type.
func attributes(b []byte, f func(kind uint16, value []byte) error) error {
	const header, flags = 4, 0xc000 // NLA_F_NESTED, NLA_F_NET_BYTEORDER
	for len(b) >= header {
		length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])&^flags
		if length < header || length > len(b) {
			return fmt.Errorf("netlink attribute %d of %d bytes, %d are left", kind, length, len(b))
		}
		if err := f(kind, b[header:length]); err != nil {
			return err
		}
		b = b[min(len(b), (length+3)&^3):]
	}
	return nil
}

// text is a string of netlink, which may end in a zero.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
