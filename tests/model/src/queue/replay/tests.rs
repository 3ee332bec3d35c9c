//! Small traces, accepted and refused.

use super::{Refusal, all, follow, mutants, trace::Line};

/// Joins by the simulation's names: the session and client are the attempt's.
fn lines(text: &str) -> Vec<Line> {
    let read = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let line = match words[..] {
            ["put", attempt, key] => format!("put lock {key} {attempt} {attempt} {attempt}"),
            ["granted", key] => format!("granted - {key} - -"),
            _ => line.to_owned(),
        };
        Line::read(&line).unwrap_or_else(|| panic!("{line}"))
    };
    text.split(", ").map(read).collect()
}

fn outcome(text: &str) -> Result<(), Refusal> {
    follow(&lines(text), &mut 0)
}

#[test]
fn allowed_histories_are_accepted() {
    for text in [
        "put a 1, granted 1, put b 2, left 1, granted 2, left 2",
        "put a 1, put b 2, put c 3, left 2, left 1, granted 3, left 3",
        // Its owner may not know of it yet.
        "put a 1, granted 1, put b 2, deleted 1, granted 2, left 2",
        "put a 1, granted 1, put b 2, expired 1, granted 2, left 2",
        "put a 1, put b 2, closed 1, granted 2, left 2",
        // The request was applied late, and its key is searched for.
        "put a 1, put b 2, left 1, put a 3, granted 2, left 3, left 2",
        // The caller learns of its grant after its key was deleted.
        "put a 1, put b 2, left 1, deleted 2, put c 3, granted 3, granted 2, left 3",
    ] {
        assert_eq!(outcome(text), Ok(()), "{text}");
    }
}

#[test]
fn forbidden_histories_are_refused() {
    for (text, at, reason) in [
        ("put a 1, put b 2, granted 2, left 1, left 2", 2, "key 1 is ahead of key 2"),
        ("put a 1, put b 2, granted 1, granted 2", 3, "key 1 is ahead of key 2"),
        ("put a 1, put b 2, put c 3, left 2, granted 3", 4, "key 1 is ahead of key 3"),
        ("put a 1, put b 2, left 2, left 1, granted 2", 4, "key 2 was deleted while"),
        ("put a 1, granted 1, granted 1", 2, "key 1 was granted before"),
        ("put a 1, granted 2", 1, "key 2 never was in a queue"),
        ("put a 1, left 1, left 1", 2, "key 1 is not in queue lock"),
        ("put a 2, left 2, put b 1", 2, "its number does not rise"),
        ("put a 1, put a 2", 1, "a repeated request creates no second key"),
        ("put a 1, expired 1, put a 2", 1, "session a still exists later"),
        ("put a 1, granted 1", 2, "key 1 is left"),
    ] {
        let Err(refusal) = outcome(text) else { panic!("{text}") };
        assert_eq!(refusal.at, at, "{text}: {refusal:?}");
        assert!(refusal.reason.contains(reason), "{text}: {refusal:?}");
    }
}

/// A trace with times: the second client waits, and the third one dies while it holds the lock.
const TIMED: &str = "@10 call a1 a red, @11-13 put red 5 s1 a n5, @14 granted a1 5 n5 90, \
    @15 call b1 b red, @16-18 put red 8 s2 b n8, @17 call c1 c red, @18-20 put red 9 s3 c n9, \
    @20 release 5 a, @22-24 gone 5, @25 released 5, @24-26 alive s1, @26 granted b1 8 n8 95, \
    @27 until 8 120, @30 release 8 b, @32-33 gone 8, @34 released 8, @33-35 alive s2, \
    @36 granted c1 9 n9 100, @40 ended c, @41 call a2 a red, @42-43 put red 20 s1 a n20, \
    @120-130 gone 9, @132 granted a2 20 n20 200, @140 release 20 a, @141-143 gone 20, \
    @144 released 20, @145-146 alive s1";

#[test]
fn every_mutant_of_an_accepted_trace_is_refused() {
    let lines = lines(TIMED);
    assert_eq!(follow(&lines, &mut 0), Ok(()));
    for (name, change) in mutants::ALL {
        let changed = change(&lines).unwrap_or_else(|| panic!("{name}"));
        assert_ne!(changed, lines, "{name}");
        assert!(follow(&changed, &mut 0).is_err(), "{name}: {changed:?}");
    }
}

#[test]
fn events_are_written_as_they_are_read() {
    for line in lines(TIMED) {
        assert_eq!(Line::read(&line.to_string()), Some(line));
    }
}

#[test]
fn file_without_a_grant_proves_nothing() {
    let file = std::env::temp_dir().join(format!("traces-{}", std::process::id()));
    for (text, outcome) in [
        ("", None),
        ("# a\nput lock 1 a a a\nleft 1\n", None),
        ("# a\nput lock 1 a a a\ngranted - 1 - -\nleft 1\n", Some(true)),
        ("# a\nput lock 1 a a a\ngranted - 1 - -\n", Some(false)),
    ] {
        std::fs::write(&file, text).expect("a file");
        assert_eq!(all(&file).ok(), outcome, "{text}");
    }
    std::fs::remove_file(file).expect("removed");
}

/// The states of a waiter grow with the keys ahead of its own only.
#[test]
fn long_queues_are_replayed() {
    let count = 300;
    let puts = (1..=count).map(|key| format!("put a{key} {key}"));
    let turns = (1..=count).flat_map(|key| [format!("granted {key}"), format!("left {key}")]);
    let text = puts.chain(turns).collect::<Vec<_>>().join(", ");
    assert_eq!(outcome(&text), Ok(()));
}
