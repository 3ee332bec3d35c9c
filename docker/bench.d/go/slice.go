package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Slice is the result for the bench: see benches/src/slice.rs. Times are in nanoseconds, memory in
// KiB. No list may be nil, which is `null` in JSON.
type Slice struct {
	Pairs     uint64   `json:"pairs"`
	Time      uint64   `json:"time"`
	AllPairs  uint64   `json:"all_pairs"`
	Cpu       uint64   `json:"cpu"`
	Lock      []uint64 `json:"lock"`
	Unlock    []uint64 `json:"unlock"`
	Longest   uint64   `json:"longest"`
	Gap       []uint64 `json:"gap"`
	RawWrite  []uint64 `json:"raw_write"`
	Stamps    []Stamp  `json:"stamps"`
	Rss       uint64   `json:"rss"`
	RssPeak   uint64   `json:"rss_peak"`
	RssBefore uint64   `json:"rss_before"`
	Take      uint64   `json:"take"`
	Release   uint64   `json:"release"`
	Errors    uint64   `json:"errors"`
	Error     *string  `json:"error"`
}

// Stamp is one holder's turn.
type Stamp struct {
	Granted  uint64 `json:"granted"`
	Released uint64 `json:"released"`
	Task     int    `json:"task"`
}

func newSlice() *Slice {
	return &Slice{
		Lock: []uint64{}, Unlock: []uint64{}, Gap: []uint64{}, RawWrite: []uint64{}, Stamps: []Stamp{},
	}
}

// absorb adds the results of another task.
func (s *Slice) absorb(other *Slice) {
	s.Pairs += other.Pairs
	s.AllPairs += other.AllPairs
	s.Lock = append(s.Lock, other.Lock...)
	s.Unlock = append(s.Unlock, other.Unlock...)
	s.Longest = max(s.Longest, other.Longest)
	s.Gap = append(s.Gap, other.Gap...)
	s.Stamps = append(s.Stamps, other.Stamps...)
	s.Errors += other.Errors
	if s.Error == nil {
		s.Error = other.Error
	}
}

func (s *Slice) failed(err error) {
	s.Errors++
	if text := err.Error(); s.Error == nil {
		s.Error = &text
	}
}

// now returns CLOCK_MONOTONIC, which is the same in all containers of a machine.
func now() uint64 { return read(unix.CLOCK_MONOTONIC) }

// cpu returns the processor time of this process.
func cpu() uint64 { return read(unix.CLOCK_PROCESS_CPUTIME_ID) }

func read(clock int32) uint64 {
	var time unix.Timespec
	if err := unix.ClockGettime(clock, &time); err != nil {
		panic(err)
	}
	return uint64(time.Nano())
}

// memory returns the memory of this process: resident now, and the maximum so far.
func memory() (resident, peak uint64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		size, _ := strconv.ParseUint(words[1], 10, 64)
		switch words[0] {
		case "VmRSS:":
			resident = size
		case "VmHWM:":
			peak = size
		}
	}
	return resident, peak
}
