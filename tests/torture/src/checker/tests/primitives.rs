//! Histories of primitives other than the mutex, and of guarded writes.

use super::*;

/// A grant of another mode than exclusive, or of another lock: `mode` from `at` until `until`.
fn window(mode: Mode, lock: &str, at: u64, by: &str, token: u64, until: u64) -> Vec<Record> {
    let mut records = granted(at, by, token, token, until);
    if let Event::Granted { lock: of, mode: of_mode, .. } = &mut records[0].event {
        (*of, *of_mode) = (lock.to_owned(), mode);
    }
    records
}

const PERMIT: Mode = Mode::Permits { taken: 1, of: 3 };
const TWO_PERMITS: Mode = Mode::Permits { taken: 2, of: 3 };

#[test]
fn readers_together_with_a_writer_are_reported() {
    let read = |at, token, until| window(Mode::Shared, "rw", at, "c", token, until);
    let write = |at, token, until| window(Mode::Exclusive, "rw", at, "d", token, until);
    let readers = [read(800, 7, 900), read(810, 8, 950)].concat();
    assert_eq!(violated(readers.clone()), []);
    assert_eq!(violated([readers.clone(), write(951, 9, 990)].concat()), []);
    assert_eq!(violated([readers.clone(), write(920, 9, 990)].concat()), [Overlap]);
    assert_eq!(violated([write(790, 6, 805), readers.clone()].concat()), [Overlap]);
    assert_eq!(violated([write(790, 6, 900), write(800, 7, 900)].concat()), [Overlap]);
    // After a downgrade readers may share the lock, and writers may not. Before it no other holder
    // was allowed.
    let downgrading =
        |at| vec![record(at, "d", Event::Downgrading { lock: "rw".to_owned(), token: 6 })];
    assert_eq!(violated([write(790, 6, 900), downgrading(795), readers.clone()].concat()), []);
    assert_eq!(violated([write(790, 6, 900), downgrading(805), readers].concat()), [Overlap]);
    let written = [write(790, 6, 900), downgrading(795), write(850, 7, 950)].concat();
    assert_eq!(violated(written), [Overlap]);
}

#[test]
fn permits_above_the_limit_are_reported() {
    let permit = |mode, at, token, until| window(mode, "permits", at, "c", token, until);
    let three = [permit(TWO_PERMITS, 800, 7, 900), permit(PERMIT, 810, 8, 950)].concat();
    assert_eq!(violated(three.clone()), []);
    assert_eq!(violated([three.clone(), permit(TWO_PERMITS, 901, 9, 990)].concat()), []);
    assert_eq!(violated([three.clone(), permit(PERMIT, 850, 9, 990)].concat()), [Overlap]);
    assert_eq!(violated([three.clone(), permit(Mode::Exclusive, 940, 9, 990)].concat()), [Overlap]);
    // The operator deleted the key of the holder of two permits, which notices it later.
    let deleted = vec![deleted(820, 830, "/red/7")];
    assert_eq!(
        violated([three.clone(), deleted.clone(), permit(PERMIT, 850, 9, 990)].concat()),
        []
    );
    let again = permit(TWO_PERMITS, 860, 10, 990);
    assert_eq!(
        violated([three.clone(), deleted, permit(PERMIT, 850, 9, 990), again].concat()),
        [Overlap]
    );
    assert_eq!(
        violated([three, permit(TWO_PERMITS, 902, 9, 990), permit(PERMIT, 920, 10, 990)].concat()),
        [Overlap]
    );
}

#[test]
fn two_leaders_are_reported() {
    let lead = |at, by, token, until| window(Mode::Exclusive, "red!election", at, by, token, until);
    assert_eq!(violated([lead(800, "c", 7, 850), lead(860, "d", 8, 900)].concat()), []);
    assert_eq!(violated([lead(800, "c", 7, 850), lead(840, "d", 8, 900)].concat()), [Overlap]);
}

#[test]
fn locks_that_are_taken_together_are_reported_if_one_is_held() {
    let lock = |lock, at, by, until| window(Mode::Exclusive, lock, at, by, 7, until);
    let all = [lock("blue", 800, "c", 900), lock("green", 800, "c", 900)].concat();
    assert_eq!(violated(all.clone()), []);
    let held = window(Mode::Exclusive, "green", 790, "d", 6, 850);
    assert_eq!(violated([all.clone(), held.clone()].concat()), [Overlap]);
    let releasing = Event::Releasing { lock: "green".to_owned(), token: 6, limit: None };
    assert_eq!(violated([all, held, vec![record(799, "d", releasing)]].concat()), []);
}

#[test]
fn tokens_rise_for_exclusive_holders() {
    let window = |mode, at, token| window(mode, "rw", at, "c", token, at + 5);
    // Readers may return in an order other than that of their joins.
    assert_eq!(violated([window(Mode::Shared, 800, 8), window(Mode::Shared, 810, 7)].concat()), []);
    assert_eq!(violated([window(PERMIT, 800, 8), window(PERMIT, 810, 7)].concat()), []);
    assert_eq!(violated([window(PERMIT, 800, 8), window(PERMIT, 810, 8)].concat()), [Token]);
    let (readers, writer) =
        ([window(Mode::Shared, 800, 8), window(Mode::Shared, 810, 7)].concat(), Mode::Exclusive);
    assert_eq!(violated([readers.clone(), window(writer, 820, 9)].concat()), []);
    assert_eq!(violated([readers, window(writer, 820, 6)].concat()), [Token]);
    assert_eq!(violated([window(writer, 800, 8), window(Mode::Shared, 810, 7)].concat()), [Token]);
}

#[test]
fn readers_that_pass_a_writer_are_reported() {
    let key = |token| Event::KeySeen { key: format!("/red/{token}"), created: token };
    let seen = |at, token| record(at, "coordinator", key(token));
    let passed = |early: Mode, late: Mode| {
        let mut records = vec![called(850, "d", 8, Manner::Lock, None), seen(840, 9)];
        records.extend(window(early, "rw", 900, "d", 8, 950));
        records.extend(window(late, "rw", 1000, "c", 9, 1050));
        records
    };
    assert_eq!(violated(passed(Mode::Shared, Mode::Exclusive)), [Order]);
    assert_eq!(violated(passed(Mode::Exclusive, Mode::Shared)), [Order]);
    assert_eq!(violated(passed(Mode::Shared, Mode::Shared)), []);
    assert_eq!(violated(passed(PERMIT, PERMIT)), []);
}

pub(super) fn guarded(
    at: u64,
    by: &str,
    call: u64,
    token: u64,
    outcome: Option<Outcome>,
) -> Vec<Record> {
    let writing =
        record(at, by, Event::Writing { call, lock: "red".to_owned(), token, value: call });
    let returned = outcome.map(|outcome| record(at + 10, by, Event::Returned { call, outcome }));
    std::iter::once(writing).chain(returned).collect()
}

pub(super) fn saw(at: u64, token: u64, writer: u64, version: u64) -> Vec<Record> {
    let lock = "red".to_owned();
    vec![record(at, "registers", Event::Saw { lock, token, writer, value: 1, version, since: 0 })]
}

#[test]
fn guarded_writes_that_land_late_are_reported() {
    let refused = || Some(Outcome::Refused(String::new()));
    let begun = saw(1, 0, 0, 1);
    let two =
        [begun.clone(), guarded(300, "a", 10, 5, Some(Outcome::Done)), saw(610, 6, 5, 2)].concat();
    let two = [two, guarded(650, "b", 10, 6, Some(Outcome::Done)), saw(900, 0, 6, 3)].concat();
    assert_eq!(violated(two.clone()), []);
    // The write was sent after the grant to the next holder.
    let late = |outcome| guarded(620, "a", 11, 5, outcome);
    assert_eq!(violated([two.clone(), late(refused())].concat()), []);
    assert_eq!(
        violated([two.clone(), late(Some(Outcome::Done)), saw(950, 0, 6, 4)].concat()),
        [GuardedWrites]
    );
    // Its arrival is unknown. It must precede the next holder's read or write.
    let stalled = || guarded(550, "a", 11, 5, None);
    assert_eq!(violated([two.clone(), stalled()].concat()), []);
    assert_eq!(violated([two.clone(), stalled(), saw(950, 0, 5, 4)].concat()), [GuardedWrites]);
    let looked = [begun.clone(), saw(610, 6, 0, 1), stalled(), saw(620, 0, 5, 2)].concat();
    assert_eq!(violated(looked), [GuardedWrites]);
    let before = [begun.clone(), saw(610, 6, 5, 2), stalled(), saw(620, 0, 5, 2)].concat();
    assert_eq!(violated(before), []);
}

#[test]
fn guarded_writes_that_contradict_their_outcome_are_reported() {
    let written = |outcome, version| {
        [saw(1, 0, 0, 1), guarded(300, "a", 10, 5, outcome), saw(900, 0, 5, version)]
    };
    let of = |outcome, version| violated(written(outcome, version).concat());
    assert_eq!(of(Some(Outcome::Done), 2), []);
    assert_eq!(of(Some(Outcome::Done), 1), [GuardedWrites]);
    assert_eq!(of(Some(Outcome::Refused(String::new())), 1), []);
    assert_eq!(of(Some(Outcome::Refused(String::new())), 2), [GuardedWrites]);
    for version in [1, 2] {
        assert_eq!(of(Some(Outcome::Nothing), version), []);
        assert_eq!(of(None, version), []);
    }
    assert_eq!(of(None, 3), [GuardedWrites]);
}
