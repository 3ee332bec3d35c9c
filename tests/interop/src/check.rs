//! Whether what the workers saw can be: no two held the lock at once, and all got their share.

use crate::line::Line;

/// What was said, and by which worker, in the order in which it was read.
pub(crate) type Log = Vec<(usize, Line)>;

/// From when to when somebody held the lock: from after it was granted to before it was given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) worker: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// All holds, in their order. One that did not end lasts for ever.
pub(crate) fn holds(log: &Log) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    for (worker, line) in log {
        match line.word.as_str() {
            "grant" => holds.push(Hold { worker: *worker, from: line.at, to: u64::MAX }),
            "release" | "killed" => {
                if let Some(hold) = holds.iter_mut().rev().find(|hold| hold.worker == *worker) {
                    hold.to = hold.to.min(line.at);
                }
            }
            _ => {}
        }
    }
    holds.sort_by_key(|hold| hold.from);
    holds
}

/// What must not be, in words; nothing if all is well.
pub(crate) fn violations(log: &Log, names: &[String]) -> Vec<String> {
    let holds = holds(log);
    let mut found: Vec<String> = log
        .iter()
        .filter(|(_, line)| matches!(line.word.as_str(), "lost" | "error"))
        .map(|(worker, line)| format!("{} {}", names[*worker], line))
        .collect();
    let mut last: Option<Hold> = None;
    for hold in holds {
        if let Some(before) = last.filter(|before| hold.from < before.to) {
            let overlap = before.to.min(hold.to).saturating_sub(hold.from) / 1_000;
            found.push(format!(
                "{} was granted while {} held ({overlap} us)",
                names[hold.worker], names[before.worker]
            ));
        }
        last = last.filter(|before| before.to > hold.to).or(Some(hold));
    }
    found
}

/// How many grants each worker had when the first was done.
pub(crate) fn shares(log: &Log, workers: usize) -> Vec<usize> {
    let first_done =
        log.iter().filter(|(_, line)| line.word == "done").map(|(_, line)| line.at).min();
    let mut shares = vec![0; workers];
    for hold in holds(log) {
        if first_done.is_none_or(|done| hold.from <= done) {
            shares[hold.worker] += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[(usize, &str)]) -> Log {
        lines.iter().filter_map(|(worker, line)| Some((*worker, Line::parse(line)?))).collect()
    }

    fn violations_in(lines: &[(usize, &str)]) -> usize {
        violations(&log(lines), &["a".to_owned(), "b".to_owned(), "c".to_owned()]).len()
    }

    #[test]
    fn one_after_the_other_is_well() {
        let turns = [
            (0, "grant 1 k"),
            (0, "release 2"),
            (1, "grant 3 k"),
            (1, "killed 4"),
            (0, "grant 5"),
            (0, "release 6"),
        ];
        assert_eq!(violations_in(&turns), 0);
    }

    #[test]
    fn overlaps_are_found_whatever_the_order_of_lines() {
        assert_eq!(
            violations_in(&[
                (1, "grant 3 k"),
                (1, "release 5"),
                (0, "grant 1 k"),
                (0, "release 4")
            ]),
            1
        );
        // Two beside one that holds for long.
        let two = [
            (0, "grant 1 k"),
            (1, "grant 2 k"),
            (1, "release 3"),
            (2, "grant 4"),
            (2, "release 5"),
            (0, "release 9"),
        ];
        assert_eq!(violations_in(&two), 2);
        assert_eq!(
            violations_in(&[(0, "grant 1 k"), (1, "grant 9 k"), (1, "release 10")]),
            1,
            "not released"
        );
    }

    #[test]
    fn what_was_lost_is_found() {
        assert_eq!(violations_in(&[(0, "grant 1 k"), (0, "lost 2"), (0, "release 3")]), 1);
    }

    #[test]
    fn shares_count_until_the_first_is_done() {
        let lines = [
            (0, "grant 1 k"),
            (0, "release 2"),
            (1, "grant 3 k"),
            (1, "release 4"),
            (1, "done 5"),
            (0, "grant 6 k"),
        ];
        assert_eq!(shares(&log(&lines), 2), [1, 1]);
    }
}
