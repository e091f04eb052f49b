//go:build !unix

package source

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
