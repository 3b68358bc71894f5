//go:build !amd64

package prefetch

func secondCache() int { return 0 }
