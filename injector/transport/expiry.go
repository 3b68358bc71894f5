package transport

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"
)

// Ahead is how long before something expires there is a warning.
const Ahead = 30 * 24 * time.Hour

// warnEvery is how often a server repeats its warnings.
const warnEvery = 24 * time.Hour

// Deadline is a certificate or list that ends soon, or has ended.
type Deadline struct {
	What string // certificate, authority or revocation list
	File string
	End  time.Time
	Left time.Duration // negative: it has ended
}

// String says it on one line.
func (d Deadline) String() string {
	if d.Left < 0 {
		return fmt.Sprintf("the %s %s has expired at %s", d.What, d.File, stamp(d.End))
	}
	return fmt.Sprintf("the %s %s expires at %s, in %d days", d.What, d.File, stamp(d.End), d.Left/(24*time.Hour))
}

// Deadlines returns which files expire within [Ahead] of now. `candela agent pki renew` renews them.
func (f Files) Deadlines(now time.Time) ([]Deadline, error) {
	own, err := f.load(nil)
	if err != nil {
		return nil, err
	}
	return own.deadlines(now), nil
}

func (own *identity) deadlines(now time.Time) (list []Deadline) {
	add := func(what, file string, end time.Time) {
		if left := end.Sub(now); left < Ahead {
			list = append(list, Deadline{what, file, end, left})
		}
	}
	cert := own.current()
	add("certificate", own.files.Cert, cert.Leaf.NotAfter)
	for _, der := range cert.Certificate[1:] {
		if parent, err := x509.ParseCertificate(der); err == nil { // the pair was loaded with it
			add("intermediate certificate", own.files.Cert, parent.NotAfter)
		}
	}
	for _, a := range own.authorities {
		add("authority", own.files.CA, a.NotAfter)
	}
	if end, ok := own.revoked.ends(); ok {
		add("revocation list", own.files.CRL, end)
	}
	return list
}

// warn logs what ends soon.
func (own *identity) warn(log *slog.Logger) {
	for _, d := range own.deadlines(own.now()) {
		level, say := slog.LevelWarn, "expires soon"
		if d.Left < 0 {
			level, say = slog.LevelError, "has expired: calls are refused"
		}
		log.Log(context.Background(), level, "the "+d.What+" "+say, "file", d.File, "expires", stamp(d.End), "days-left",
			int(d.Left/(24*time.Hour)),
			"do", "candela agent pki renew, then copy the files here")
	}
}
