package history

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

//go:embed schema/*.sql
var schema embed.FS

// Store is an open results store. Its methods may be called concurrently.
type Store struct {
	db     *sql.DB
	engine engine
	place  string // for messages, without password

	writing sync.Mutex
	known   *known // ids of rows that the last transaction saw
}

// engine is what differs between SQLite and PostgreSQL.
type engine struct {
	name    string
	dialect goose.Dialect
	words   *strings.Replacer // of the schema
}

var (
	sqliteEngine = engine{"SQLite", goose.DialectSQLite3, strings.NewReplacer(
		"{{INT8}}", "INTEGER", "{{TEXT}}", "TEXT", "{{CLUSTERED}}", "WITHOUT ROWID", "BYTEA", "BLOB")}
	postgresEngine = engine{"PostgreSQL", goose.DialectPostgres, strings.NewReplacer(
		"{{INT8}}", "BIGINT", "{{TEXT}}", `TEXT COLLATE "C"`, "{{CLUSTERED}}", "")}
)

// Patience bounds how long the store waits for another writer or for the server.
const (
	busyPatience    = 60 * time.Second
	connectPatience = 10 * time.Second
	// openPatience bounds opening with migrations, which several processes may attempt at once.
	openPatience = 30 * time.Second
)

// ErrUsage matches errors in what the user named: an address, a reference, a test.
var ErrUsage = errors.New("wrong usage")

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == ErrUsage }
func (e usageError) Unwrap() error      { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Open opens the store at an address: postgres://…, or a file (also sqlite:FILE), which is made if it does not exist.
// It brings an older schema up to date. The caller closes the store.
func Open(ctx context.Context, address string) (*Store, error) {
	return open(ctx, address, true)
}

// OpenExisting is [Open] for questions: a file that does not exist is an error, not a new store.
func OpenExisting(ctx context.Context, address string) (*Store, error) {
	return open(ctx, address, false)
}

func open(ctx context.Context, address string, create bool) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	s, err := connect(address, create)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		_ = s.db.Close() // nothing was written
		return nil, s.explain("open", err)
	}
	return s, nil
}

func connect(address string, create bool) (*Store, error) {
	scheme, rest, ok := strings.Cut(address, ":")
	switch {
	case address == "":
		return nil, usagef("results store: the address is empty: want a file or postgres://HOST/DATABASE")
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return connectPostgres(address)
	case ok && scheme == "sqlite":
		return connectSQLite(strings.TrimPrefix(rest, "//"), create)
	case ok && strings.HasPrefix(rest, "//"):
		return nil, usagef("results store %q: want a file, sqlite:FILE or postgres://HOST/DATABASE", redacted(address))
	}
	return connectSQLite(address, create)
}

func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		scheme, _, _ := strings.Cut(address, ":")
		return scheme + "://…"
	}
	if q := u.Query(); q.Has("password") {
		q.Set("password", "xxxxx")
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

func connectPostgres(address string) (*Store, error) {
	place := redacted(address)
	config, err := pgx.ParseConfig(address)
	if err != nil {
		var wrong *pgconn.ParseConfigError
		if errors.As(err, &wrong) { // its text repeats the address
			err = errors.Unwrap(wrong)
		}
		if err == nil {
			err = errors.New("it is not an address of PostgreSQL")
		}
		return nil, usagef("results store %s: %w", place, err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectPatience
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "candela"
	}
	// A server that stops in the middle of an answer would otherwise be waited for as long as the kernel does.
	if config.RuntimeParams["statement_timeout"] == "" {
		config.RuntimeParams["statement_timeout"] = fmt.Sprint(busyPatience.Milliseconds() * 5)
	}
	// 0, or a number of days, is how long the user means to wait.
	if limit, err := statementTimeout(config.RuntimeParams["statement_timeout"]); err == nil && limit > 0 {
		boundSilence(config, limit+config.ConnectTimeout)
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(4)
	return &Store{db: db, engine: postgresEngine, place: place}, nil
}

// statementTimeout reads a timeout as PostgreSQL does: a number of milliseconds, or one with a unit.
func statementTimeout(text string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(ms) * time.Millisecond, nil
	}
	return time.ParseDuration(strings.NewReplacer(" ", "", "min", "m").Replace(text))
}

func connectSQLite(file string, create bool) (*Store, error) {
	file = filepath.Clean(file)
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !create:
		return nil, usagef("results store %s: there is no such file; candela history import and candela run --history "+
			"make it", file)
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return nil, fmt.Errorf("results store: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("results store: %w", err)
	case info.IsDir():
		return nil, usagef("results store %s: this is a directory; want a file, such as %s", file,
			filepath.Join(file, DefaultFile))
	}
	// A transaction takes the lock when it begins, so that none fails halfway; FULL: a commit survives a power cut.
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyPatience.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)",
		"foreign_keys(1)", "cache_size(-65536)", "temp_store(MEMORY)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+options.Encode())
	if err != nil {
		return nil, fmt.Errorf("results store %s: %w", file, err)
	}
	db.SetMaxOpenConns(4)
	return &Store{db: db, engine: sqliteEngine, place: file}, nil
}

// DefaultFile is the name of a store in a directory of runs.
const DefaultFile = "history.db"

// Place returns the address of the store, without password.
func (s *Store) Place() string { return s.place }

// Close closes the store.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("results store %s: close: %w", s.place, err)
	}
	return nil
}

// translated is a file system whose files are in the words of an engine.
type translated struct {
	fs.FS
	words *strings.Replacer
}

// Open implements fs.FS.
func (t translated) Open(name string) (fs.File, error) {
	f, err := t.FS.Open(name)
	if err != nil || filepath.Ext(name) != ".sql" {
		return f, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return translatedFile{f, strings.NewReader(t.words.Replace(string(text)))}, nil
}

type translatedFile struct {
	fs.File
	text *strings.Reader
}

// Read implements fs.File.
func (f translatedFile) Read(p []byte) (int, error) { return f.text.Read(p) }

// A versionError is a store of another version of Candela.
type versionError struct{ has, knows int64 }

func (e versionError) Error() string {
	return fmt.Sprintf("its schema has version %d, this candela knows versions up to %d: use a newer candela", e.has,
		e.knows)
}

// migrate brings the schema up to date. Another process may do so at the same time; whoever comes second finds it done.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(schema, "schema")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(s.engine.dialect, s.db, translated{files, s.engine.words},
		goose.WithGoMigrations(packing()))
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	latest := sources[len(sources)-1].Version
	const attempts = 20
	for attempt := 1; ; attempt++ {
		has, err := s.version(ctx)
		switch {
		case err == nil && has == latest:
			return nil
		case err == nil && has > latest:
			return versionError{has, latest}
		case err == nil:
			_, err = provider.Up(ctx)
		}
		if err == nil || attempt == attempts || ctx.Err() != nil || !worthRetrying(err) {
			return err
		}
		pause := time.NewTimer(time.Duration(attempt) * 20 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// version returns the version of the schema; 0: there is none. A database with other tables is not touched.
func (s *Store) version(ctx context.Context) (int64, error) {
	tables := `SELECT count(*), count(CASE WHEN name = 'goose_db_version' THEN 1 END) FROM sqlite_master
		WHERE type = 'table'`
	if s.engine.dialect == goose.DialectPostgres {
		tables = `SELECT count(*), count(CASE WHEN tablename = 'goose_db_version' THEN 1 END) FROM pg_tables
			WHERE schemaname = current_schema()`
	}
	var all, ours int
	if err := s.db.QueryRowContext(ctx, tables).Scan(&all, &ours); err != nil {
		return 0, err
	}
	switch {
	case ours == 0 && all > 0:
		return 0, usageError{errors.New("this database is not a results store: it has other tables")}
	case ours == 0:
		return 0, nil
	}
	var version int64
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&version)
	return version, err
}

// worthRetrying reports whether another process may have caused err by doing the same.
func worthRetrying(err error) bool {
	var wrong usageError
	var version versionError
	var lite *sqlite.Error
	switch {
	case errors.As(err, &wrong), errors.As(err, &version):
		return false
	case errors.As(err, &lite):
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_ERROR:
			return true
		}
		return false
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "40") ||
		strings.HasPrefix(pg.Code, "42P07"))
}

// pgDiskFull is PostgreSQL's code of a disk without room (its documentation, appendix A).
const pgDiskFull = "53100"

// explain says what failed in words for the person whose store it is.
func (s *Store) explain(task string, err error) error {
	var wrong usageError
	if err == nil || errors.As(err, &wrong) && strings.HasPrefix(err.Error(), "results store") {
		return err
	}
	return fmt.Errorf("results store %s: %s: %w", s.place, task, s.meaning(err))
}

func (s *Store) meaning(err error) error {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return fmt.Errorf("the disk is full; nothing was written: %w", err)
		case sqlite3.SQLITE_NOTADB:
			return usageError{fmt.Errorf("this file is not a results store: %w", err)}
		case sqlite3.SQLITE_CORRUPT:
			return fmt.Errorf("the file is damaged; restore a copy, or make a new store from the run directories: %w", err)
		case sqlite3.SQLITE_BUSY:
			return fmt.Errorf("another process has written for more than %v: %w", busyPatience, err)
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			return fmt.Errorf("the file or its directory cannot be written: %w", err)
		}
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == pgDiskFull {
		return fmt.Errorf("the disk of the server is full; nothing was written: %w", err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the server stopped answering; what was being written is there whole or not at all, and "+
			"importing it again changes nothing: %w", err)
	}
	var network *pgconn.ConnectError
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) && s.engine.dialect == goose.DialectPostgres {
		return fmt.Errorf("the server cannot be reached: %w", err)
	}
	return err
}
