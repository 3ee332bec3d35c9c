package main

import (
	"errors"
	"sync"
)

// Turns records the holders over time, as in benches/src/turns.rs; nil if there are no other
// contenders.
type Turns struct {
	mutex    sync.Mutex
	held     bool
	released uint64
	last     int
}

// granted returns when a lock call has returned and, unless it is negative, how long after the
// start of the last unlock that was, if another contender unlocked.
func (t *Turns) granted(who int) (at uint64, gap int64, err error) {
	if t == nil {
		return now(), -1, nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	at, gap = now(), -1
	if t.held {
		return at, gap, errors.New("two held the lock at once")
	}
	t.held = true
	if t.released > 0 && t.last != who {
		gap = int64(at - t.released)
	}
	return at, gap, nil
}

// release returns when an unlock starts.
func (t *Turns) release(who int) uint64 {
	if t == nil {
		return now()
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.held, t.released, t.last = false, now(), who
	return t.released
}
