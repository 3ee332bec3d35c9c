//! What threads do at once, by thousands of schedules each: up to three times, chosen at random, a
//! thread has to wait where it could go on (<https://doi.org/10.1145/1736020.1736040>).

mod carried;
mod inline;

const SCHEDULES: usize = 2_000;
const PREEMPTIONS: usize = 3;

fn explore(scenario: fn()) {
    shuttle::check_pct(scenario, SCHEDULES, PREEMPTIONS);
}
