package transport

import "testing"

// FuzzAddresses checks that any bytes give a host of the test or no host.
func FuzzAddresses(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 0, 15})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if host, ok := hostOfMAC(data, 16); ok && host >= 16 {
			t.Error(host)
		}
	})
}
