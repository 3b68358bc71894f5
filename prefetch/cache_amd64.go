package prefetch

func cpuid(leaf, part uint32) (a, b, c, d uint32)

// secondCache asks the processor: Intel's lists its caches in leaf 4, AMD's in leaf 0x8000001d, in one format.
func secondCache() int {
	for _, leaf := range []uint32{4, 0x8000001d} {
		if most, _, _, _ := cpuid(leaf&0x80000000, 0); most < leaf {
			continue
		}
		for part := range uint32(16) {
			a, b, c, _ := cpuid(leaf, part)
			const instructions = 2
			if kind, level := a&31, a>>5&7; level == 2 && kind != instructions {
				ways, parts, line := int(b>>22)+1, int(b>>12&1023)+1, int(b&4095)+1
				return ways * parts * line * (int(c) + 1)
			}
		}
	}
	return 0
}
