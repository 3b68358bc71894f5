// Package sonic controls packet trimming on a real SONiC switch. It writes the attributes of package sai to CONFIG_DB,
// reads capabilities from STATE_DB and counters from COUNTERS_DB, and restores what it changed. These databases are
// hashes in a Redis server on the switch (tables and numbers as in SONiC's database_config.json).
//
// The server has neither encryption nor passwords, so only its Unix socket and loopback addresses are accepted; use an
// SSH tunnel for a switch elsewhere.
//
// A write to CONFIG_DB is only a request: the switch's processes program the ASIC later and report refusals only in the
// system log. Capabilities are therefore checked before any write.
package sonic
