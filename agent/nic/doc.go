// Package nic reads and changes the settings of a host's network cards: what environment.json must say about a run on
// hardware, the congestion-control knobs that a test asks for, and the counters that analyzers compare with the trace.
//
// Almost all of it is files under /sys and /proc, which differ by driver:
//
//	mlx5     /sys/class/net/IF/ecn/{roce_np,roce_rp} (vendor's drivers) or debugfs mlx5/PCI/cc_params (the kernel's)
//	bnxt_re  configfs bnxt_re/DEV/ports/N/cc (vendor's) or debugfs bnxt_re/PCI/cc_config (the kernel's)
//	irdma    parameters of module irdma: read-only while it is loaded
//	rxe      none: software RoCE has no DCQCN
//
// Files are reached through an [os.Root]: / on a host, a constructed tree in tests. What has no file (driver and
// firmware names, pause, FEC, statistics of ethtool -S, addresses) comes from a [Control], the kernel's or a test's.
//
// Everything written is read back, and a different value is an error with file, value and what is there. [NIC.Close]
// restores the former values, the last change first. Nothing is clamped or approximated.
package nic
