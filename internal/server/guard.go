package server

import (
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// guard answers only those who may ask. Requests that a page of another origin makes a
// browser send are refused, so that a page elsewhere cannot use the server of whoever
// reads it; nor can a name that was made to point at this machine.
func guard(o *Options, next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	if o.Origin != "" {
		if err := origins.AddTrustedOrigin(o.Origin); err != nil {
			panic("server: origin " + o.Origin + ": " + err.Error()) // checked by [CheckOrigin]
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if o.Local && !localName(r.Host) {
			writeProblem(w, newProblem(http.StatusMisdirectedRequest, "this server answers to localhost alone"))
			return
		}
		if o.Origin != "" && r.Header.Get("Origin") == o.Origin {
			allow(w.Header(), o.Origin)
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		if err := origins.Check(r); err != nil {
			writeProblem(w, newProblem(http.StatusForbidden, "a page of another origin may not ask here"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// CheckOrigin reports what is wrong with an origin: it is a scheme and a host.
func CheckOrigin(origin string) error {
	return http.NewCrossOriginProtection().AddTrustedOrigin(origin)
}

// allow lets a page of the origin read the answer.
func allow(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Add("Vary", "Origin")
}

// localName reports whether a Host header names this machine's loopback.
func localName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return ip != nil && ip.IsLoopback()
}

// observe counts and times answers, and turns a panic into a 500 that says nothing of it.
func observe(m *metrics, next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if v := recover(); v != nil {
				if r.Context().Err() == nil { // else the client has gone, and writing to it failed
					log.Error("panic", "path", r.URL.Path, "value", v, "stack", string(debug.Stack()))
				}
				if rec.status == 0 {
					writeProblem(rec, newProblem(http.StatusInternalServerError, ""))
				}
			}
			m.answered(r.Pattern, rec.status, time.Since(start))
		}()
		next.ServeHTTP(rec, r)
	})
}

// A recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
