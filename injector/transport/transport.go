// Package transport connects clients and servers safely: over loopback, or with mutual TLS. There is no third mode; whoever
// asks for one gets an error that says so, never a warning. An address unix:PATH is a socket in the file system that only
// its owner may use: loopback between network namespaces.
package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// ErrInsecure is what refusals to go without TLS answer to.
var ErrInsecure = errors.New("without TLS only loopback addresses are allowed")

// Files names PEM files: this side's certificate chain and key, the authorities that the other side's must come from, and
// the list of certificates that they have revoked (none if empty), which is read anew when it changes.
type Files struct {
	Cert, Key, CA string
	CRL           string
	// ServerRole is what the other side's certificate must say when this side dials; empty: nothing, as for switches of
	// other vendors.
	ServerRole Role
}

// Listen opens a listener for a gRPC server and returns the server options that protect it. With no files the address must
// be loopback or a unix socket, and callers may do everything. Otherwise clients must present a certificate from the
// authorities, and each of their calls is held to the policy.
func Listen(address string, files *Files, policy Policy) (net.Listener, []grpc.ServerOption, error) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		lis, err := listenUnix(path, files)
		return lis, keepalives(pingAfter), err
	}
	addr, err := resolve(address, files)
	if err != nil {
		return nil, nil, err
	}
	opts := keepalives(pingAfter)
	if files != nil {
		config, pool, revoked, err := files.load()
		if err != nil {
			return nil, nil, err
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
		// A resumed session would skip nothing of what VerifyConnection looks at, but outlive the chain it was made with.
		config.SessionTicketsDisabled = true
		opts = append(guard{policy, revoked}.options(), grpc.Creds(credentials.NewTLS(config)))
	}
	lis, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	return lis, opts, nil
}

// A client that has said nothing for pingAfter is asked for a sign of life, and its connection ends if none comes: the machine of one
// that lost its power, or that hangs, ends none, and a lease runs only once the stream is gone.
const (
	pingAfter = 15 * time.Second
	pingWait  = 10 * time.Second
)

func keepalives(after time.Duration) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.KeepaliveParams(keepalive.ServerParameters{Time: after, Timeout: min(after, pingWait)})}
}

// Dial returns a client connection to a P4Runtime server; it connects when it is first used. With no files the address must
// be loopback. The server's certificate must be from the authorities and name the host of address.
func Dial(address string, files *Files) (*grpc.ClientConn, error) {
	target := "passthrough:///" + address
	if strings.HasPrefix(address, unixPrefix) {
		if files != nil {
			return nil, errUnixTLS
		}
		target = address
	} else {
		addr, err := resolve(address, files)
		if err != nil {
			return nil, err
		}
		if files == nil {
			// Not the name: it may mean another machine by the time that it is dialled.
			target = "passthrough:///" + addr.String()
		}
	}
	creds := insecure.NewCredentials()
	if files != nil {
		config, pool, revoked, err := files.load()
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return errors.Join(files.checkServer(state.PeerCertificates[0]), revoked.check(state.PeerCertificates[0]))
		}
		creds = credentials.NewTLS(config)
	}
	// A target answers a failed batch with one error per update in the trailer, up to some 100 bytes each.
	const maxTrailer = 4 << 20
	return grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithMaxHeaderListSize(maxTrailer))
}

const unixPrefix = "unix:"

var errUnixTLS = errors.New("a unix: address never leaves the machine: give no certificate files")

// listenUnix makes a socket for the owner of the process alone.
func listenUnix(path string, files *Files) (net.Listener, error) {
	if files != nil {
		return nil, errUnixTLS
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	return lis, nil
}

// removeStale removes a socket that nobody serves: a server that was killed leaves one. Whatever else is there stays.
func removeStale(path string) error {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		return nil // nothing, or nothing of ours: listening tells
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: another server listens there", path), conn.Close())
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return os.Remove(path)
	}
	return nil
}

// resolve resolves address and refuses it if it needs TLS and there is none.
func resolve(address string, files *Files) (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	if files == nil && !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("address %q: %w: give certificate, key and authority files", address, ErrInsecure)
	}
	return addr, nil
}

// load reads the files; the revocation is nil if there is no list.
func (f Files) load() (*tls.Config, *x509.CertPool, *revocation, error) {
	if f.Cert == "" || f.Key == "" || f.CA == "" {
		return nil, nil, nil, errors.New("mutual TLS needs a certificate, a key and an authority file")
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	data, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("authority: %w", err)
	}
	authorities, err := parseAll(data)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("authority %s: %w", f.CA, err)
	}
	if len(authorities) == 0 {
		return nil, nil, nil, fmt.Errorf("authority %s: it holds no PEM certificate", f.CA)
	}
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AddCert(a)
	}
	var revoked *revocation
	if f.CRL != "" {
		if revoked, err = newRevocation(f.CRL, authorities); err != nil {
			return nil, nil, nil, err
		}
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}, pool, revoked, nil
}

// parseAll returns the certificates of a PEM file.
func parseAll(data []byte) (list []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return list, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, cert)
	}
}
