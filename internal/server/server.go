// Package server answers over HTTP what the command answers in a terminal: the same
// requests, the same reports, the same errors. It reads no file: a model is a name of the
// catalogue or a config that is sent along.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"headcount"
)

// Options say what a server shows and to whom.
type Options struct {
	Planner *headcount.Planner
	Page    http.Handler // what is not the API; nil: nothing
	Log     *slog.Logger
	Version string
	Origin  string // of pages elsewhere that may ask, "" for none
	Local   bool   // answer only those who call this machine by a name of its own
}

// Times that no honest client exceeds. Streams set deadlines of their own.
const (
	headerTime = 5 * time.Second
	bodyTime   = 30 * time.Second
	planTime   = 20 * time.Second // of one answer; a client that goes away ends it too
	answerTime = 60 * time.Second
	idleTime   = 2 * time.Minute
	stopTime   = 10 * time.Second

	maxHeaderBytes = 32 << 10
)

// New is the handler of everything that the server answers.
func New(o Options) http.Handler {
	m := newMetrics()
	mux := http.NewServeMux()
	register(mux, &o, m)
	if o.Page != nil {
		mux.Handle("/", o.Page)
	} else {
		mux.HandleFunc("/", nothing)
	}
	return observe(m, guard(&o, mux), o.Log)
}

// Serve answers on a listener until ctx ends, and then lets answers under way finish.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       bodyTime,
		WriteTimeout:      answerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := s.Shutdown(stopping)
	if errors.Is(err, context.DeadlineExceeded) {
		return s.Close()
	}
	return err
}
