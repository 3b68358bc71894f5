// Package sonic drives packet trimming on a real SONiC switch: it writes the attributes of package sai into CONFIG_DB,
// reads what the switch can do from STATE_DB and what it counted from COUNTERS_DB, and puts back what it changed. These
// are hashes in a Redis server on the switch (tables and numbers as in SONiC's database_config.json).
//
// The server has neither encryption nor passwords, so only its Unix socket and loopback addresses are accepted; a
// switch elsewhere is reached through an SSH tunnel to one of them.
//
// A write into CONFIG_DB is a request: the switch's own processes notice it and program the ASIC later, and report
// refusals in the system log alone. Capabilities are therefore checked before anything is written.
package sonic
