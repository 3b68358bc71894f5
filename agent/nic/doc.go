// Package nic reads and changes the settings of a host's real network cards: what environment.json must say about a run
// on hardware, the congestion-control knobs that a test asks for, and the counters that analyzers compare with the
// trace.
//
// Almost all of it is files under /sys and /proc, of which each vendor's driver has its own; package nic knows them by
// driver:
//
//	mlx5     /sys/class/net/IF/ecn/{roce_np,roce_rp} (vendor's drivers) or debugfs mlx5/PCI/cc_params (the kernel's)
//	bnxt_re  configfs bnxt_re/DEV/ports/N/cc (vendor's) or debugfs bnxt_re/PCI/cc_config (the kernel's)
//	irdma    parameters of module irdma: read-only while it is loaded
//	rxe      none: software RoCE knows no DCQCN
//
// Files are reached through an [os.Root], / on a host, a made-up tree in tests. What has no file (driver and firmware
// names, pause, FEC, statistics of ethtool -S, addresses) comes from a [Control], the kernel's or a made-up one.
//
// Everything written is read back, and a value that reads back otherwise is an error naming file, value and what is
// there. [NIC.Close] writes the former values, the last change first. Nothing is clamped or approximated.
package nic
