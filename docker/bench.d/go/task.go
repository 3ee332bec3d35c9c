package main

import (
	"encoding/json"
	"errors"
)

// Task is the bench's order to a process: see benches/src/task.rs.
type Task struct {
	Servers   []string `json:"servers"`
	Namespace string   `json:"namespace"`
	Work      struct {
		Pairs *Pairs
	} `json:"work"`
}

// Pairs are tasks that lock and unlock in a loop.
type Pairs struct {
	Tasks     int    `json:"tasks"`
	Names     string `json:"names"`
	WarmupMs  uint64 `json:"warmup_ms"`
	RunMs     uint64 `json:"run_ms"`
	RawWrites int    `json:"raw_writes"`
	Stamps    bool   `json:"stamps"`
	Primitive string `json:"primitive"`
}

// parse reads the argument after --role.
func parse(args []string) (Task, error) {
	var role struct{ Subject *Task }
	if len(args) != 2 || args[0] != "--role" {
		return Task{}, errors.New("the arguments are --role and a role")
	}
	if err := json.Unmarshal([]byte(args[1]), &role); err != nil {
		return Task{}, err
	}
	if role.Subject == nil || role.Subject.Work.Pairs == nil {
		return Task{}, errors.New("only pairs can be measured of this one")
	}
	return *role.Subject, nil
}
