package sonic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Database is the number of a SONiC database in the Redis server, and the separator of table name and key.
type Database struct {
	ID        int
	Separator string
}

// Databases are the three databases needed for trimming.
type Databases struct {
	Config   Database
	State    Database
	Counters Database
}

// DefaultDatabases are the numbers and separators of every released SONiC.
func DefaultDatabases() Databases {
	return Databases{Config: Database{4, "|"}, State: Database{6, "|"}, Counters: Database{2, ":"}}
}

// ParseDatabases reads SONiC's /var/run/redis/sonic-db/database_config.json, where a platform may override the
// defaults.
func ParseDatabases(document []byte) (Databases, error) {
	var file struct {
		Databases map[string]struct {
			ID        *int   `json:"id"`
			Separator string `json:"separator"`
		} `json:"DATABASES"`
	}
	if err := json.Unmarshal(document, &file); err != nil {
		return Databases{}, fmt.Errorf("database_config.json: %w", err)
	}
	var d Databases
	var errs []error
	for _, wanted := range []struct {
		name string
		into *Database
	}{{"CONFIG_DB", &d.Config}, {"STATE_DB", &d.State}, {"COUNTERS_DB", &d.Counters}} {
		entry, ok := file.Databases[wanted.name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("database_config.json: DATABASES has no %s", wanted.name))
		case entry.ID == nil || *entry.ID < 0:
			errs = append(errs, fmt.Errorf("database_config.json: %s: id is missing or negative", wanted.name))
		case entry.Separator == "":
			errs = append(errs, fmt.Errorf("database_config.json: %s: separator is missing", wanted.name))
		default:
			*wanted.into = Database{*entry.ID, entry.Separator}
		}
	}
	return d, errors.Join(errs...)
}

// Options describe the access to a switch's databases.
type Options struct {
	// Address is unix:PATH of the server's socket, or HOST:PORT with a loopback HOST. Default: SONiC's socket.
	Address   string
	Databases Databases     // zero: DefaultDatabases
	Timeout   time.Duration // of each exchange with the server; 0: 5 s
}

// DefaultAddress is the server's address on the switch itself.
const DefaultAddress = "unix:/var/run/redis/redis.sock"

const defaultTimeout = 5 * time.Second

// Switch is an open connection to the databases of one switch. It is safe for concurrent use.
type Switch struct {
	address                 string
	databases               Databases
	config, state, counters *redis.Client
}

// Open connects to the databases and checks that they belong to a SONiC switch with a loaded configuration. The caller
// closes the Switch.
func Open(ctx context.Context, o Options) (*Switch, error) {
	network, address, err := parseAddress(o.Address)
	if err != nil {
		return nil, err
	}
	if o.Databases == (Databases{}) {
		o.Databases = DefaultDatabases()
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	client := func(d Database) *redis.Client {
		return redis.NewClient(&redis.Options{
			Network: network, Addr: address, DB: d.ID, DisableIdentity: true, Protocol: 2, MaxRetries: -1, PoolSize: 2,
			DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, ContextTimeoutEnabled: true,
		})
	}
	s := &Switch{
		address: network + ":" + address, databases: o.Databases,
		config: client(o.Databases.Config), state: client(o.Databases.State), counters: client(o.Databases.Counters),
	}
	if err := s.checkInitialised(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the connections. It does not undo Apply; Restore does.
func (s *Switch) Close() error {
	return errors.Join(s.config.Close(), s.state.Close(), s.counters.Close())
}

func parseAddress(text string) (network, address string, err error) {
	if text == "" {
		text = DefaultAddress
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", fmt.Errorf("SONiC database address %q: the path of a socket is absolute, as in %s", text,
				DefaultAddress)
		}
		return "unix", path, nil
	}
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		return "", "", fmt.Errorf("SONiC database address %q: want unix:/PATH or LOOPBACK:PORT", text)
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "", "",
			fmt.Errorf("SONiC database address %q: the server has no encryption, so only a Unix socket or a loopback address; "+
				"forward one with ssh -L 6379:127.0.0.1:6379 SWITCH", text)
	}
	return "tcp", text, nil
}

// checkInitialised distinguishes a switch from another Redis server, and a configured switch from one that is booting.
func (s *Switch) checkInitialised(ctx context.Context) error {
	got, err := s.config.Get(ctx, "CONFIG_DB_INITIALIZED").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return fmt.Errorf(
			"SONiC databases at %s: database %d has no CONFIG_DB_INITIALIZED: not a SONiC switch, or still booting",
			s.address, s.databases.Config.ID)
	case err != nil:
		return fmt.Errorf("SONiC databases at %s: %w", s.address, err)
	case got != "1" && !strings.EqualFold(got, "true"):
		return fmt.Errorf(
			"SONiC databases at %s: CONFIG_DB_INITIALIZED is %q, want 1: the switch is still loading its configuration",
			s.address, got)
	}
	return nil
}

func (d Database) key(table string, parts ...string) string {
	return strings.Join(append([]string{table}, parts...), d.Separator)
}
