//! The server's clock, which somebody sets.

use distlock_testkit::{docker::SETTABLE_CLOCK, framing::Framing};

use crate::common::{
    cases::clocked::Kind,
    cases_of,
    postgres::{IMAGE, Postgres},
};

static KIND: Kind = Kind {
    image: IMAGE,
    clock: &SETTABLE_CLOCK,
    options: &[],
    arguments: &["-cfsync=off"],
    framing: Framing::Postgres,
    prepare: &[],
    shows: &[
        "psql",
        "--username=postgres",
        "--command=SELECT extract(epoch FROM now())::bigint",
        "--tuples-only",
    ],
};

cases_of! { Postgres, &KIND,
    clocked::a_clock_that_is_set_forward_frees_nothing,
    clocked::a_clock_that_is_set_back_frees_nothing,
    clocked::a_dead_holder_is_put_away_by_a_clock_that_was_set_back,
    clocked::newcomer_that_only_tries_takes_the_lock_of_a_dead_holder,
    clocked::a_clock_that_is_set_forward_leaves_one_who_is_cut_off_its_time,
    clocked::a_session_that_began_while_the_clock_was_wrong_is_left_its_time,
    clocked::a_session_that_began_while_the_clock_was_a_little_wrong_is_left_its_time,
}
